"""What critics may see while a team learns: the true state, and each agent's own reward.

Agents see neither. The own reward counts the expected failures of greens instead of the drawn
failures, so that the reward varies less.

The true state of an agent's zones has 20 numbers:

    0, 1     the share of each green's work that fails, summed over the greens; its cost per step
    2        1 if the zone's red agent has a session
    3 to 6   red sessions on users' hosts: root's, those on hosts in a state of HAS_SESSION,
             sessions that can scan, others
    7 to 10  red sessions on servers, in the order of 3 to 6
    11, 12   root's sessions: the cost of failed work on users' hosts, and the cost of an Impact
    13, 14   sessions that the blue agent's action in progress ends: root's, others
    15 to 17 the red agent's known session ids, scanning sessions per known id, known hosts
    18, 19   the steps for which the blue agent is busy; 1 if the red agent has acted
    Numbers 11, 12, 15, 17 and 18 are scaled down for the network that reads them."""

from typing import Any

from workflow_rl.cage4.compiled import constants
from workflow_rl.cage4.compiled.actions import IMPACT, REMOVE, RESTORE
from workflow_rl.cage4.compiled.jit import compiled, entry_point
from workflow_rl.cage4.compiled.red_tables import HAS_SESSION
from workflow_rl.cage4.scenario.scenario4 import FAILED_WORK, IMPACT_COST

GREEN_WORK = 1 / 3  # A green chooses to work with this probability.
FULL = 100


@entry_point
def look(states: Any, restores: Any, seen: Any, rewards: Any) -> None:
    """Write the true state of N networks, and each agent's own reward of the last step.

    states: `BatchedSimulator.states`. restores: bool `[N, 5]`, which agents handed in a Restore.
    seen: float `[N, 5, 20]`. rewards: float `[N, 5]`."""
    for i in range(len(states)):
        s = states[i]
        seen[i] = 0
        for agent in range(constants.N_BLUE):
            rewards[i, agent] = -1.0 * restores[i, agent]
        look_at_greens(s, seen[i], rewards[i])
        for red in range(constants.N_RED):
            zone = constants.ZONE[s.red_target[red]]
            blue = constants.BLUE_OF_ZONE[zone]
            if s.red_done[red] == IMPACT and s.n_sessions[red] > 0 and blue != constants.NOBODY:
                rewards[i, blue] += constants.REWARDS[s.phase, zone, IMPACT_COST]
        for blue in range(constants.N_BLUE):
            look_at_red(s, blue, blue + 1, seen[i, blue])


@compiled
def look_at_greens(s: Any, seen: Any, rewards: Any) -> None:
    """Add up the shares of the greens' work that fails, and the cost of the failed work."""
    for i in range(s.n_greens):
        host = s.green_host[i]
        blue = constants.BLUE_OF_ZONE[constants.ZONE[host]]
        if blue == constants.NOBODY:
            continue
        n, lost = 0, 0.0
        for service in range(s.n_services[host]):
            if s.service_active[host, service]:
                n += 1
                lost += 1 - s.reliability[host, service] / FULL
        share = lost / n if n > 0 else 1.0
        cost = share * GREEN_WORK * constants.REWARDS[s.phase, constants.ZONE[host], FAILED_WORK]
        rewards[blue] += cost
        seen[blue, 0] += share
        seen[blue, 1] += cost


@compiled
def look_at_red(s: Any, blue: int, red: int, seen: Any) -> None:
    """Write the numbers 2 to 19: about a red agent, its sessions, and the zone's blue agent."""
    n_abstract = 0
    seen[2] = s.n_sessions[red] > 0
    for i in range(s.n_sessions[red]):
        session = s.sessions[red, i]
        host = session.host
        state = s.host_state[red, host]
        is_server = constants.PLACE[host] >= constants.FIRST_SERVER
        is_root = session.user == constants.ROOT
        is_abstract = session.type == constants.ABSTRACT
        n_abstract += is_abstract
        kind = 6
        if is_root:
            kind = 3
        elif state < len(HAS_SESSION) and HAS_SESSION[state]:
            kind = 4
        elif is_abstract:
            kind = 5
        seen[kind + 4 * is_server] += 1
        if is_root:
            costs = constants.REWARDS[s.phase, constants.ZONE[host]]
            if not is_server:
                seen[11] -= costs[FAILED_WORK] / 3
            seen[12] -= costs[IMPACT_COST] / 3
        if s.blue_ticks[blue] > 0 and s.blue_target[blue] == host:
            ends = s.blue_kind[blue] == RESTORE or (s.blue_kind[blue] == REMOVE and not is_root)
            seen[13 if is_root else 14] += ends
    seen[15] = s.n_ids[red] / 5
    seen[16] = n_abstract / max(1.0, s.n_ids[red])
    seen[17] = s.n_hosts[red] / 10
    seen[18] = s.blue_ticks[blue] / 5
    seen[19] = s.red_steps[red] > 0
