"""The compiled vector environment against single environments, one for one."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from gymnasium.vector import AutoresetMode, SyncVectorEnv

import workflow_rl.registration
from workflow_rl.compiled.vector_env import CompiledVectorEnv
from workflow_rl.cyborg_env import CyborgEnv
from workflow_rl.scenario2 import RED_AGENTS

N_ENVS = len(RED_AGENTS)


def assert_same(one: Any, other: Any) -> None:
    assert type(one) is type(other)
    if isinstance(one, dict):
        assert sorted(one) == sorted(other)
        for name in one:
            assert_same(one[name], other[name])
    elif isinstance(one, np.ndarray):
        assert one.dtype == other.dtype
        assert repr(one.tolist()) == repr(other.tolist())
    else:
        assert one == other


@pytest.mark.parametrize("mode", [AutoresetMode.NEXT_STEP, AutoresetMode.SAME_STEP])
@pytest.mark.parametrize("simulator", ["cyborg", "compiled"])
def test_the_vector_env_is_n_single_envs(mode: AutoresetMode, simulator: str) -> None:
    """Across the ends of episodes, with the seeds that the single envs draw for further ones."""
    single = SyncVectorEnv(
        [
            lambda name=name: CyborgEnv(name, max_steps=20, simulator=simulator)
            for name in RED_AGENTS
        ],
        autoreset_mode=mode,
    )
    compiled = CompiledVectorEnv(N_ENVS, RED_AGENTS, 20, mode, describe_steps=True)
    assert compiled.observation_space == single.observation_space
    assert compiled.action_space == single.action_space
    for result in zip(single.reset(seed=5), compiled.reset(seed=5), strict=True):
        assert_same(*result)
    compiled.action_space.seed(0)
    for _ in range(70):
        actions = compiled.action_space.sample()
        results = zip(single.step(actions), compiled.step(actions), strict=True)
        for of_single, of_compiled in results:
            assert_same(of_single, of_compiled)


def test_disabled_autoreset_resets_by_mask() -> None:
    envs = CompiledVectorEnv(2, max_steps=3, autoreset_mode=AutoresetMode.DISABLED)
    with pytest.raises(gymnasium.error.ResetNeeded):
        envs.step(np.zeros(2, np.int64))
    envs.reset(seed=1)
    for step in range(3):
        *_, truncated, _ = envs.step(np.zeros(2, np.int64))
        assert truncated.tolist() == [step == 2] * 2
    with pytest.raises(gymnasium.error.ResetNeeded):
        envs.step(np.zeros(2, np.int64))
    envs.reset(options={"reset_mask": np.array([True, False])})
    with pytest.raises(gymnasium.error.ResetNeeded):
        envs.step(np.zeros(2, np.int64))
    envs.reset(options={"reset_mask": np.array([False, True])})
    envs.step(np.zeros(2, np.int64))


def test_results_are_not_overwritten() -> None:
    envs = CompiledVectorEnv(2)
    envs.reset(seed=0)
    shown = [envs.step(np.zeros(2, np.int64)) for _ in range(12)]
    assert len({obs.tobytes() for obs, *_ in shown}) > 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"num_envs": 0}, "num_envs=0"),
        ({"max_steps": 0}, "max_steps=0"),
        ({"red_agent": "Red"}, "red_agent='Red': choose one of B_lineAgent"),
        ({"num_envs": 2, "red_agent": RED_AGENTS}, "names 3 agents, but num_envs=2"),
    ],
)
def test_mistakes_are_named(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        CompiledVectorEnv(**arguments)


def test_the_single_env_passes_gymnasiums_check() -> None:
    env = gymnasium.make(
        workflow_rl.registration.ENV_ID, red_agent="RedMeanderAgent", simulator="compiled"
    )
    check_env(env.unwrapped, skip_render_check=True)
    assert isinstance(env.unwrapped, CyborgEnv)
    assert env.unwrapped.red_agent == "RedMeanderAgent"


def test_gymnasium_makes_the_vector_env() -> None:
    envs = gymnasium.make_vec(
        workflow_rl.registration.ENV_ID, num_envs=4, red_agent="SleepAgent", max_steps=7
    )
    assert isinstance(envs.unwrapped, CompiledVectorEnv)
    obs, _ = envs.reset(seed=3)
    assert obs in envs.observation_space
    assert envs.unwrapped.max_steps == 7
