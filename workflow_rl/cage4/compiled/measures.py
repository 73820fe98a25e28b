"""The costs of a step, counted from networks' records: see `scenario.costs`."""

from typing import Any

import numpy as np

from workflow_rl.cage4.compiled import constants
from workflow_rl.cage4.compiled.actions import BLUE_ACTIONS, RED_ACTIONS, REMOVE, RESTORE
from workflow_rl.cage4.compiled.green_actions import ACCESS, WORK
from workflow_rl.cage4.compiled.jit import compiled, entry_point, int64
from workflow_rl.cage4.scenario.costs import AT, COUNTED_BLUE, COUNTED_RED, FIRST_LEVEL
from workflow_rl.cage4.scenario.scenario4 import TRUE

NONE = -1
COLUMN_OF_BLUE = np.array([COUNTED_BLUE.get(kind, NONE) for kind in BLUE_ACTIONS])
COLUMN_OF_RED = np.array([COUNTED_RED.get(kind, NONE) for kind in (*RED_ACTIONS, "")])
"""The column of a red action, by `seen_kind`. The last entry is for DROPPED."""


@entry_point
def count_step(states: Any, chosen: Any, costs: Any) -> None:
    """Write the costs of the last step of the chosen envs.

    costs: float64 `[N, len(EVALUATED)]`, the costs of the step before. A reset network's are zeros.
    """
    for i in range(len(states)):
        if chosen[i]:
            costs[i, :FIRST_LEVEL] = 0
            # count_blue reads the levels of the step before, on which blue's actions took effect.
            count_blue(states[i], costs[i])
            count_red(states[i], costs[i])
            count_greens(states[i], costs[i])
            count_hosts(states[i], costs[i])


@compiled
def count_blue(s: Any, costs: Any) -> None:
    for agent in range(constants.N_BLUE):
        costs[AT.restore_steps] += s.blue_kind[agent] == RESTORE
        kind = s.blue_done[agent]
        if COLUMN_OF_BLUE[kind] != NONE:
            costs[COLUMN_OF_BLUE[kind]] += 1
        if kind in (REMOVE, RESTORE):
            is_held = costs[FIRST_LEVEL + int64(s.blue_target[agent])] > 0
            column = AT.counter_actions if is_held else AT.healthy_recoveries
            costs[column] += 1
    for zone in range(constants.N_ZONES):
        costs[AT.blocked_pairs] += s.n_blocked[zone]
    costs[AT.action_cost] = 0 - s.action_cost


@compiled
def count_red(s: Any, costs: Any) -> None:
    for agent in range(constants.N_RED):
        column = COLUMN_OF_RED[s.seen_kind[agent]]
        if column != NONE and s.seen_success[agent] == TRUE:
            costs[column] += 1


@compiled
def count_greens(s: Any, costs: Any) -> None:
    for i in range(int64(s.n_greens)):
        choice, has_failed = s.green_choice[i], s.green_failed[i]
        costs[AT.green_work] += choice in (WORK, ACCESS)
        costs[AT.blue_failures] += has_failed and choice == ACCESS
        costs[AT.red_failures] += has_failed and choice == WORK
    costs[AT.green_failures] = costs[AT.blue_failures] + costs[AT.red_failures]
    costs[AT.downtime] = costs[AT.restore_steps] + costs[AT.blue_failures]


@compiled
def count_hosts(s: Any, costs: Any) -> None:
    levels = costs[FIRST_LEVEL:]
    levels[:] = 0
    for agent in range(constants.N_RED):
        for i in range(int64(s.n_sessions[agent])):
            session = s.sessions[agent, i]
            level = 2 if session.user == constants.ROOT else 1
            levels[session.host] = max(levels[session.host], level)
    for host in range(constants.N_HOSTS):
        if not s.exists[host]:
            continue
        if not counts(s, host):
            levels[host] = 0
            continue
        costs[AT.clean_hosts + int64(levels[host])] += 1
        if levels[host] > 0 and constants.BLUE_OF_ZONE[constants.ZONE[host]] != constants.NOBODY:
            costs[AT.red_present] = 1


@compiled
def counts(s: Any, host: int) -> bool:
    """Return whether a host of the network counts: see `scenario.costs`."""
    if constants.PLACE[host] == 0:  # A router, or the internet's host.
        return False
    # A host whose last original process is red's session is the host where red begins.
    return s.original_kind[host, int64(s.n_original[host]) - 1] != constants.RED_SESSION
