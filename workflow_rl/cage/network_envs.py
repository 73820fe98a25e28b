"""Simulated networks that one call steps, as the envs of a worker."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from workflow_rl.agents.policies.distributions import Actions
from workflow_rl.cage.network_batch import SimulationError, mask_of
from workflow_rl.environments.env_batch import EpisodeError, Obs, StepAnswers
from workflow_rl.environments.episode import EpisodeSpec

Numbers: TypeAlias = NDArray[np.int64]


class NetworkEnvs:
    """`n_envs` networks, whose episodes are truncated after `n_steps` steps. An EnvBatch.

    A subclass says how the networks begin and play.
    """

    def __init__(self, n_envs: int, n_steps: int) -> None:
        self.n_envs = n_envs
        self._n_steps = n_steps
        self._steps_left = np.zeros(n_envs, np.int64)
        self._specs: dict[int, EpisodeSpec] = {}

    def reset(self, envs: Sequence[int], specs: Sequence[EpisodeSpec]) -> Obs:
        """Begin an episode in each of M envs. Return obs [M, D]."""
        self._specs.update(zip(envs, specs, strict=True))
        chosen, seeds = np.asarray(envs), np.zeros(self.n_envs, np.int64)
        seeds[chosen] = [spec.env_seed for spec in specs]
        self._steps_left[chosen] = self._n_steps
        return self._begin(chosen, specs, seeds, mask_of(chosen, self.n_envs))

    def step(self, envs: Sequence[int], actions: Actions) -> StepAnswers:
        """Step each of M envs once."""
        chosen = np.asarray(envs)
        self._steps_left[chosen] -= 1
        truncated = self._steps_left[chosen] == 0
        try:
            obs, rewards = self._play(chosen, actions, mask_of(chosen, self.n_envs))
        except SimulationError as error:
            if error.env is None:
                raise
            raise EpisodeError(self._specs[error.env]) from error
        reward = np.asarray(rewards, np.float64)
        return StepAnswers(obs, reward, np.zeros_like(truncated), truncated)

    def close(self) -> None:
        """Do nothing: nothing is held."""

    def _begin(
        self, envs: Numbers, specs: Sequence[EpisodeSpec], seeds: Numbers, mask: NDArray[np.bool_]
    ) -> Obs:
        """Begin an episode in each of M envs. Return obs [M, D].

        seeds, mask: [n_envs], the seeds of the M envs, and which envs these are.
        """
        raise NotImplementedError

    def _play(
        self, envs: Numbers, actions: Actions, mask: NDArray[np.bool_]
    ) -> tuple[Obs, NDArray[Any]]:
        """Play a step in each of M envs. Return obs [M, D] and rewards [M].

        The steps that are left are counted already. Raise SimulationError with its env.
        """
        raise NotImplementedError
