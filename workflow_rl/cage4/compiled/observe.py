"""What blue agents see. Follows `BlueFlatWrapper` and `BlueFixedActionWrapper`."""

from typing import Any

import numpy as np

from workflow_rl.cage4.compiled import constants
from workflow_rl.cage4.compiled.actions import IS_ON_HOST, KIND_OF, TARGET_OF
from workflow_rl.cage4.compiled.hosts import CONNECTION_BITS, PROCESS_BITS
from workflow_rl.cage4.compiled.jit import compiled
from workflow_rl.cage4.scenario import scenario4

ACTION_COUNTS = np.array(scenario4.N_ACTIONS)
SEEN_ZONES = np.zeros((constants.N_BLUE, scenario4.N_ZONES_OF_AGENT.max()), np.int64)
for _agent, _zones in enumerate(scenario4.AGENT_ZONES):
    SEEN_ZONES[_agent, : len(_zones)] = [scenario4.ZONES.index(zone) for zone in _zones]
SHOWN = np.array(
    [
        *range(constants.FIRST_SERVER, constants.FIRST_SERVER + scenario4.N_SERVERS),
        *range(constants.FIRST_USER, constants.FIRST_USER + scenario4.N_USERS),
    ]
)
"""`[16]`: the places of a zone's hosts, in the order of the hosts' names."""
N_SHOWN = scenario4.HOSTS_OF_A_ZONE


@compiled
def observe(s: Any, messages: Any, obs: Any) -> None:
    """Write the five observations. obs: int8 `[578]`. messages: `[5, 8]`, zeros and ones."""
    for agent in range(constants.N_BLUE):
        at = scenario4.FIRST_OBS[agent]
        obs[at] = s.phase
        at += 1
        for i in range(scenario4.N_ZONES_OF_AGENT[agent]):
            at = show_zone(s, SEEN_ZONES[agent, i], obs, at)
        for sender in range(constants.N_BLUE):
            if sender != agent:
                for bit in range(scenario4.MESSAGE_BITS):
                    obs[at] = messages[sender, bit]
                    at += 1


@compiled
def show_zone(s: Any, zone: int, obs: Any, at: int) -> int:
    """Write the 59 entries of one zone from index `at` on. Returns the index after the entries."""
    for i in range(constants.N_ZONES):
        other = constants.ALPHABETICAL[i]
        obs[at + i] = zone == other
        obs[at + constants.N_ZONES + i] = (s.blocked[zone] >> other) & 1
        obs[at + 2 * constants.N_ZONES + i] = constants.POLICY[s.phase, zone, i]
    at += 3 * constants.N_ZONES
    for i in range(N_SHOWN):
        bits = s.has_events[zone * constants.PLACES + SHOWN[i]]
        obs[at + i] = (bits & PROCESS_BITS) != 0
        obs[at + N_SHOWN + i] = (bits & CONNECTION_BITS) != 0
    return at + 2 * N_SHOWN


@compiled
def write_masks(s: Any, masks: Any) -> None:
    """Write which actions are possible in this episode. masks: bool `[570]`."""
    for agent in range(constants.N_BLUE):
        for action in range(ACTION_COUNTS[agent]):
            masks[scenario4.FIRST_ACTION[agent] + action] = is_possible(s, agent, action)


@compiled
def is_possible(s: Any, agent: int, action: int) -> bool:
    """Return whether an action has no target host, or its target host exists."""
    return not IS_ON_HOST[KIND_OF[agent, action]] or s.exists[TARGET_OF[agent, action]] != 0
