"""The compiled vector environment against single environments, one for one."""

import copy
from functools import partial
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_returned_data_not_reused, data_equivalence
from gymnasium.utils.passive_env_checker import data_shares_objects
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from gymnasium.wrappers.vector import (
    DictInfoToList,
    DtypeObservation,
    NormalizeObservation,
    NormalizeReward,
    RecordEpisodeStatistics,
)

from workflow_rl.cage2.env.cage2_env import Cage2Env
from workflow_rl.cage2.env.vector_env import CompiledVectorEnv
from workflow_rl.cage2.scenario2 import RED_AGENTS

N_ENVS = len(RED_AGENTS)


def sync_envs(mode: AutoresetMode, max_steps: int, simulator: str = "compiled") -> SyncVectorEnv:
    """Single envs, one for each red agent."""
    return SyncVectorEnv(
        [partial(Cage2Env, name, max_steps, simulator, measures=True) for name in RED_AGENTS],
        autoreset_mode=mode,
    )


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
    single = sync_envs(mode, 20, simulator)
    compiled = CompiledVectorEnv(N_ENVS, RED_AGENTS, 20, mode, measures=True)
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


def test_disabled_autoreset_is_that_of_single_envs() -> None:
    """By masks, with seeds for some, and with another red agent for one episode."""
    single = sync_envs(AutoresetMode.DISABLED, 5)
    compiled = CompiledVectorEnv(N_ENVS, RED_AGENTS, 5, AutoresetMode.DISABLED, measures=True)
    compiled.action_space.seed(3)

    def reset(**arguments: Any) -> None:
        for results in zip(
            # The single envs remove the mask from the options.
            single.reset(**{name: copy.deepcopy(value) for name, value in arguments.items()}),
            compiled.reset(**arguments),
            strict=True,
        ):
            assert_same(*results)

    def play() -> None:
        for _ in range(5):
            actions = compiled.action_space.sample()
            for results in zip(single.step(actions), compiled.step(actions), strict=True):
                assert_same(*results)

    reset(seed=11)
    play()
    reset(options={"reset_mask": np.array([True, False, True])})
    reset(seed=[None, 5, None], options={"reset_mask": np.array([False, True, False])})
    play()
    reset(options={"red_agent": "RedMeanderAgent"})
    play()
    reset()
    play()


@pytest.mark.parametrize("mask", [[True], [False, False], [1, 0]])
def test_a_mask_that_is_none_is_refused(mask: Any) -> None:
    with pytest.raises(ValueError, match="reset_mask: 2 booleans"):
        CompiledVectorEnv(2).reset(options={"reset_mask": np.array(mask)})


@pytest.mark.parametrize(
    ("wrapper", "mode"),
    [
        (RecordEpisodeStatistics, AutoresetMode.NEXT_STEP),
        (RecordEpisodeStatistics, AutoresetMode.SAME_STEP),
        (NormalizeReward, AutoresetMode.NEXT_STEP),
        (NormalizeReward, AutoresetMode.SAME_STEP),
        (DictInfoToList, AutoresetMode.NEXT_STEP),
        (DictInfoToList, AutoresetMode.SAME_STEP),
        # Those of observations refuse SAME_STEP, for they would leave out final_obs.
        (NormalizeObservation, AutoresetMode.NEXT_STEP),
        (lambda envs: DtypeObservation(envs, np.float32), AutoresetMode.NEXT_STEP),
    ],
)
def test_gymnasiums_wrappers_do_the_same_to_it(wrapper: Any, mode: AutoresetMode) -> None:
    single = wrapper(sync_envs(mode, 6))
    compiled = wrapper(CompiledVectorEnv(N_ENVS, RED_AGENTS, 6, mode, measures=True))
    assert data_equivalence(single.reset(seed=2), compiled.reset(seed=2))
    compiled.action_space.seed(2)
    for _ in range(20):
        actions = compiled.action_space.sample()
        results = [envs.step(actions) for envs in (single, compiled)]
        for *_, infos in results:
            if isinstance(infos, dict) and "episode" in infos:
                infos["episode"].pop("t")  # Wall time.
        assert data_equivalence(*results)


@pytest.mark.parametrize("mode", list(AutoresetMode))
def test_nothing_returned_is_returned_again(mode: AutoresetMode) -> None:
    """Gymnasium's check of single envs, on a batch of one; the second step truncates."""
    envs: Any = CompiledVectorEnv(1, max_steps=2, autoreset_mode=mode)
    check_returned_data_not_reused(envs)
    assert not data_shares_objects(envs.reset(seed=0), envs.reset(seed=0))


def test_steps_are_described_unless_not_wanted() -> None:
    envs = CompiledVectorEnv(2)
    keys = {"red_agent", "blue_action", "blue_success"}
    keys |= {"red_action", "red_target", "red_success", "suspicious_hosts"}
    envs.reset(seed=0)
    *_, infos = envs.step(np.zeros(2, np.int64))
    assert set(infos) == keys | {f"_{key}" for key in keys}
    single = Cage2Env(simulator="cyborg")
    single.reset(seed=0)
    assert set(single.step(0)[4]) == keys
    silent = CompiledVectorEnv(2, describe_steps=False)
    assert silent.reset(seed=0)[1] == {}
    assert silent.step(np.zeros(2, np.int64))[4] == {}
