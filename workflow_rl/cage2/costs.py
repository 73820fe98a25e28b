"""The costs of a step, counted from the true state.

CybORG's simulators call `write_costs`. For compiled networks, `compiled.measures` compiles it.
Workers import this module without numba."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from workflow_rl.cage2.compiled import tables
from workflow_rl.cage2.scenario.actions import BLUE
from workflow_rl.cage2.scenario.scenario import Scenario
from workflow_rl.cage2.scenario.simulator_protocol import Simulator

COSTS = (
    "clean_hosts", "user_hosts", "root_hosts", "impacts", "restores", "removes",
    "healthy_recoveries", "counter_actions", "analyses", "decoys", "red_present", "action_cost",
)  # fmt: skip
N_COSTS = len(COSTS)
CLEAN_HOSTS, USER_HOSTS, ROOT_HOSTS, IMPACTS, RESTORES, REMOVES = range(6)
HEALTHY_RECOVERIES, COUNTER_ACTIONS, _, _, RED_PRESENT, ACTION_COST = range(6, N_COSTS)
NOT_COUNTED = -1
COUNTED = np.array(
    [COSTS.index(kind.counted) if kind.counted else NOT_COUNTED for kind in BLUE.values()]
)
"""For each kind of Blue's action: the column that counts these actions, or NOT_COUNTED."""
LEVEL = "level "
"""Prefix of a cost's name, as in "level User0". The cost's values: 0 if the host is clean, 1 if Red
has a user's session, 2 if Red is root or SYSTEM."""


def evaluated_costs(networks: Sequence[Scenario]) -> tuple[str, ...]:
    """Return the names of a step's costs in an evaluation: COSTS, then the level of each host, but
    not of Red's first host. If there are several networks, numbers stand for the hosts."""
    if len(networks) > 1:
        most = max(len(network.hosts) for network in networks)
        hosts = [str(number) for number in range(1, most)]
    else:
        hosts = [host for host in networks[0].hosts if host != networks[0].red_host]
    return *COSTS, *(LEVEL + host for host in hosts)


def write_costs(
    costs: Any,
    n_hosts: int,
    red_host: int,
    action: tuple[int, int],
    is_carried_out: bool,
    is_impact: bool,
    held_before: int,
    held: tuple[int, int],
) -> None:
    """Write the costs of one step, float64 [C]: COSTS, then the hosts' levels if there is room.

    Red's foothold is the session that Red has from the start. The foothold does not count as a
    session here, and the foothold's host does not count as a host.

    red_host: the foothold's host. action: kind and host of Blue's action. is_carried_out: whether
    Blue's action succeeded. is_impact: whether Red's action was an Impact that succeeded.
    held_before: the mask of the hosts where Red has a session, before Blue's action. held: the same
    mask at the end of the step, and the mask of the hosts where Red is root or SYSTEM."""
    costs[:] = 0
    column = N_COSTS
    for host in range(n_hosts):
        if host == red_host:
            continue
        has_session = (held[0] >> host) & 1
        is_root = (held[1] >> host) & 1
        level = has_session + is_root
        costs[CLEAN_HOSTS + level] += 1
        if column < len(costs):
            costs[column] = level
            column += 1
    costs[IMPACTS] = is_impact
    costs[RED_PRESENT] = costs[CLEAN_HOSTS] < n_hosts - 1
    kind, target = action
    costs[ACTION_COST] = tables.COST[kind] / 10  # The table holds tenths.
    counted = COUNTED[kind]
    if not is_carried_out or counted == NOT_COUNTED:
        return
    costs[counted] = 1
    if counted in (RESTORES, REMOVES):
        is_held = (held_before >> target) & 1
        costs[COUNTER_ACTIONS] = is_held
        costs[HEALTHY_RECOVERIES] = not is_held and target != red_host


def costs_of_step(
    simulator: Simulator,
    network: tables.Tables,
    action: int,
    held_before: int,
    names: Sequence[str] = COSTS,
) -> dict[str, float]:
    """Return the costs of a simulator's last step. network: of the simulator. action: Blue's.
    held_before: the first of `Simulator.held` before the step. names: see `evaluated_costs`."""
    blue_success, red_action, _, red_success, _ = simulator.facts
    costs, by_name = np.empty(len(names)), network.of
    write_costs(
        costs,
        len(network.scenario.hosts),
        int(by_name["red_host"]),
        (int(by_name["action_kind"][action]), int(by_name["action_host"][action])),
        blue_success == tables.TRUE,
        (red_action, red_success) == (tables.IMPACT, tables.TRUE),
        held_before,
        simulator.held,
    )
    return dict(zip(names, costs.tolist(), strict=True))
