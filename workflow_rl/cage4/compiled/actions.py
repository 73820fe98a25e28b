"""The actions of blue and red agents, as tables."""

from __future__ import annotations

from typing import Any

import numpy as np

from workflow_rl.cage4.compiled.network import (
    ALPHABETICAL,
    FIRST_SERVER,
    FIRST_USER,
    FIRST_ZONE_OF_BLUE,
    MAX_SERVERS,
    MAX_USERS,
    N_BLUE,
    N_ZONES_OF_BLUE,
    NOBODY,
    PLACES,
)

(SLEEP, MONITOR, ANALYSE, REMOVE, RESTORE, ALLOW, BLOCK, DECOY) = range(8)
HOST_ACTIONS = ("Analyse", "Remove", "Restore", "DeployDecoy")
BLUE_ACTIONS = (
    "Sleep",
    "Monitor",
    "Analyse",
    "Remove",
    "Restore",
    "AllowTrafficZone",
    "BlockTrafficZone",
    "DeployDecoy",
)
IS_ON_HOST = np.array([name in HOST_ACTIONS for name in BLUE_ACTIONS])
BLUE_DURATION = np.array([1, 1, 2, 3, 5, 1, 1, 2], np.int64)
MAX_ACTIONS = 242

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
RED_ACTIONS = (
    "DiscoverRemoteSystems",
    "AggressiveServiceDiscovery",
    "StealthServiceDiscovery",
    "ExploitRemoteService",
    "PrivilegeEscalate",
    "DegradeServices",
    "DiscoverDeception",
    "Impact",
    "Withdraw",
    "Sleep",
    "InvalidAction",
)
RED_DURATION = np.array([1, 1, 3, 4, 2, 2, 2, 2, 1, 1, 1], np.int64)
N_RED_ACTIONS = 10
DROPPED = 11  # In an agent's outcome: its session was gone.

# The observed success of an action.
TRUE, UNKNOWN, FALSE, IN_PROGRESS = 1, 2, 3, 4

PLACES_SHOWN = np.array(
    [*range(FIRST_SERVER, FIRST_SERVER + MAX_SERVERS), *range(FIRST_USER, FIRST_USER + MAX_USERS)],
    np.int64,
)
"""A zone's hosts in the order of names, without the router: `[16]`."""


def zones_of(agent: int) -> list[int]:
    """Return a blue agent's zones in the order of names."""
    first = int(FIRST_ZONE_OF_BLUE[agent])
    return [int(z) for z in ALPHABETICAL if first <= z < first + N_ZONES_OF_BLUE[agent]]


def _blue_actions() -> Any:
    """Return by agent and index the kind, and the host or the zones to and from: `[5, 242, 3]`."""
    table = np.zeros((N_BLUE, MAX_ACTIONS, 3), np.int64)
    table[:, :, 1:] = NOBODY
    for agent in range(N_BLUE):
        zones = zones_of(agent)
        hosts = [zone * PLACES + int(place) for zone in zones for place in PLACES_SHOWN]
        pairs = [(to, int(source)) for to in zones for source in ALPHABETICAL if source != to]
        rows = [
            *((ANALYSE, host, NOBODY) for host in hosts),
            (MONITOR, NOBODY, NOBODY),
            *((REMOVE, host, NOBODY) for host in hosts),
            *((RESTORE, host, NOBODY) for host in hosts),
            (SLEEP, NOBODY, NOBODY),
            *((ALLOW, *pair) for pair in pairs),
            *((BLOCK, *pair) for pair in pairs),
            *((DECOY, host, NOBODY) for host in hosts),
        ]
        table[agent, : len(rows)] = rows
    return table


BLUE_TABLE = _blue_actions()
KIND_OF, TARGET_OF, SOURCE_OF = map(np.ascontiguousarray, np.moveaxis(BLUE_TABLE, 2, 0))
