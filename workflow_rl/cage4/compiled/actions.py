"""The actions of blue and red agents, as tables."""

from __future__ import annotations

from typing import Any

import numpy as np

from workflow_rl.cage4.compiled.constants import N_BLUE, NOBODY
from workflow_rl.cage4.scenario.scenario4 import (
    ACTIONS,
    DURATIONS,
    HOST_NUMBERS,
    N_ACTIONS,
    ON_HOSTS,
    ZONES,
)

(SLEEP, MONITOR, ANALYSE, REMOVE, RESTORE, ALLOW, BLOCK, DECOY) = range(8)
BLUE_ACTIONS = tuple(DURATIONS)
IS_ON_HOST = np.array([name in ON_HOSTS for name in BLUE_ACTIONS])
BLUE_DURATION = np.array([*DURATIONS.values()], np.int64)
MAX_ACTIONS = max(N_ACTIONS)

(
    DISCOVER,
    AGGRESSIVE_SCAN,
    STEALTH_SCAN,
    EXPLOIT,
    ESCALATE,
    DEGRADE,
    DECEPTION,
    IMPACT,
    WITHDRAW,
    RED_SLEEP,
    INVALID,
) = range(11)
"""In the order of a red agent's action space; then what replaces an action that is not in it."""
_RED_DURATIONS = {
    "DiscoverRemoteSystems": 1,
    "AggressiveServiceDiscovery": 1,
    "StealthServiceDiscovery": 3,
    "ExploitRemoteService": 4,
    "PrivilegeEscalate": 2,
    "DegradeServices": 2,
    "DiscoverDeception": 2,
    "Impact": 2,
    "Withdraw": 1,
    "Sleep": 1,
    "InvalidAction": 1,
}
RED_ACTIONS = tuple(_RED_DURATIONS)
RED_DURATION = np.array([*_RED_DURATIONS.values()], np.int64)
N_RED_ACTIONS = 10
DROPPED = 11  # In an agent's outcome: its session was gone.


def _blue_actions() -> Any:
    """Return by agent and index the kind, and the host or the zones to and from: `[3, 5, 242]`."""
    table = np.full((3, N_BLUE, MAX_ACTIONS), NOBODY, np.int64)
    for agent, actions in enumerate(ACTIONS):
        for i, action in enumerate(actions):
            kind = BLUE_ACTIONS.index(action.kind)
            table[0, agent, i] = kind
            if IS_ON_HOST[kind]:
                table[1, agent, i] = HOST_NUMBERS[action.host]
            elif action.to_zone:
                zones = ZONES.index(action.to_zone), ZONES.index(action.from_zone)
                table[1:, agent, i] = zones
    return table


KIND_OF, TARGET_OF, SOURCE_OF = _blue_actions()
