"""NASimEmu's networks: one choice among actions, with masks, and a table of the hosts found.

NASimEmu shows a row for each host that the attacker has found, and takes a pair of a host's address
and an action. Here the table has `hosts` rows, filled as hosts are found. An action is one of a
row's, or the last one, which stops. NASimEmu's own limit of steps begins another episode at once.
"""

from __future__ import annotations

from typing import Any

import gym
import numpy as np
from nasimemu.env import NASimEmuEnv
from nasimemu.nasim.envs.host_vector import HostVector
from numpy.typing import NDArray


class Hosts:
    """Networks of a scenario's file, or of several files with ":" between their paths."""

    def __init__(self, scenario: str, hosts: int = 12, max_steps: int = 100) -> None:
        self._env, self._max_steps = NASimEmuEnv(scenario), max_steps
        seen = self._env.reset()
        self._n_actions, size = len(self._env.action_list), (hosts + 1, seen.shape[1])
        self.observation_space = gym.spaces.Box(-np.inf, np.inf, size, np.float32)
        self.action_space = gym.spaces.Discrete(hosts * self._n_actions + 1)

    def reset(self, seed: int | None = None) -> tuple[Any, dict[str, Any]]:
        """Begin in a network. The process's random state, which the seed determines, draws it."""
        self._seen, self._steps = self._env.reset(), 0
        return self._shown(), {}

    def step(self, action: int) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self._steps += 1
        ended = self._steps == self._max_steps
        if action == self.action_space.n - 1:
            return self._shown(), 0.0, True, False, {}
        row, number = divmod(int(action), self._n_actions)
        host = HostVector(self._seen[row]).address
        self._seen, reward, *_ = self._env.step((host, number))
        return self._shown(), float(reward), False, ended, {}

    def action_masks(self) -> NDArray[np.bool_]:
        """Return a flag for each action: the host of its row has been found."""
        found = (len(self._seen) - 1) * self._n_actions
        return np.append(np.arange(self.action_space.n - 1) < found, True)

    def _shown(self) -> NDArray[np.float32]:
        *found, told = self._seen
        if len(found) >= len(self.observation_space.low):
            raise ValueError(
                f"{len(found)} hosts are found, and the table has rows for "
                f"{len(self.observation_space.low) - 1}: give more, such as --env-arg hosts=40"
            )
        rows = np.zeros(self.observation_space.shape, np.float32)
        rows[: len(found)], rows[-1] = found, told
        return rows
