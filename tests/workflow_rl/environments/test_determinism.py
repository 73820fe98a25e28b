"""Whether a seed determines an episode, and in which words it is said that it does not."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import gymnasium
import numpy as np
import pytest

from tests.any_envs import PuzzleEnv, TargetEnv
from tests.lying_envs import NoisyResetEnv, NoisyStepEnv, RememberingEnv
from tests.tiny_envs import CountingEnv
from workflow_rl.environments.determinism import SEED, first_difference
from workflow_rl.environments.gymnasium_env import GymnasiumEnvironment


class InstanceEnv(TargetEnv):
    """Every instance has a number of its own, which its third rewards have in them."""

    instances = 0

    def __init__(self) -> None:
        super().__init__()
        InstanceEnv.instances += 1
        self._number = InstanceEnv.instances

    def step(self, action: Any) -> Any:
        obs, reward, *rest = super().step(action)
        return obs, reward + self._number * (self._steps == 3), *rest


class NearlyTheSameEnv(TargetEnv):
    """What is observed differs in the last bits alone."""

    calls = 0

    def step(self, action: Any) -> Any:
        obs, *rest = super().step(action)
        NearlyTheSameEnv.calls += 1
        return obs + np.float32(1e-6 * NearlyTheSameEnv.calls), *rest


class GlobalRandomEnv(TargetEnv):
    """A reset seeds the random state that all envs of a process share."""

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        np.random.seed(seed)
        return super().reset(seed=seed, options=options)

    def step(self, action: Any) -> Any:
        obs, reward, *rest = super().step(action)
        return obs, reward + np.random.random(), *rest


class UnsureEndEnv(TargetEnv):
    """Nobody knows which kind of end its second step is."""

    calls = 0

    def step(self, action: Any) -> Any:
        obs, reward, *_ = super().step(action)
        UnsureEndEnv.calls += 1
        end = self._steps == 2
        return obs, reward, end and UnsureEndEnv.calls > 2, end and UnsureEndEnv.calls <= 2, {}


@pytest.mark.parametrize(
    "make_env",
    [
        partial(gymnasium.make, "CartPole-v1"),
        partial(gymnasium.make, "Pendulum-v1"),
        CountingEnv,
        TargetEnv,
        PuzzleEnv,
    ],
)
def test_determined_environments(make_env: Callable[[], Any]) -> None:
    assert first_difference(make_env, n_steps=100) is None


@pytest.mark.parametrize(
    ("make_env", "words"),
    [
        (NoisyStepEnv, "the reward after step 1 of seed 1234 is another when it is played again"),
        (
            NoisyResetEnv,
            "the observation after reset of seed 1234 is another when it is played again",
        ),
        (RememberingEnv, "the reward after step 1 of seed 1234 is another when it is played again"),
        (InstanceEnv, "the reward after step 3 of seed 1234 is another in another instance"),
        (
            GlobalRandomEnv,
            "the reward after step 1 of seed 1234 is another "
            "while a second env plays in the same process",
        ),
        (
            NearlyTheSameEnv,
            "the observation after step 1 of seed 1234 is another when it is played again",
        ),
        (
            UnsureEndEnv,
            "the terminated after step 2 of seed 1234 is another when it is played again",
        ),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_what_differs_and_where(make_env: Callable[[], Any], words: str) -> None:
    assert first_difference(make_env, n_steps=20, seed=1234) == words


@pytest.mark.parametrize("last", [0, 1])
def test_masks_of_objects(last: int) -> None:
    class RaggedEnv(TargetEnv):
        calls = 0

        def step(self, action: Any) -> Any:
            *answer, info = super().step(action)
            RaggedEnv.calls += 1
            mask = np.array([np.ones(3), np.array([1, last * RaggedEnv.calls])], object)
            return *answer, {**info, "action_mask": mask}

    difference = first_difference(RaggedEnv, n_steps=3)
    assert (difference is not None) == bool(last)
    assert difference is None or "mask of actions after step 1" in difference


def test_any_seed_may_be_asked_about() -> None:
    difference = first_difference(NoisyResetEnv, n_steps=5, seed=7)
    assert difference is not None
    assert "of seed 7 " in difference


def test_a_difference_after_the_end_of_an_episode_is_found() -> None:
    """Episodes of two steps: the third step is another episode's first."""

    class SecondEpisodeEnv(TargetEnv):
        def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
            self._is_second = seed != SEED
            return super().reset(seed=seed, options=options)

        def step(self, action: Any) -> Any:
            obs, reward, *rest = super().step(action)
            return obs, reward + self._is_second * np.random.random(), *rest

    make_env = partial(SecondEpisodeEnv, length=2)
    assert first_difference(make_env, n_steps=2) is None
    assert "reward after step 3" in str(first_difference(make_env, n_steps=3))


def test_noise_in_what_a_later_reset_shows_is_found() -> None:
    class NoisyLaterEnv(TargetEnv):
        def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
            obs, info = super().reset(seed=seed, options=options)
            return obs + (seed != 1234) * np.random.random(2).astype(np.float32), info

    difference = first_difference(partial(NoisyLaterEnv, length=2), n_steps=10, seed=1234)
    assert difference == (
        "the next episode's first observation after step 2 of seed 1234 is another when it is "
        "played again"
    )


def test_it_ends_in_time() -> None:
    played: list[int] = []

    class Counted(TargetEnv):
        def step(self, action: Any) -> Any:
            played.append(1)
            return super().step(action)

    assert first_difference(Counted, n_steps=10**9, seconds=0.02) is None
    # The first play limits all: both others, and the env beside the last one, play as many steps.
    assert len(played) % 4 == 0
    assert len(played) > 0


def test_envs_are_closed() -> None:
    closed: list[int] = []

    class Closing(GlobalRandomEnv):
        def close(self) -> None:
            closed.append(1)

    first_difference(Closing, n_steps=3)
    assert len(closed) == 4


def test_envs_that_allow_no_second_one_are_played_alone() -> None:
    class OnlyEnv(TargetEnv):
        is_open = False

        def __init__(self) -> None:
            assert not OnlyEnv.is_open
            OnlyEnv.is_open = True
            super().__init__()

        def close(self) -> None:
            OnlyEnv.is_open = False

    assert first_difference(OnlyEnv, n_steps=10) is None


def test_an_env_that_breaks_beside_another_one_is_told() -> None:
    class TakenEnv(TargetEnv):
        owner: Any = None

        def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
            TakenEnv.owner = self
            return super().reset(seed=seed, options=options)

        def step(self, action: Any) -> Any:
            assert TakenEnv.owner is self, "it was taken"
            return super().step(action)

    difference = str(first_difference(TakenEnv, n_steps=10))
    assert "it was taken" in difference
    assert difference.endswith("while a second env plays in the same process")


def test_an_env_that_fails_for_other_seeds_fails() -> None:
    class PickyEnv(TargetEnv):
        def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
            if seed is not None and seed > 100_000:
                raise OverflowError("such a seed")
            return super().reset(seed=seed, options=options)

    with pytest.raises(OverflowError, match="such a seed"):
        first_difference(PickyEnv, n_steps=10)


def test_a_mask_that_is_another_is_a_difference() -> None:
    class MaskedEnv(CountingEnv):
        calls = 0

        def step(self, action: Any) -> Any:
            obs, reward, terminated, truncated, info = super().step(action)
            MaskedEnv.calls += 1
            mask = np.ones(self.action_space.n, np.int8)
            mask[0] = MaskedEnv.calls % 2
            return obs, reward, terminated, truncated, {**info, "action_mask": mask}

    assert "the mask of actions after step 1" in str(first_difference(MaskedEnv, n_steps=3))


def test_what_an_environment_is_asked_before_a_run() -> None:
    assert GymnasiumEnvironment("CartPole-v1").check() is None
    noisy = GymnasiumEnvironment("noisy", {}, NoisyStepEnv)
    assert "is another when it is played again" in str(noisy.check())


class NoNumbers(gymnasium.Env[Any, Any]):
    """Every reward and observation is NaN, whatever the seed."""

    observation_space = gymnasium.spaces.Box(-1, 1, (1,))
    action_space = gymnasium.spaces.Discrete(2)

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        return np.full(1, np.nan, np.float32), {}

    def step(self, action: Any) -> Any:
        return np.full(1, np.nan, np.float32), float("nan"), False, False, {}


def test_what_is_no_number_is_the_same_when_it_comes_again() -> None:
    assert first_difference(NoNumbers, 5) is None
