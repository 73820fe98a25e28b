"""CyberBattleSim's networks: one choice among attacks, with masks, and numbers to learn from.

CyberBattleSim takes one of three nested actions, shows Python objects among its observations, and
has masks of millions of bits. Here a local attack has a node, a remote attack a target, and a
connection a source, a port and a credential that was found, which has a target. The source of a
remote attack is any node that is owned.
"""

from __future__ import annotations

import math
from typing import Any

import cyberbattle  # noqa: F401 (registers its environments)
import gymnasium
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray


class Attacks(gymnasium.Wrapper[Any, Any, Any, Any]):
    """A CyberBattleEnv in numbers. Observations also show which actions were taken before."""

    def __init__(self, env: gymnasium.Env[Any, Any]) -> None:
        super().__init__(env)
        bounds: Any = env.unwrapped.bounds  # type: ignore[attr-defined]
        n_nodes, n_credentials = bounds.maximum_node_count, bounds.maximum_total_credentials
        self._n_local, self._n_remote = bounds.local_attacks_count, bounds.remote_attacks_count
        self._links = n_nodes, n_credentials, bounds.port_count
        n_of_kinds = [n_nodes * self._n_local, n_nodes * self._n_remote, math.prod(self._links)]
        self._ends = np.cumsum(n_of_kinds)
        size = n_nodes * (1 + bounds.property_count) + 2 * n_credentials + 1 + int(self._ends[-1])
        self.action_space = spaces.Discrete(int(self._ends[-1]))
        self.observation_space = spaces.Box(-1, np.inf, (size,), np.float32)

    def reset(self, **options: Any) -> tuple[Any, dict[str, Any]]:
        self._obs, _ = self.env.reset(**options)
        self._taken = np.zeros(self._ends[-1], np.float32)
        return self._shown(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self._taken[action] = 1
        self._obs, reward, *ends, _ = self.env.step(self._attack(int(action)))
        return self._shown(), float(reward), *ends, {}  # type: ignore[return-value]

    def action_masks(self) -> NDArray[np.bool_]:
        """Return the attacks that the simulator calls valid, except links to owned nodes."""
        mask, owned = self._obs["action_mask"], self._obs["nodes_privilegelevel"] > 0
        links = np.zeros(self._links, bool)
        for number in range(self._obs["credential_cache_length"]):
            target, _ = self._obs["credential_cache_matrix"][number]
            links[:, number] = ~owned[target] & (mask["connect"][:, target, :, number] > 0)
        local, remote = mask["local_vulnerability"], mask["remote_vulnerability"].any(axis=0)
        return np.concatenate([part.ravel() for part in (local, remote, links)]) > 0

    def _attack(self, action: int) -> dict[str, Any]:
        if action < self._ends[0]:
            return {"local_vulnerability": np.array(divmod(action, self._n_local))}
        if action < self._ends[1]:
            target, attack = divmod(action - self._ends[0], self._n_remote)
            sources = self._obs["action_mask"]["remote_vulnerability"][:, target, attack]
            return {"remote_vulnerability": np.array([sources.argmax(), target, attack])}
        source, number, port = np.unravel_index(action - self._ends[1], self._links)
        target, _ = self._obs["credential_cache_matrix"][number]
        return {"connect": np.array([source, target, port, number])}

    def _shown(self) -> NDArray[np.float32]:
        names = ("nodes_privilegelevel", "discovered_nodes_properties", "credential_cache_matrix")
        parts = [np.ravel(self._obs[name]) for name in (*names, "discovered_node_count")]
        return np.concatenate([*parts, self._taken], dtype=np.float32)


def make(
    env: str = "CyberBattleToyCtf-v0", nodes: int = 12, credentials: int = 10, max_steps: int = 200
) -> gymnasium.Env[Any, Any]:
    """Return the environment of this id. nodes, credentials: their largest numbers."""
    sizes = {"maximum_node_count": nodes, "maximum_total_credentials": credentials}
    return Attacks(gymnasium.make(env, max_steps, disable_env_checker=True, **sizes))
