"""The commands that train several policies: options, resuming, and a run from end to end."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from tests.cli import output_of
from tests.workflow_rl.studies.population_runs import CART_POLE
from workflow_rl.async_train_workflow_rl import train_async
from workflow_rl.commands.train_population import train_population
from workflow_rl.errors import UserError
from workflow_rl.runs.folder import read_metrics
from workflow_rl.runs.several_policies import policy_folder, read_population


@pytest.mark.parametrize(
    ("command", "arguments", "message"),
    [
        (train_async, ["--n-policies", "2", "--num-steps-per-env", "8"], "several policies"),
        (train_async, ["--n-policies", "2", "--preset", "continuous"], "several policies"),
        (train_async, ["--n-policies", "0"], "--n-policies"),
        (train_population, ["--n-policies", "1"], "--n-policies"),
        (train_population, ["--async-rl"], "--async-rl"),
        (train_population, ["--preset", "alf"], "--preset alf ("),
        (
            train_population,
            ["--preset", "sample-factory-sync"],
            "(--num-steps-per-env 32): 32 does not go with",
        ),
        (train_population, ["--range", "epochs=1:3"], "--range"),
        (train_population, ["--range", "learning-rate=3"], "--range"),
        (train_population, ["--range", "learning-rate=1:0.1"], "--range"),
        (train_population, ["--perturb-min", "2"], "--perturb-max"),
        (
            train_population,
            ["--learning-rate", "0.1", "--range", "learning-rate=0.1:1"],
            "--learning-rate",
        ),
        (train_population, ["--learning-rate", "0.1", "--entropy-coef", "0"], "--range"),
    ],
)
def test_what_several_policies_and_populations_cannot_do_is_one_line(command, arguments, message):
    result = CliRunner().invoke(command, [*CART_POLE[:2], *arguments])
    assert result.exit_code == 2
    assert message in result.output


def test_the_help_names_the_settings_that_may_have_a_range():
    text = " ".join(CliRunner().invoke(train_population, ["--help"]).output.split())
    assert "One of learning-rate, entropy-coef," in text
    assert "{" not in text


def test_a_setting_that_is_given_differs_between_no_members():
    arguments = [*CART_POLE[:2], "--n-policies", "2", "--learning-rate", "0.003", "--dry-run"]
    result = output_of("train-population", *arguments)
    assert "learning_rate: 0.003  # option\n" in result
    assert re.search(r"^entropy_coef: .*  # drawn$", result, re.MULTILINE)
    assert "gae_lambda: 0.95  # environment\n" in result


def test_the_commands_end_to_end(tmp_path):
    """Train, be told so, resume what is finished with more, evaluate and plot the folder."""
    path = tmp_path / "not there yet" / "run"
    arguments = [*CART_POLE, "--n-policies", "3", "--quiet", "--run-dir", str(path)]
    result = output_of("train-population", *arguments, "--period", "300")
    assert "meetings: " in result
    best = json.loads((path / "summary.json").read_text())["best_policy"]
    assert f"of policy {best}" in result
    of_policy = (policy_folder(path, best) / "best.safetensors").read_bytes()
    assert (path / "best.safetensors").read_bytes() == of_policy
    assert (path / "learning_curve.png").stat().st_size > 10_000

    assert "--total-steps" in output_of("train-population", "--resume", str(path), "--quiet")
    assert "train-population" in output_of("train-async", "--resume", str(path), code=2)
    more = ["--resume", str(path), "--quiet", "--total-steps", "1500"]
    output_of("train-population", *more, "--n-policies", "2", code=2)
    result = output_of("train-population", *more)
    assert read_metrics(policy_folder(path, 2))[-1]["env_steps"] >= 1500

    output_of("evaluate", str(path), "--episodes", "3", "--quiet")
    result = output_of("plot", str(path), "--output", str(tmp_path / "plot.png"))
    result = output_of("report", str(path), "--output", str(tmp_path / "report.html"))
    assert "policy-2" in (tmp_path / "report.html").read_text()
    assert "policy-0" in output_of("verify", str(path), code=2)
    assert "not empty" in output_of("train-population", *arguments, "--period", "300", code=2)


@pytest.fixture(scope="module")
def trained(tmp_path_factory) -> Path:
    """A finished population, by the command."""
    path = tmp_path_factory.mktemp("trained") / "run"
    arguments = [*CART_POLE, "--n-policies", "2", "--quiet", "--run-dir", str(path)]
    output_of("train-population", *arguments)
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
    assert message in output_of("train-population", *resume, *arguments, code=2)
    own = ["--period", str(read_population(trained).exchange["period"]), "--dry-run"]
    output_of("train-population", *resume, *own)


def test_a_member_does_not_go_on_alone(trained):
    folder = policy_folder(trained, 1)
    arguments = ["--resume", str(folder), "--total-steps", "1800", "--quiet"]
    result = output_of("train-async", *arguments, code=2)
    assert f"resumed as a whole: {trained}, with" in " ".join(result.split())


def test_stopped_after_its_last_update_it_is_finished_by_resuming(trained, tmp_path, monkeypatch):
    path = tmp_path / "run"
    shutil.copytree(trained, path)

    def full(*arguments: Any) -> None:
        raise UserError("the disk is full")

    resume = ["--resume", str(path), "--quiet"]
    with monkeypatch.context() as patch:
        patch.setattr("workflow_rl.runs.several_policies.finish_population", full)
        output_of("train-population", *resume, "--total-steps", "1200", code=2)
    output_of("train-population", *resume)
    summary = json.loads((path / "summary.json").read_text())
    assert all(one["env_steps"] >= 1200 for one in summary["policies"])
