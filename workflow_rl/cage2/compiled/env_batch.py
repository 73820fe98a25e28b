"""The compiled simulator as the envs of a worker: a whole block of episodes at once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from agents.policies.distributions import Actions
from workflow_rl.cage2.compiled.simulator import Simulator
from workflow_rl.cage2.scenario2 import RED_AGENTS
from workflow_rl.environments.env_batch import Transitions
from workflow_rl.environments.episode import EpisodeSpec


class CompiledEnvs:
    """`n_envs` networks that step in one call of compiled code.

    They play what as many `Cage2Env` play. Episodes are truncated after `max_steps` steps.
    """

    def __init__(self, max_steps: int, n_envs: int) -> None:
        self.n_envs = n_envs
        self._max_steps = max_steps
        self._simulator = Simulator(n_envs, max_steps)
        self._steps_left = np.zeros(n_envs, np.int64)

    @property
    def states(self) -> NDArray[Any]:
        """The envs themselves, records `[n_envs]` of `state.STATE`."""
        return self._simulator.states

    def reset(self, envs: Sequence[int], specs: Sequence[EpisodeSpec]) -> NDArray[np.uint8]:
        """Begin an episode in each of M envs. Returns obs [M, 52]."""
        chosen = self._chosen(envs)
        seeds, red_agents = np.zeros((2, self.n_envs), np.int64)
        seeds[envs] = [spec.env_seed for spec in specs]
        red_agents[envs] = [RED_AGENTS.index(spec.variant) for spec in specs]
        self._simulator.reset(seeds, red_agents, chosen)
        self._steps_left[envs] = self._max_steps
        return self._simulator.obs[envs]

    def step(self, envs: Sequence[int], actions: Actions) -> Transitions:
        """Step each of M envs once."""
        chosen = self._chosen(envs)
        all_actions = np.zeros(self.n_envs, np.int64)
        all_actions[envs] = actions
        obs, rewards = self._simulator.step(all_actions, chosen)
        self._steps_left[envs] -= 1
        truncated = self._steps_left[envs] == 0
        return Transitions(obs[envs], rewards[envs], np.zeros_like(truncated), truncated)

    def close(self) -> None:
        """Nothing is held."""

    def _chosen(self, envs: Sequence[int]) -> NDArray[np.bool_]:
        chosen = np.zeros(self.n_envs, np.bool_)
        chosen[envs] = True
        return chosen
