import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.cli import CART_POLE, call, refused, said_by
from tests.workflow_rl.studies.population_runs import SHORT
from workflow_rl.errors import UserError
from workflow_rl.runs.folder import read_metrics
from workflow_rl.runs.several_policies import policy_folder, read_population


def test_the_help_names_the_settings_that_may_have_a_range():
    text = " ".join(said_by("train-population --help").split())
    assert "One of learning-rate, entropy-coef," in text
    assert "{" not in text


def test_a_setting_that_is_given_differs_between_no_members():
    options = "--n-policies 2 --learning-rate 0.003 --dry-run"
    shown = said_by("train-population", CART_POLE, options)
    assert "learning_rate: 0.003  # option\n" in shown
    assert re.search(r"^entropy_coef: .*  # drawn$", shown, re.MULTILINE)
    assert "gae_lambda: 0.95  # environment\n" in shown


def test_the_commands_end_to_end(tmp_path):
    """Train, be told so, resume what is finished with more, evaluate and plot the folder."""
    path = tmp_path / "not there yet" / "run"
    train = ["train-population", SHORT, "--n-policies 3 --period 300 --quiet --run-dir", path]
    said = said_by(*train)
    assert "meetings: " in said
    best = json.loads((path / "summary.json").read_text())["best_policy"]
    assert f"of policy {best}" in said
    of_policy = (policy_folder(path, best) / "best.safetensors").read_bytes()
    assert (path / "best.safetensors").read_bytes() == of_policy
    assert (path / "learning_curve.png").stat().st_size > 10_000

    resume = ["train-population --quiet --resume", path]
    assert "--total-steps" in said_by(*resume)
    refused(call("train-async --resume", path), "train-population")
    said_by(*resume, "--total-steps 1500 --n-policies 2", code=2)
    said_by(*resume, "--total-steps 1500")
    assert read_metrics(policy_folder(path, 2))[-1]["env_steps"] >= 1500

    said_by("evaluate", path, "--episodes 3 --quiet")
    said_by("plot", path, "--output", tmp_path / "plot.png")
    said_by("report", path, "--output", tmp_path / "report.html")
    assert "policy-2" in (tmp_path / "report.html").read_text()
    refused(call("verify", path), "policy-0")
    refused(call(*train), "not empty")


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("trained") / "run"
    said_by("train-population", SHORT, "--n-policies 2 --quiet --run-dir", path)
    return path


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("--period 7", "--period is not what"),
        ("--range discount=0.9:0.99", "--range is not what"),
        ("--init-from runs/other", "--init-from runs/other does not go with --resume"),
    ],
)
def test_what_a_resumed_population_would_ignore_is_refused(options, message, trained):
    resume = ["train-population --total-steps 1800 --resume", trained]
    refused(call(*resume, options), message)
    own = read_population(trained).exchange["period"]
    said_by(*resume, f"--period {own} --dry-run")


def test_a_member_does_not_go_on_alone(trained):
    resume = ["train-async --total-steps 1800 --quiet --resume", policy_folder(trained, 1)]
    said = " ".join(said_by(*resume, code=2).split())
    assert f"resumed as a whole: {trained}, with" in said


def test_stopped_after_its_last_update_it_is_finished_by_resuming(trained, tmp_path, monkeypatch):
    path = shutil.copytree(trained, tmp_path / "run")

    def full(*arguments: Any) -> None:
        raise UserError("the disk is full")

    resume = ["train-population --quiet --resume", path]
    with monkeypatch.context() as patch:
        patch.setattr("workflow_rl.runs.several_policies.finish_population", full)
        said_by(*resume, "--total-steps 1200", code=2)
    said_by(*resume)
    summary = json.loads((path / "summary.json").read_text())
    assert all(one["env_steps"] >= 1200 for one in summary["policies"])
