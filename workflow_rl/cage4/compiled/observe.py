"""What blue agents see: follows `BlueFlatWrapper` and `BlueFixedActionWrapper`."""

from __future__ import annotations

from typing import Any

import numpy as np

from workflow_rl.cage4.compiled.actions import (
    IS_ON_HOST,
    KIND_OF,
    MAX_ACTIONS,
    PLACES_SHOWN,
    TARGET_OF,
    zones_of,
)
from workflow_rl.cage4.compiled.hosts import CONNECTION_BITS, PROCESS_BITS
from workflow_rl.cage4.compiled.jit import compiled, int64
from workflow_rl.cage4.compiled.network import ALPHABETICAL, N_BLUE, N_ZONES, PLACES, POLICY

N_SHOWN = len(PLACES_SHOWN)
MESSAGE_BITS = 8
N_MESSAGE_BITS = (N_BLUE - 1) * MESSAGE_BITS
SHORT, LONG = 92, 210
FIRST_OBS = np.array([SHORT * agent for agent in range(N_BLUE)])
"""Where an agent's observation begins in a row of all five."""
N_OBS = SHORT * (N_BLUE - 1) + LONG
FIRST_ACTION = np.array([82 * agent for agent in range(N_BLUE)])
N_ACTIONS = np.array([82, 82, 82, 82, MAX_ACTIONS])
N_MASKS = int64(N_ACTIONS.sum())
_ZONES = [zones_of(agent) for agent in range(N_BLUE)]
N_SEEN_ZONES = np.array([len(zones) for zones in _ZONES])
SEEN_ZONES = np.array([zones + [0] * (3 - len(zones)) for zones in _ZONES])


@compiled
def observe(s: Any, messages: Any, obs: Any) -> None:
    """Write the five observations, obs int8 `[578]`. messages: `[5, 8]`, 0 or 1."""
    for agent in range(N_BLUE):
        at = FIRST_OBS[agent]
        obs[at] = s.phase
        at += 1
        for i in range(N_SEEN_ZONES[agent]):
            at = show_zone(s, SEEN_ZONES[agent, i], obs, at)
        for sender in range(N_BLUE):
            if sender != agent:
                for bit in range(MESSAGE_BITS):
                    obs[at] = messages[sender, bit]
                    at += 1


@compiled
def show_zone(s: Any, zone: int, obs: Any, at: int) -> int:
    """Write the 59 entries of one zone. Returns the place after them."""
    for i in range(N_ZONES):
        other = ALPHABETICAL[i]
        obs[at + i] = zone == other
        obs[at + N_ZONES + i] = s.blocked[zone] >> other & 1
        obs[at + 2 * N_ZONES + i] = POLICY[s.phase, zone, i]
    at += 3 * N_ZONES
    for i in range(N_SHOWN):
        bits = s.has_events[zone * PLACES + PLACES_SHOWN[i]]
        obs[at + i] = bits & PROCESS_BITS != 0
        obs[at + N_SHOWN + i] = bits & CONNECTION_BITS != 0
    return at + 2 * N_SHOWN


@compiled
def write_masks(s: Any, masks: Any) -> None:
    """Write which actions are possible in this episode, masks bool `[570]`."""
    for agent in range(N_BLUE):
        for action in range(N_ACTIONS[agent]):
            masks[FIRST_ACTION[agent] + action] = is_possible(s, agent, action)


@compiled
def is_possible(s: Any, agent: int, action: int) -> bool:
    """Return whether an action is on a host that exists, or on none."""
    return not IS_ON_HOST[KIND_OF[agent, action]] or s.exists[TARGET_OF[agent, action]] != 0
