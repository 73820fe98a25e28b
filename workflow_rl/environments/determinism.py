"""Whether a seed determines an episode. Everything reproducible in this package rests on that."""

from __future__ import annotations

import copy
import math
import pickle
import time
from collections.abc import Callable
from contextlib import closing
from typing import Any, TypeAlias

from gymnasium.utils.env_checker import data_equivalence

from workflow_rl.environments.action_mask import mask_in, sampled
from workflow_rl.environments.env_batch import Env

SEED = 1234
_PARTS = ("observation", "reward", "terminated", "truncated", "next episode's first observation")
_Step: TypeAlias = tuple[Any, float, bool, bool, Any]


def first_difference(
    make_env: Callable[[], Env], n_steps: int = 1000, seconds: float = 5.0, seed: int = SEED
) -> str | None:
    """Return where episodes from `seed` on differ when they are repeated; None if nowhere.

    The same random actions are played three times, through the ends of episodes: twice in one env,
    and once in another env.

    Args:
        make_env: makes an env.
        n_steps: play at most this many steps.
        seconds: play at most this long, the first time. The others play as many steps.
        seed: the seed of the first episode. The next episodes have the seeds that follow.
    """
    actions: list[Any] = []
    with closing(make_env()) as env:
        first = _played(env, seed, actions, n_steps, seconds)
        again = _played(env, seed, actions, len(first) - 1, math.inf)
    with closing(make_env()) as env:
        elsewhere = _played(env, seed, actions, len(first) - 1, math.inf)
    for other, where in ((again, "when it is played again"), (elsewhere, "in another instance")):
        for step, (left, right) in enumerate(zip(first, other, strict=False)):
            for name, one, two in zip(_PARTS, left, right, strict=True):
                if not _are_same(one, two):
                    at = f"step {step}" if step else "reset"
                    return f"the {name} after {at} of seed {seed} is another {where}"
    return None


def _are_same(one: Any, two: Any) -> bool:
    # NaN does not equal itself, but its bytes do.
    return data_equivalence(one, two, exact=True) or pickle.dumps(one) == pickle.dumps(two)


def _played(env: Env, seed: int, actions: list[Any], n_steps: int, seconds: float) -> list[_Step]:
    """Return the answers to the reset and to each step. Draw the actions that are missing."""
    env.action_space.seed(seed)
    deadline = time.perf_counter() + seconds
    obs, info = env.reset(seed=seed)
    mask = mask_in(obs, info)
    steps: list[_Step] = [(copy.deepcopy(obs), 0.0, False, False, None)]
    while len(steps) <= n_steps and time.perf_counter() < deadline:
        if len(actions) < len(steps):
            actions.append(sampled(env.action_space, mask))
        obs, reward, terminated, truncated, info = env.step(actions[len(steps) - 1])
        obs, first, mask = copy.deepcopy(obs), None, mask_in(obs, info)
        if terminated or truncated:
            seed += 1
            first, info = env.reset(seed=seed)
            first, mask = copy.deepcopy(first), mask_in(first, info)
        steps.append((obs, float(reward), bool(terminated), bool(truncated), first))
    return steps
