"""Several actors as one: each episode draws one of them. No torch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from workflow_rl.agents.policies.distributions import Choice
from workflow_rl.agents.policies.numpy_policy import Actor

_DRAWS = 2**32 - 6
"""Keeps the draws apart from the actors' own random numbers."""


def drawn(seed: int, shares: NDArray[np.float64]) -> int:
    """Return which of several plays the episode with a seed. shares: of each, 1 together."""
    return int(np.random.default_rng([seed, _DRAWS]).choice(len(shares), p=shares))


class MixedActor:
    """An Actor that plays an episode with one of several, drawn with their weights by its seed."""

    policy_version = 0

    def __init__(self, actors: Sequence[Actor], weights: Sequence[float]) -> None:
        self._actors = actors
        self._shares = np.array(weights) / sum(weights)
        self._playing: dict[int, int] = {}

    def reset(self, seed: int, env: int = 0, n_acted: int = 0) -> None:
        """Begin an episode: see Actor."""
        self._playing[env] = drawn(seed, self._shares)
        self._actors[self._playing[env]].reset(seed, env, n_acted)

    def act(self, obs: NDArray[Any], envs: Sequence[int] = (0,)) -> Choice:
        """Return actions [M] and log-probabilities [M]: see Actor."""
        playing = np.array([self._playing[env] for env in envs])
        actions, log_probs = np.zeros(len(envs), np.int64), np.zeros(len(envs), np.float32)
        for number, actor in enumerate(self._actors):
            rows = np.flatnonzero(playing == number)
            if len(rows):
                seen, where = obs[rows], [envs[row] for row in rows.tolist()]
                actions[rows], log_probs[rows] = actor.act(seen, where)
        return actions, log_probs
