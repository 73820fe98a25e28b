"""Configs of runs on environments of which nothing is known."""

from __future__ import annotations

import json

import pytest

from tests.any_envs import PuzzleEnv
from tests.workflow_rl.runs.any_env_runs import ENVS, PPO, config_of
from workflow_rl.runs.config import TrainConfig


@pytest.mark.parametrize("env", ENVS)
def test_a_config_is_the_same_from_its_plain_values(env: str) -> None:
    config = config_of(env)
    plain = config.to_dict()
    assert TrainConfig.from_dict(json.loads(json.dumps(plain))) == config
    assert plain["env_args"] == ENVS[env].get("env_args", {})


def test_defaults_are_those_of_an_environment_of_which_nothing_is_known() -> None:
    config = TrainConfig("async", env="CartPole-v1")
    assert (config.total_episodes, config.total_steps) == (None, 100_000)
    assert (config.episodes_per_update, config.steps_per_update) == (None, 2048)
    assert (config.settings.normalise_obs, config.settings.normalise_returns) == (True, True)
    with_function = TrainConfig("async", env="mine", make_env=PuzzleEnv)
    for name in ("total_episodes", "total_steps", "episodes_per_update", "steps_per_update"):
        assert getattr(with_function, name) == getattr(config, name)
    assert with_function.settings == config.settings
    given = TrainConfig("async", total_steps=77, settings=PPO).changed(
        env="mine", make_env=PuzzleEnv
    )
    assert (given.total_episodes, given.total_steps, given.settings) == (None, 77, PPO)
    unrolls = TrainConfig("async", n_envs=10, num_steps_per_env=100, env="CartPole-v1")
    assert unrolls.steps_per_update == 3000


def test_some_fields_of_ppo_leave_the_others_to_the_environment():
    config = TrainConfig("async", env="CartPole-v1", settings={"discount": 0.9})  # type: ignore[arg-type]
    assert config.settings.discount == 0.9
    assert config.settings.normalise_obs
