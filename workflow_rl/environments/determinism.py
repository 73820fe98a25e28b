"""Whether a seed determines an episode: what all that is reproducible here rests on."""

from __future__ import annotations

import copy
import math
import pickle
import time
from collections.abc import Callable
from typing import Any, TypeAlias

from gymnasium.utils.env_checker import data_equivalence

from workflow_rl.environments.env_batch import Env

SEED = 1234


def first_difference(
    make_env: Callable[[], Env], n_steps: int = 1000, seconds: float = 5.0, seed: int = SEED
) -> str | None:
    """Where an episode of `seed` differs from itself, in a few words; None if nowhere.

    It is played in an env that has just been made, again there, and in another one: so many steps
    of random actions, through the ends of episodes, or for so many seconds.
    """
    actions: list[Any] = []
    env = make_env()
    try:
        first = _played(env, seed, actions, n_steps, seconds)
        again = _played(env, seed, actions, len(first) - 1, math.inf)
    finally:
        env.close()
    env = make_env()
    try:
        elsewhere = _played(env, seed, actions, len(first) - 1, math.inf)
    finally:
        env.close()
    for other, where in ((again, "when it is played again"), (elsewhere, "in another instance")):
        for step, (left, right) in enumerate(zip(first, other, strict=False)):
            for name, one, two in zip(_PARTS, left, right, strict=True):
                if not _are_same(one, two):
                    at = f"step {step}" if step else "reset"
                    return f"the {name} after {at} of seed {seed} is another {where}"
    return None


def _are_same(one: Any, two: Any) -> bool:
    # No NaN equals itself, and its bytes do.
    return data_equivalence(one, two, exact=True) or pickle.dumps(one) == pickle.dumps(two)


_PARTS = ("observation", "reward", "terminated", "truncated", "next episode's first observation")
_Step: TypeAlias = tuple[Any, float, bool, bool, Any]


def _played(env: Env, seed: int, actions: list[Any], n_steps: int, seconds: float) -> list[_Step]:
    """What the reset and each step gave. Draws actions where there are none yet."""
    env.action_space.seed(seed)
    deadline = time.perf_counter() + seconds
    obs, _ = env.reset(seed=seed)
    steps: list[_Step] = [(copy.deepcopy(obs), 0.0, False, False, None)]
    while len(steps) <= n_steps and time.perf_counter() < deadline:
        if len(actions) < len(steps):
            actions.append(env.action_space.sample())
        obs, reward, terminated, truncated, _ = env.step(actions[len(steps) - 1])
        obs, first = copy.deepcopy(obs), None
        if terminated or truncated:
            seed += 1
            first = copy.deepcopy(env.reset(seed=seed)[0])
        steps.append((obs, float(reward), bool(terminated), bool(truncated), first))
    return steps
