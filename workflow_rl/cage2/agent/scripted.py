"""Blue agents that follow a fixed rule: the baselines of CAGE Challenge 2.

They read the observation of the env, 52 bits, and return the index of an action. `react-remove` and
`react-restore` play exactly like CybORG's `BlueReactRemoveAgent` and `BlueReactRestoreAgent`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

N_ACTIONS = 145
SLEEP, MONITOR, FIRST_REMOVE, FIRST_RESTORE = 0, 1, 15, 132
USER0 = 8


class ScriptedAgent(Protocol):
    """An agent that plays one episode after another."""

    def reset(self, seed: int) -> None:
        """Prepare for an episode; the seed determines any draws made in it."""

    def act(self, obs: NDArray[np.uint8], info: Mapping[str, Any] | None = None) -> int:
        """Choose an action, given what the env returned last: obs uint8 [52], and info."""


class SleepAgent:
    """An agent that never does anything."""

    def reset(self, seed: int) -> None:
        pass

    def act(self, obs: NDArray[np.uint8], info: Mapping[str, Any] | None = None) -> int:
        return SLEEP


class RandomAgent:
    """An agent that draws all actions with equal probability."""

    def reset(self, seed: int) -> None:
        self._generator = np.random.default_rng(seed)

    def act(self, obs: NDArray[np.uint8], info: Mapping[str, Any] | None = None) -> int:
        return int(self._generator.integers(N_ACTIONS))


class ReactAgent:
    """An agent that monitors until a process is caught, and then treats the hosts in turn.

    The 52 bits do not suffice: they show a host as exploited if a process was caught, and also if
    SSH passwords were guessed, but CybORG's agents react to the former alone. So the agent reads
    `info["suspicious_hosts"]`, a mask of hosts `[13]`. As in CybORG, it leaves User0 to Red, and
    misses what is seen while it treats a host.

    Args:
        first_treatment: index of the action that treats host 0.
    """

    def __init__(self, first_treatment: int) -> None:
        self._first_treatment = first_treatment
        self._queue: list[int] = []
        self._monitored = False

    def reset(self, seed: int) -> None:
        self._queue = []
        self._monitored = False

    def act(self, obs: NDArray[np.uint8], info: Mapping[str, Any] | None = None) -> int:
        if info is None or "suspicious_hosts" not in info:
            raise ValueError("a react agent needs info['suspicious_hosts'], as Cage2Env returns it")
        if self._monitored:
            for host in np.flatnonzero(info["suspicious_hosts"]).tolist():
                if host != USER0 and host not in self._queue:
                    self._queue.append(host)
        self._monitored = not self._queue
        return self._first_treatment + self._queue.pop(0) if self._queue else MONITOR


_AGENTS: dict[str, Callable[[], ScriptedAgent]] = {
    "sleep": SleepAgent,
    "random": RandomAgent,
    "react-remove": lambda: ReactAgent(FIRST_REMOVE),
    "react-restore": lambda: ReactAgent(FIRST_RESTORE),
}
SCRIPTED_AGENTS = tuple(_AGENTS)


def make_scripted_agent(name: str) -> ScriptedAgent:
    """Make the scripted agent of this name, one of `SCRIPTED_AGENTS`."""
    if name not in _AGENTS:
        raise ValueError(f"agent={name!r}: choose one of {', '.join(SCRIPTED_AGENTS)}")
    return _AGENTS[name]()
