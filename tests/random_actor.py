"""A player whose actions are random."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from workflow_rl.agents.policies.distributions import Choice
from workflow_rl.environments.environment import Environment


class RandomActor:
    """Takes actions of which all that are possible are equally likely."""

    policy_version = 0

    def __init__(self, environment: Environment) -> None:
        spaces = environment.spaces()
        self._n_actions = spaces.distribution.n_outputs
        self._masked = spaces.masked
        self._randoms: dict[int, np.random.Generator] = {}

    def reset(self, seed: int, env: int = 0, n_acted: int = 0) -> None:
        self._randoms[env] = np.random.default_rng(seed)

    def act(self, obs: NDArray[Any], envs: Sequence[int] = (0,)) -> Choice:
        possible = np.ones((len(obs), self._n_actions), np.bool_)
        if self._masked:
            possible = obs[:, -self._n_actions :] > 0
        draws = np.array([self._randoms[env].random(self._n_actions) for env in envs])
        actions = np.where(possible, draws, -1.0).argmax(axis=1)
        return actions, np.zeros(len(obs), np.float32)
