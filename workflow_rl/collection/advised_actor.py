"""An actor that does as its observations advise. Imports no torch: workers load it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from workflow_rl.agents.policies.distributions import (
    Categorical,
    Choice,
    MultiCategorical,
    width_of,
)
from workflow_rl.agents.spaces import Spaces
from workflow_rl.agents.trajectory import Trajectory


class Advised:
    """Takes the actions at the end of the rows: see `environments.challenge.Guest.teaching`.

    spaces: those of the rows without the actions.
    """

    policy_version = 0

    def __init__(self, spaces: Spaces) -> None:
        distribution = spaces.distribution
        self._is_number = isinstance(distribution, Categorical)
        is_discrete = isinstance(distribution, Categorical | MultiCategorical)
        self._dtype: Any = np.int64 if is_discrete else np.float32
        self._n = width_of(distribution)
        self._is_team = spaces.team is not None

    def reset(self, seed: int, env: int = 0, n_acted: int = 0) -> None:
        """Begin an episode: see `numpy_policy.Actor`."""

    def act(self, obs: NDArray[Any], envs: Sequence[int] = (0,)) -> Choice:
        """Return the actions at the end of the rows [M, D], and log-probabilities of 0."""
        action = obs[:, -self._n :].astype(self._dtype)
        log_prob = np.zeros(action.shape if self._is_team else len(obs), np.float32)
        return action[:, 0] if self._is_number else action, log_prob

    def without(self, trajectory: Trajectory) -> Trajectory:
        """Return the trajectory with rows without the actions."""
        return trajectory._replace(
            obs=trajectory.obs[:, : -self._n], last_obs=trajectory.last_obs[: -self._n]
        )
