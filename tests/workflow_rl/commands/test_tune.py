import json
import math
import re
from pathlib import Path
from typing import Any

import pytest

from tests.cli import CART_POLE, call, refused, said_by
from tests.tiny_runs import config_of
from tests.workflow_rl.studies.search_runs import COMPLETE, answered
from workflow_rl.commands.tune import TUNE_FILE
from workflow_rl.runs.folder import read_config

optuna = pytest.importorskip("optuna")
from workflow_rl.studies import search  # noqa: E402
from workflow_rl.studies.search import Search  # noqa: E402


def resumed(path: Path, changes: dict[str, Any]) -> str:
    """The line with which an edited TUNE_FILE is refused; nothing else is in the folder after."""
    content = {"config": config_of().to_dict(), "ranges": {"learning_rate": [1e-4, 1e-2]}}
    content |= {"n_policies": 1, "finalists": 1, **changes}
    (path / TUNE_FILE).write_text(json.dumps(content))
    line = refused(call("tune --trials 1 --resume", path), str(path / TUNE_FILE))
    assert [file.name for file in path.iterdir()] == [TUNE_FILE]
    return line


@pytest.mark.system
def test_two_processes_do_not_search_in_one_folder(tmp_path, monkeypatch):
    """The second is refused, and the first ends as if it had been alone."""
    answers = []

    def meanwhile(self: Search, *arguments: Any) -> list[float]:
        answers.append(call("tune --trials 3 --resume", tmp_path))
        return [1.0]

    monkeypatch.setattr(Search, "_train", meanwhile)
    said_by("tune", CART_POLE, "--trials 2 --finalists 0 --quiet --run-dir", tmp_path)
    assert len(answers) == 2
    for other in answers:
        refused(other, f"{tmp_path} is in use")
    database = f"sqlite:///{tmp_path / 'study.db'}"
    trials = optuna.load_study(study_name="tune", storage=database).get_trials()
    assert [trial.state for trial in trials] == [COMPLETE] * 2
    said_by("tune --trials 2 --resume", tmp_path)


@pytest.mark.system
def test_a_search_of_which_every_trial_failed_names_the_cause(tmp_path):
    env = "--env tests.lying_envs:AlwaysSpoiltEnv --total-steps 300 --n-workers 1 --n-policies 1"
    result = call("tune", env, "--trials 2 --run-dir", tmp_path)
    assert result.exit_code == 1, (result.output, result.exception)
    reward = "the environment's reward is not finite at step 2 of episode 0"
    assert [reward in line for line in result.stdout.splitlines()] == [True, True]
    assert f"Error: no trial came to its end: {reward}" in result.stderr
    assert not (tmp_path / "best.json").exists()


def test_a_search_of_which_no_trial_has_a_score_says_so(tmp_path, monkeypatch):
    monkeypatch.setattr(Search, "_train", lambda *_: [-math.inf])
    said = said_by("tune", CART_POLE, "--trials 2 --run-dir", tmp_path, code=1)
    assert "Error: no trial has a score: too many episodes" in said
    assert not (tmp_path / "best.json").exists()


def test_the_table_marks_the_best_of_the_finals(tmp_path, monkeypatch):
    returns = {"trial-0": -3.0, "trial-1": -1.0, "trial-2": -2.0, "final-1": -5.0, "final-0": -6.0}

    answered(monkeypatch, lambda asked: returns[asked.name])
    monkeypatch.setattr(search, "draw", lambda *_: [])
    said = said_by("tune", CART_POLE, "--trials 3 --finalists 1 --run-dir", tmp_path)
    lines = said.splitlines()
    cells = [[cell.strip() for cell in line.split("│")[1:5]] for line in lines if "│" in line]
    assert cells == [
        ["trial", "return", "finals", "seeds"],
        *(["* 1", "-1.00", "-5.00", "3"], ["2", "-2.00", "", ""], ["0", "-3.00", "-6.00", "3"]),
    ]
    assert "3 trials to their end, 0 given up early" in lines
    assert f"best settings:  {tmp_path / 'best.json'} (trial 1)" in lines


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"ranges": "nonsense"}, "'str' object"),
        ({"ranges": {}}, "nothing to search"),
        ({"ranges": {"nonsense": [1, 2]}}, "'nonsense' is not one of learning_rate"),
        ({"ranges": {"learning_rate": [3, 1]}}, "learning_rate=3:1 is no range"),
        ({"ranges": {"discount": [0.9, 2.0]}}, "discount=0.9:2 is no range"),
        ({"ranges": {"epochs": [0.2, 0.4]}}, "epochs: 0.2 is not allowed"),
        ({"n_policies": 0}, "n_policies 0"),
        ({"n_policies": 10**9}, "n_policies 1000000000"),
        ({"finalists": -1}, "finalists -1"),
        ({"finalists": math.inf}, "infinity"),
    ],
)
def test_an_edited_search_is_refused_by_name(changes, message, tmp_path):
    assert message in resumed(tmp_path, changes)


def test_a_search_of_an_environment_that_is_gone_is_refused(tmp_path):
    gone = config_of().changed(env="Nowhere-v0", env_args={})
    assert "Nowhere-v0 cannot be made" in resumed(tmp_path, {"config": gone.to_dict()})


def test_unrolls_are_refused_of_a_resumed_search_too(tmp_path):
    config = config_of(num_steps_per_env=5, n_envs=4)
    line = resumed(tmp_path, {"config": config.to_dict(), "n_policies": 2})
    assert "num_steps_per_env: 5 does not go with several policies" in line


@pytest.mark.system
def test_the_command_end_to_end(tmp_path):
    path = tmp_path / "tuned"
    short = "--total-steps 600 --steps-per-update 300 --n-policies 1 --finalists 1"
    tune = ["tune", CART_POLE, short, "--range learning-rate=1e-4:1e-2 --trials 2 --run-dir", path]
    said = said_by(*tune)
    settings = json.loads((path / "best.json").read_text())
    assert 1e-4 <= settings["learning_rate"] <= 1e-2
    (won,) = re.findall(r"train with:.*?(train-async .*)", said)
    shown = said_by(won, "--dry-run")
    assert f"learning_rate: {settings['learning_rate']}  # " in shown
    assert "steps_per_update: 300  # option\n" in shown
    assert (path / "optimization_history.png").exists()
    assert "Warning" not in said

    refused(call(*tune), "not empty")
    on = ["tune --trials 3 --quiet --resume", path]
    refused(call(*on, "--learning-rate 1e-3"), "--learning-rate does not go with --resume")
    said_by(*on, "--n-workers 1 --worker-timeout 50")
    config = read_config(path / "trial-2" / "policy-0")
    assert (config.n_workers, config.worker_timeout) == (1, 50)
