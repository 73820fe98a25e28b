"""The actions of blue and red agents, as tables."""

from __future__ import annotations

from typing import Any

import numpy as np

from workflow_rl.cage4.compiled.constants import N_BLUE, NOBODY
from workflow_rl.cage4.scenario.actions import BLUE, RED
from workflow_rl.cage4.scenario.scenario4 import (
    ACTIONS,
    HOST_NUMBERS,
    N_ACTIONS,
    ZONES,
)

(SLEEP, MONITOR, ANALYSE, REMOVE, RESTORE, ALLOW, BLOCK, DECOY) = range(len(BLUE))
BLUE_ACTIONS = tuple(BLUE)
IS_ON_HOST = np.array([kind.on_host for kind in BLUE.values()])
BLUE_DURATION = np.array([kind.duration for kind in BLUE.values()], np.int64)
BLUE_COST = np.array([kind.cost for kind in BLUE.values()], np.int64)
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
) = range(len(RED))
"""In the order of a red agent's action space; then what replaces an action that is not in it."""
RED_ACTIONS = tuple(RED)
RED_DURATION = np.array([*RED.values()], np.int64)
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
