"""Runs that begin with the agent of another run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.workflow_rl.runs.any_env_runs import PPO, config_of
from workflow_rl import api as interface
from workflow_rl.errors import UserError
from workflow_rl.runs import learner, loop
from workflow_rl.runs.checkpoint import load_checkpoint
from workflow_rl.runs.config import TrainConfig


def test_a_run_begins_with_the_agent_of_another(undisturbed: Any, tmp_path: Path) -> None:
    other = load_checkpoint(undisturbed("Puzzle", "episodes") / "checkpoint.safetensors")
    config = config_of(kind="unrolls", seed=8, total_steps=60)
    before = learner.make_agent(config)
    before.load_policy(other.agent)
    loop.train_policy(config, tmp_path / "run", init_from=other, quiet=True)
    after = load_checkpoint(tmp_path / "run" / "checkpoint.safetensors")
    assert after.agent["policy_version"] == after.training.updates == 1
    # One small step from where the other ended: Adam's first is the learning rate, at most, each.
    for name, tensor in before.network.state_dict().items():
        moved = (after.agent["network"][name] - tensor).abs().max()
        assert 0 < moved < 3 * PPO.learning_rate
    assert after.agent["obs_moments"]["count"] == other.agent["obs_moments"]["count"] + 60
    with pytest.raises(UserError, match="does not fit"):
        loop.train_policy(config_of("Pendulum"), tmp_path / "other", init_from=other, quiet=True)
    assert not (tmp_path / "other").exists()


def test_weights_for_another_function_are_refused(tmp_path: Path) -> None:
    config = TrainConfig("async", env="CartPole-v1", total_steps=200)
    path = interface.train(config, tmp_path / "run")
    other = TrainConfig(
        "async", env="CartPole-v1", total_steps=200, settings={"activation": "relu"}
    )  # type: ignore[arg-type]
    with pytest.raises(UserError, match="learned with activation tanh, and this run has relu"):
        interface.train(other, tmp_path / "other", init_from=path)


def test_a_normalised_agent_does_not_begin_a_run_that_does_not_normalise(tmp_path):
    config = TrainConfig("async", env="CartPole-v1", total_steps=200)
    path = interface.train(config, tmp_path / "run")
    plain = TrainConfig(
        "async", env="CartPole-v1", total_steps=200, settings={"normalise_obs": False}
    )  # type: ignore[arg-type]
    with pytest.raises(UserError, match="obs_moments"):
        interface.train(plain, tmp_path / "other", init_from=path)
    assert not (tmp_path / "other").exists()
