"""The actions of blue and red agents, as tables."""

from typing import Any

import numpy as np

from workflow_rl.cage4.compiled.constants import N_BLUE, NOBODY
from workflow_rl.cage4.scenario.actions import BLUE, RED
from workflow_rl.cage4.scenario.scenario4 import ACTIONS, HOST_NUMBERS, N_ACTIONS, ZONES

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
"""The numbers of red actions. The action space of a red agent has all kinds except INVALID."""
RED_ACTIONS = tuple(RED)
RED_DURATION = np.array([*RED.values()], np.int64)
N_RED_ACTIONS = INVALID
DROPPED = len(RED)
"""The `seen_kind` of a red agent whose action was dropped, because the action's session is gone."""


def _blue_actions() -> Any:
    """Return `[3, 5, 242]`: three tables by agent and action. The tables are the kind, the target
    (a host, or the zone that traffic goes to), and the zone that traffic comes from."""
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
