"""The commands that train several policies: options, resuming, and a run from end to end."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from tests.workflow_rl.studies.population_runs import CART_POLE
from workflow_rl.async_train_workflow_rl import train_async
from workflow_rl.commands.train_population import train_population
from workflow_rl.errors import UserError
from workflow_rl.runs.folder import read_metrics
from workflow_rl.runs.several_policies import policy_folder, read_population


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--n-policies", "2", "--num-steps-per-env", "8"], "several policies"),
        (["--n-policies", "2", "--preset", "continuous"], "several policies"),
        (["--n-policies", "0"], "--n-policies"),
    ],
)
def test_what_several_policies_cannot_do_is_one_line(arguments, message):
    result = CliRunner().invoke(train_async, [*CART_POLE[:2], *arguments])
    assert result.exit_code == 2
    assert message in result.output


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--n-policies", "1"], "--n-policies"),
        (["--async-rl"], "--async-rl"),
        (["--preset", "alf"], "--preset alf ("),
        (["--preset", "sample-factory-sync"], "(--num-steps-per-env 32): 32 does not go with"),
        (["--range", "epochs=1:3"], "--range"),
        (["--range", "learning-rate=3"], "--range"),
        (["--range", "learning-rate=1:0.1"], "--range"),
        (["--perturb-min", "2"], "--perturb-max"),
        (["--learning-rate", "0.1", "--range", "learning-rate=0.1:1"], "--learning-rate"),
        (["--learning-rate", "0.1", "--entropy-coef", "0"], "--range"),
    ],
)
def test_what_a_population_cannot_do_is_one_line(arguments, message):
    result = CliRunner().invoke(train_population, [*CART_POLE[:2], *arguments])
    assert result.exit_code == 2
    assert message in result.output


def test_the_help_names_the_settings_that_may_have_a_range():
    text = " ".join(CliRunner().invoke(train_population, ["--help"]).output.split())
    assert "One of learning-rate, entropy-coef," in text
    assert "{" not in text


def test_a_setting_that_is_given_differs_between_no_members():
    arguments = [*CART_POLE[:2], "--n-policies", "2", "--learning-rate", "0.003", "--dry-run"]
    result = CliRunner().invoke(train_population, arguments)
    assert result.exit_code == 0, result.output
    assert "learning_rate: 0.003  # option\n" in result.output
    assert re.search(r"^entropy_coef: .*  # drawn$", result.output, re.MULTILINE)
    assert "gae_lambda: 0.95  # environment\n" in result.output


def test_the_commands_end_to_end(tmp_path):
    """Train, be told so, resume what is finished with more, evaluate and plot the folder."""
    from workflow_rl.commands.evaluate import evaluate
    from workflow_rl.commands.plot import plot
    from workflow_rl.commands.report import report
    from workflow_rl.commands.verify import verify

    path = tmp_path / "not there yet" / "run"
    invoke = CliRunner().invoke
    arguments = [*CART_POLE, "--n-policies", "3", "--quiet", "--run-dir", str(path)]
    result = invoke(train_population, [*arguments, "--period", "300"])
    assert result.exit_code == 0, result.output
    assert "meetings: " in result.output
    best = json.loads((path / "summary.json").read_text())["best_policy"]
    assert f"of policy {best}" in result.output
    assert same_agent(path / "best.safetensors", policy_folder(path, best) / "best.safetensors")
    assert (path / "learning_curve.png").stat().st_size > 10_000

    finished = invoke(train_population, ["--resume", str(path), "--quiet"])
    assert finished.exit_code == 0
    assert "--total-steps" in finished.output
    other = invoke(train_async, ["--resume", str(path)])
    assert other.exit_code == 2
    assert "train-population" in other.output
    more = ["--resume", str(path), "--quiet", "--total-steps", "1500"]
    assert invoke(train_population, [*more, "--n-policies", "2"]).exit_code == 2
    result = invoke(train_population, more)
    assert result.exit_code == 0, result.output
    assert read_metrics(policy_folder(path, 2))[-1]["env_steps"] >= 1500

    assert invoke(evaluate, [str(path), "--episodes", "3", "--quiet"]).exit_code == 0
    result = invoke(plot, [str(path), "--output", str(tmp_path / "plot.png")])
    assert result.exit_code == 0, result.output
    result = invoke(report, [str(path), "--output", str(tmp_path / "report.html")])
    assert result.exit_code == 0, result.output
    assert "policy-2" in (tmp_path / "report.html").read_text()
    result = invoke(verify, [str(path)])
    assert result.exit_code == 2
    assert "policy-0" in result.output
    again = invoke(train_population, [*arguments, "--period", "300"])
    assert again.exit_code == 2
    assert "not empty" in again.output


@pytest.fixture(scope="module")
def trained(tmp_path_factory) -> Path:
    """A finished population, by the command."""
    path = tmp_path_factory.mktemp("trained") / "run"
    arguments = [*CART_POLE, "--n-policies", "2", "--quiet", "--run-dir", str(path)]
    assert CliRunner().invoke(train_population, arguments).exit_code == 0
    return path


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--period", "7"], "--period is not what"),
        (["--range", "discount=0.9:0.99"], "--range is not what"),
        (["--init-from", "runs/other"], "--init-from runs/other does not go with --resume"),
    ],
)
def test_what_a_resumed_population_would_ignore_is_refused(arguments, message, trained):
    resume = ["--resume", str(trained), "--total-steps", "1800"]
    result = CliRunner().invoke(train_population, [*resume, *arguments])
    assert result.exit_code == 2
    assert message in result.output
    own = ["--period", str(read_population(trained).exchange["period"]), "--dry-run"]
    assert CliRunner().invoke(train_population, [*resume, *own]).exit_code == 0


def test_a_member_does_not_go_on_alone(trained):
    folder = policy_folder(trained, 1)
    arguments = ["--resume", str(folder), "--total-steps", "1800", "--quiet"]
    result = CliRunner().invoke(train_async, arguments)
    assert result.exit_code == 2
    assert f"resumed as a whole: {trained}, with" in " ".join(result.output.split())


def test_stopped_after_its_last_update_it_is_finished_by_resuming(trained, tmp_path, monkeypatch):
    path = tmp_path / "run"
    shutil.copytree(trained, path)

    def full(*arguments: Any) -> None:
        raise UserError("the disk is full")

    resume = ["--resume", str(path), "--quiet"]
    with monkeypatch.context() as patch:
        patch.setattr("workflow_rl.runs.several_policies.finish_population", full)
        result = CliRunner().invoke(train_population, [*resume, "--total-steps", "1200"])
        assert result.exit_code == 2
    assert CliRunner().invoke(train_population, resume).exit_code == 0
    summary = json.loads((path / "summary.json").read_text())
    assert all(one["env_steps"] >= 1200 for one in summary["policies"])


def same_agent(one: Path, other: Path) -> bool:
    return one.read_bytes() == other.read_bytes()
