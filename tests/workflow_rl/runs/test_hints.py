from typing import Any

import pytest

from workflow_rl.runs.config import TrainConfig
from workflow_rl.runs.execute import hint_of_few_updates, updates_of

SHORT = {"env_args": {"max_steps": 10}, "episodes_per_update": None}


def config_of(**settings: Any) -> TrainConfig:
    return TrainConfig("async", **settings)


@pytest.mark.parametrize(
    ("settings", "n_updates"),
    [
        ({"total_episodes": 49, "episodes_per_update": 24}, 3),
        # 10 steps an episode. The first rollout has 8 of them, and the others 12.
        ({**SHORT, "total_steps": 81, "steps_per_update": 120}, 2),
        ({**SHORT, "total_steps": 200, "steps_per_update": 120}, 2),
        ({**SHORT, "total_steps": 201, "steps_per_update": 120}, 3),
        ({**SHORT, "total_episodes": 8, "steps_per_update": 120}, 1),
        ({**SHORT, "total_steps": 61, "episodes_per_update": 3}, 3),
        ({"env": "CartPole-v1", "total_steps": 4096, "n_envs": 8, "num_steps_per_env": 256}, 2),
        # How long the episodes are is not known, or not known in time.
        ({"env": "CartPole-v1", "total_steps": 4096}, None),
        ({**SHORT, "total_steps": 200, "steps_per_update": 120, "async_rl": True}, None),
        ({"env": "CartPole-v1", "total_episodes": 50}, None),
    ],
)
def test_how_often_it_learns(settings, n_updates):
    assert updates_of(config_of(**settings)) == n_updates


def test_a_run_that_learns_once_or_twice_is_told_so():
    once = hint_of_few_updates(config_of(total_episodes=24, episodes_per_update=24))
    assert "learns once: a larger" in once
    assert "--total-episodes" in once
    assert "--episodes-per-update" in once
    unrolls = {"n_envs": 8, "num_steps_per_env": 256, "steps_per_update": 2048}
    twice = hint_of_few_updates(config_of(env="CartPole-v1", total_steps=4096, **unrolls))
    assert "learns twice: a larger" in twice
    few = hint_of_few_updates(config_of(env="CartPole-v1", total_steps=4096))
    assert "learns only a few times: a larger --total-steps" in few
    assert not hint_of_few_updates(config_of(env="CartPole-v1", total_steps=4097))
    assert not hint_of_few_updates(config_of(total_episodes=72, episodes_per_update=24))


def test_a_run_that_ends_before_it_is_warm_is_told_so():
    few = {"env_args": {"max_steps": 10}, "total_steps": 600, "steps_per_update": 600}
    of_sac = config_of(algorithm="sac", settings={"warm_up_steps": 600}, **few)
    assert "learns nothing" in str(hint_of_few_updates(of_sac))
    assert "nothing" not in str(hint_of_few_updates(config_of(**few)))
    of_sac = config_of(algorithm="sac", settings={"warm_up_steps": 599}, **few)
    assert "nothing" not in str(hint_of_few_updates(of_sac))
