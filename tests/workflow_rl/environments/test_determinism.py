import random
from functools import partial
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest

from tests.altered import altered
from tests.any_envs import PuzzleEnv, TargetEnv
from tests.globally_drawing_env import GloballyDrawing
from tests.lying_envs import NoisyStepEnv
from tests.tiny_envs import N_ACTIONS, CountingEnv
from tests.tiny_runs import same_weights
from workflow_rl import TrainConfig, evaluate, train
from workflow_rl.environments.determinism import SEED, first_difference
from workflow_rl.environments.gymnasium_env import GymnasiumEnvironment
from workflow_rl.environments.making import PrivateRandom


def more(answer: Any, paid: Any = 0.0, shown: Any = 0.0) -> Any:
    obs, reward, *others = answer
    return obs + np.float32(shown), reward + paid, *others


def masked(answer: Any, mask: Any) -> Any:
    *others, info = answer
    return *others, {**info, "action_mask": mask}


class InstanceEnv(TargetEnv):
    """Every instance has a number of its own, which its third rewards have in them."""

    instances = 0

    def __init__(self) -> None:
        super().__init__()
        InstanceEnv.instances += 1
        self._number = InstanceEnv.instances

    def step(self, action: Any) -> Any:
        return more(super().step(action), self._number * (self._steps == 3))


class GlobalRandomEnv(TargetEnv):
    """A reset seeds the random state that all envs of a process share."""

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        np.random.seed(seed)
        return super().reset(seed=seed, options=options)

    def step(self, action: Any) -> Any:
        return more(super().step(action), np.random.random())


def unsure_beginning(env: Any, answer: Any) -> Any:
    return answer[0] + np.random.default_rng().random(2).astype(np.float32), answer[1]


def unsure_end(env: Any, answer: Any) -> Any:
    """Nobody knows which kind of end the second step is."""
    is_first_time, end = env.calls <= 2, env._steps == 2
    return *answer[:2], end and not is_first_time, end and is_first_time, {}


def ragged(last: Any) -> Any:
    return np.array([np.ones(3), np.array([1, last])], object)


def first_one(is_possible: int) -> Any:
    return np.array([is_possible, *[1] * (N_ACTIONS - 1)], np.int8)


class OnlyEnv(TargetEnv):
    is_open = False

    def __init__(self) -> None:
        assert not OnlyEnv.is_open
        OnlyEnv.is_open = True
        super().__init__()

    def close(self) -> None:
        OnlyEnv.is_open = False


@pytest.mark.parametrize(
    "make_env",
    [
        partial(gymnasium.make, "CartPole-v1"),
        partial(gymnasium.make, "Pendulum-v1"),
        CountingEnv,
        TargetEnv,
        PuzzleEnv,
        altered(
            TargetEnv,
            lambda env, answer: more(answer, paid=np.nan, shown=np.nan),
            reset=lambda env, answer: (answer[0] * np.float32(np.nan), answer[1]),
        ),
        OnlyEnv,
        altered(TargetEnv, lambda env, answer: masked(answer, ragged(0))),
    ],
)
def test_determined_environments(make_env):
    assert first_difference(make_env, n_steps=100) is None


AGAIN = "differs when it is played again"


@pytest.mark.parametrize(
    ("make_env", "words"),
    [
        (NoisyStepEnv, f"the reward after step 1 of seed 1234 {AGAIN}"),
        (
            altered(TargetEnv, reset=unsure_beginning),
            f"the observation after reset of seed 1234 {AGAIN}",
        ),
        (InstanceEnv, "the reward after step 3 of seed 1234 differs in another instance"),
        (
            GlobalRandomEnv,
            "the reward after step 1 of seed 1234 differs "
            "while a second env plays in the same process",
        ),
        (
            altered(TargetEnv, lambda env, answer: more(answer, shown=1e-6 * env.calls)),
            f"the observation after step 1 of seed 1234 {AGAIN}",
        ),
        (
            altered(TargetEnv, unsure_end),
            f"the terminated after step 2 of seed 1234 {AGAIN}",
        ),
        (
            altered(TargetEnv, lambda env, answer: masked(answer, ragged(env.calls))),
            f"the mask of actions after step 1 of seed 1234 {AGAIN}",
        ),
        (
            altered(CountingEnv, lambda env, answer: masked(answer, first_one(env.calls % 2))),
            f"the mask of actions after step 1 of seed 1234 {AGAIN}",
        ),
    ],
    ids=[
        *("reward", "reset", "instance", "process", "last bits", "end"),
        *("mask of objects", "mask"),
    ],
)
def test_what_differs_and_where(make_env, words):
    assert first_difference(make_env, n_steps=21, seed=1234) == words


def test_a_difference_after_the_end_of_an_episode_is_found():
    """Episodes of two steps: the third step is another episode's first."""
    noisy = altered(
        TargetEnv, lambda env, answer: more(answer, (env.seed != SEED) * np.random.random())
    )
    assert first_difference(partial(noisy, length=2), n_steps=2) is None
    assert "reward after step 3" in str(first_difference(partial(noisy, length=2), n_steps=3))


def test_noise_in_what_a_later_reset_shows_is_found():
    def reset(env: Any, answer: Any) -> Any:
        obs, info = answer
        return obs + (env.seed != 1234) * np.random.random(2).astype(np.float32), info

    noisy = partial(altered(TargetEnv, reset=reset), length=2)
    difference = first_difference(noisy, n_steps=10, seed=1234)
    assert difference == f"the next episode's first observation after step 2 of seed 1234 {AGAIN}"


def test_it_ends_in_time():
    counted = altered(TargetEnv)
    assert first_difference(counted, n_steps=10**9, seconds=0.02) is None
    # The first play limits all: both others, and the env beside the last one, play as many steps.
    assert counted.calls % 4 == 0
    assert counted.calls > 0


def test_envs_are_closed():
    closed: list[int] = []

    class Closing(GlobalRandomEnv):
        def close(self) -> None:
            closed.append(1)

    first_difference(Closing, n_steps=3)
    assert len(closed) == 4


def test_an_env_that_breaks_beside_another_one_is_told():
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


def test_an_env_that_fails_for_other_seeds_fails():
    def picky(env: Any, answer: Any) -> Any:
        if env.seed > 100_000:
            raise OverflowError("such a seed")
        return answer

    with pytest.raises(OverflowError, match="such a seed"):
        first_difference(altered(TargetEnv, reset=picky), n_steps=10)


def played(env: PrivateRandom, seed: int, steps: int = 5) -> list[float]:
    env.reset(seed=seed)
    return [float(env.step(0)[1]) for _ in range(steps)]


def test_an_episode_follows_from_its_seed_whatever_else_plays():
    alone, other = PrivateRandom(GloballyDrawing), PrivateRandom(GloballyDrawing)
    expected = played(alone, 3)
    assert played(other, 3) == expected
    alone.reset(seed=3)
    other.reset(seed=4)
    between = []
    for _ in expected:
        between.append(float(alone.step(0)[1]))
        other.step(1)
    assert between == expected
    assert played(alone, 4) != expected


def test_without_a_seed_an_episode_goes_on_with_the_envs_own_state():
    env, other = PrivateRandom(GloballyDrawing), PrivateRandom(GloballyDrawing)
    env.reset(seed=3)
    following = env.reset()[0]
    env.reset(seed=3)
    other.reset(seed=9)
    random.random()
    assert np.array_equal(env.reset()[0], following)


def test_the_check_finds_out_who_needs_it():
    needs = GymnasiumEnvironment("drawing", {}, GloballyDrawing)
    assert needs.check() is None
    assert isinstance(needs.make_env(), PrivateRandom)
    does_not = GymnasiumEnvironment("CartPole-v1")
    assert does_not.check() is None
    assert not isinstance(does_not.make_env(), PrivateRandom)
    noisy = GymnasiumEnvironment("noisy", {}, NoisyStepEnv)
    assert AGAIN in str(noisy.check())
    assert not isinstance(noisy.make_env(), PrivateRandom)


def test_weights_do_not_depend_on_the_workers(tmp_path, caplog):
    def trained(mode: Any, n_workers: int, resume: bool = False) -> Path:
        config = TrainConfig(
            mode, n_envs=4, n_workers=n_workers, env="tests.globally_drawing_env:GloballyDrawing",
            total_episodes=48 if resume else 24, episodes_per_update=8,
        )  # fmt: skip
        return train(config, tmp_path / f"{mode}-{n_workers}", resume=resume)

    first = trained("async", 1)
    assert "draws from the random state of the whole process" in caplog.text
    for other in (trained("async", 3), trained("sync", 2)):
        assert same_weights(first, other)
    assert same_weights(trained("async", 1, resume=True), trained("sync", 2, resume=True))
    returns = [evaluate(first, 6, n_workers=n, trust=True).returns for n in (1, 2)]
    assert returns[0] == returns[1]
