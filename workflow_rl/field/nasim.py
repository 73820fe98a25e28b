"""NASim's benchmark networks, with masks: an action is possible if its host has been discovered.

Since NASim 0.12, its own `get_action_mask` fails: it asks the network for a fact of the state.
"""

from __future__ import annotations

from typing import Any

import gymnasium
import nasim
import numpy as np
from numpy.typing import NDArray


class Masked(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Tells which actions of a NASim environment with flat actions are possible."""

    def __init__(self, env: gymnasium.Env[Any, Any]) -> None:
        super().__init__(env)
        space: Any = env.action_space
        targets = [space.get_action(number).target for number in range(space.n)]
        self._hosts = list(dict.fromkeys(targets))
        self._host_of = np.array([self._hosts.index(target) for target in targets])

    def action_masks(self) -> NDArray[np.bool_]:
        state: Any = self.env.unwrapped.current_state  # type: ignore[attr-defined]
        return np.array([state.host_discovered(host) for host in self._hosts], bool)[self._host_of]


def with_masks(scenario: str = "small", fully_obs: bool = True) -> gymnasium.Env[Any, Any]:
    """Return the network of this name, such as "tiny", "small" or "medium".

    fully_obs: whether the agent sees the whole state, or only what its last action told it.
    """
    return Masked(nasim.make_benchmark(scenario, fully_obs=fully_obs))
