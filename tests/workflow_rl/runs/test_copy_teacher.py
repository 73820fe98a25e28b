import json
import shutil
import signal
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.cli import CART_POLE, TINY, call, refused, said_by
from tests.tiny_runs import run, same_weights, stop_before
from tests.workflow_rl.runs.small_runs import config_of
from workflow_rl.agents.policies.distributions import Categorical
from workflow_rl.agents.policies.numpy_policy import PolicyParameters
from workflow_rl.agents.policies.policy_file import load_policy, save_policy
from workflow_rl.collection.messages import StopRequested
from workflow_rl.runs import copy_teacher, loop
from workflow_rl.runs.config import TrainConfig

LESSONS = {"teacher_episodes": 20, "teacher_epochs": 5}
KEPT = {"teacher_coef": 2.0, "teacher_until": 1.0}
SHORT = {"env_args": {"max_episode_steps": 50}, "teacher_episodes": 4, "teacher_epochs": 1}


@pytest.fixture(scope="module")
def balancing(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Returns the file of a policy that pushes CartPole to where the pole falls."""
    push = np.array([[0.0], [1.0], [10.0], [3.0]], np.float32) * [[-1.0, 1.0]]
    parameters = PolicyParameters(
        (push.astype(np.float32),), (np.zeros(2, np.float32),), "tanh", distribution=Categorical(2)
    )
    path = tmp_path_factory.mktemp("teacher") / "balancing.npz"
    save_policy(path, parameters, {"env": "CartPole-v1", "env_args": {}})
    return path


def taught(teacher: Path, **changes: Any) -> TrainConfig:
    settings = {"hidden_sizes": (32,), "epochs": 1, "learning_rate": 2e-3, "minibatch_size": 64}
    settings |= changes.pop("learn", {})
    what = changes.pop("env", "CartPole-v1")
    return config_of(what, **{"teacher": str(teacher), **LESSONS, "settings": settings, **changes})


def test_a_copy_plays_as_well_as_its_teacher(balancing, tmp_path):
    summary = run(tmp_path / "run", taught(balancing))
    told = json.loads((tmp_path / "run" / "teacher.json").read_text())
    assert told["teacher"] == str(balancing)
    assert told["return_mean"] > 400
    assert told["agreement"] > 0.95
    assert [row["agreement"] for row in told["epochs"]][-1] == told["agreement"]
    assert told["copy"]["return_mean"] > 300
    assert told["copy"]["episodes"] == told["episodes"] == 20
    assert summary["return_mean_recent"] > 200  # Untrained policies have 20.


@pytest.mark.parametrize("kept", [{}, KEPT])
def test_a_copy_is_the_same_for_any_workers_in_both_modes_and_made_once(
    balancing, tmp_path, monkeypatch, kept
):
    lessons = {**SHORT, "total_steps": 1200, "learn": kept}
    run(tmp_path / "one", taught(balancing, **lessons, n_workers=1))
    run(tmp_path / "three", taught(balancing, **lessons, n_workers=3))
    run(tmp_path / "sync", taught(balancing, **lessons, mode="sync"))
    with pytest.raises(StopRequested):
        run(tmp_path / "stopped", taught(balancing, **lessons), stop_before(1))
    again = "copied again"
    monkeypatch.setattr(copy_teacher, "copy_teacher", lambda *arguments: pytest.fail(again))
    run(tmp_path / "stopped", taught(balancing, **lessons))
    for name in ("three", "sync", "stopped"):
        assert same_weights(tmp_path / "one", tmp_path / name), name


def test_a_run_that_is_stopped_while_it_copies_leaves_nothing(balancing, tmp_path):
    class Stopped:
        def __init__(self, pool: Any) -> None:
            pool.stop_signal = signal.SIGTERM

        def __enter__(self) -> None: ...

        def __exit__(self, *error: object) -> None: ...

    with pytest.raises(KeyboardInterrupt):
        loop.train_policy(taught(balancing), tmp_path / "run", quiet=True, watch=Stopped)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(("learning_rate", "is_below"), [("1.0", True), ("1e-9", False)])
def test_a_run_that_falls_below_its_copy_says_so(learning_rate, is_below, balancing, tmp_path):
    options = ["--teacher", str(balancing), "--teacher-episodes", "20", "--hidden-sizes", "32"]
    options += ["--total-steps", "8000", "--steps-per-update", "500", "--quiet"]
    options += ["--learning-rate", learning_rate, "--run-dir", str(tmp_path / "run")]
    said = said_by("train-async", CART_POLE, "--n-envs", "4", *options)
    assert ("below its copy:" in said) is is_below


def test_an_agreement_that_cannot_be_told_is_no_number(tmp_path):
    pendulum = {"env": "Pendulum-v1", "env_args": {"max_episode_steps": 20}, "total_steps": 200}
    config = taught(tmp_path / "still.npz", **{**SHORT, **pendulum})
    weights, numbers = np.zeros((3, 1), np.float32), np.zeros(1, np.float32)
    choice = config.environment.spaces().distribution
    still = PolicyParameters((weights,), (numbers,), "tanh", numbers, distribution=choice)
    save_policy(tmp_path / "still.npz", still, {"env": "Pendulum-v1", "env_args": {}})
    run(tmp_path / "run", config)
    assert json.loads((tmp_path / "run" / "teacher.json").read_text())["agreement"] is None


def test_a_copy_is_verified_with_the_same_teacher_alone(balancing, tmp_path):
    teacher = tmp_path / "teacher.npz"
    shutil.copy(balancing, teacher)
    run(tmp_path / "run", taught(teacher, **SHORT))
    said_by("verify", tmp_path / "run")
    parameters, about = load_policy(teacher)
    save_policy(teacher, parameters._replace(biases=(np.ones(2, np.float32),)), about)
    refused(call("verify", str(tmp_path / "run")), "teacher.npz is not there any more")


def test_a_copy_that_diverges_says_so(balancing, tmp_path):
    learned = [CART_POLE, TINY, "--teacher", str(balancing), "--teacher-episodes", "4"]
    learned += ["--reward-scale", "1e30", "--run-dir", tmp_path / "a"]
    said = said_by("train-async", *learned, code=1)
    assert "while it copied" in said
    assert "--reward-scale" in said
    assert not (tmp_path / "a").exists()


def test_nobody_teaches_in_the_place_of_a_presets_teacher():
    options = ["train-async", "--preset", "cage4-quick", "--dry-run"]
    assert "teacher: rules" in said_by(*options)
    assert "teacher: None" in said_by(*options, "--teacher", "none")


def test_a_teacher_does_not_replace_the_weights_of_another_run(balancing, tmp_path):
    run(tmp_path / "run", taught(balancing, **SHORT))
    options = [CART_POLE, TINY, "--init-from", f"{tmp_path}/run", "--run-dir", f"{tmp_path}/new"]
    result = call("train-async", *options, "--teacher", str(balancing))
    refused(result, "--teacher", "both give weights")
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize("content", ["[" * 100_000, "[]", "no JSON"])
def test_a_damaged_account_of_the_copy_is_refused(balancing, tmp_path, content):
    (tmp_path / "teacher.json").write_text(content)
    with pytest.raises(ValueError, match=r"teacher\.json cannot be read"):
        copy_teacher.require_same_teacher(tmp_path, str(balancing))
