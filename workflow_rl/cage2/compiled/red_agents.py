"""How each red agent chooses its next action, and what the agent remembers.

`red_hypothesis` also calls `begin_red` and the functions that draw no random numbers. Where an
agent draws, Blue's belief has one hypothesis for each result. The shared functions take any record
with the fields `error`, `n_events` and `state.red_fields`."""

from __future__ import annotations

from typing import Any

import numpy as np

from workflow_rl.cage2 import b_line_plan
from workflow_rl.cage2.compiled import tables
from workflow_rl.cage2.compiled.generator import randbelow, shuffle, shuffle_nibbles
from workflow_rl.cage2.compiled.jit import compiled, int64
from workflow_rl.cage2.compiled.state import CYBORG_FAILS, NONE
from workflow_rl.cage2.scenario.actions import RED_ACTIONS
from workflow_rl.cage2.scenario2 import RED_AGENTS

B_LINE, MEANDER, SLEEP = map(RED_AGENTS.index, ("B_lineAgent", "RedMeanderAgent", "SleepAgent"))

# The kinds of B_lineAgent's actions, and the index of the action that follows a failed action.
PLAN = np.array([RED_ACTIONS.index(kind) for kind, _ in b_line_plan.PLAN])
AFTER_FAILURE = np.array(b_line_plan.AFTER_FAILURE)
# Indices into PLAN.
CHOOSES_FIRST_HOST, EXPLOITS_OT_HOST, LAST = 1, 12, len(PLAN) - 1
# A mask of two exploits in PLAN. When B_line takes such an exploit for the first time, the agent
# reads its last scan. CybORG fails if this scan showed nothing.
READ_A_SCAN = (1 << 5) | (1 << 9)

# The numbers of hosts in ascending order, four bits each: see `shuffle_nibbles`.
MOST_NIBBLES = 15
IN_ORDER = sum(host << (4 * host) for host in range(MOST_NIBBLES))


@compiled
def begin_red(s: Any, t: Any, red_agent: int) -> None:
    """Set the fields `state.red_fields` to their values at the start of an episode."""
    s.red_agent = red_agent
    s.red_kind = 0
    s.red_target = 0
    s.red_success = tables.UNKNOWN
    s.n_events = 0
    s.b_line_action = 0
    s.b_line_made = 0
    s.b_line_host = NONE
    s.meander_subnets = 0
    s.meander_scanned = 0
    s.meander_exploited = 0
    s.meander_escalated = 0
    s.meander_mapped = 0
    s.meander_last_host = NONE
    s.meander_last_address = NONE
    red_host = int64(t.red_host)
    s.known_subnets = 1 << int64(t.subnet[red_host])
    s.known_addresses = 1 << red_host
    s.known_hostnames = 1 << red_host
    s.scanned_by_session = 0
    s.knows_ot_service = False
    s.has_malware = 0
    s.is_owned = 0


@compiled
def choose_as_red(s: Any, t: Any) -> None:
    """Follow `get_action` of the episode's red agent. Write `red_kind` and `red_target`."""
    if s.red_agent == B_LINE:
        b_line(s, t)
    elif s.red_agent == MEANDER:
        meander(s, t)
    else:
        s.red_kind = tables.RED_SLEEP


@compiled
def b_line(s: Any, t: Any) -> None:
    """Follow `B_lineAgent.get_action`.

    An action that B_line repeats keeps its target. So the first host determines all targets."""
    action = next_of_b_line(s)
    if action == CHOOSES_FIRST_HOST and not ((s.b_line_made >> action) & 1):
        # In CAGE-1, B_line always takes the first host.
        number = 0 if t.is_cage1 else randbelow(s, int64(t.n_first_hosts))
        s.b_line_host = t.first_hosts[number]
    reads_a_scan = (((READ_A_SCAN & ~s.b_line_made) >> action) & 1) != 0
    if reads_a_scan and s.n_events == 0:
        s.error = CYBORG_FAILS
        return
    act_as_b_line(s, t, action)


@compiled
def act_as_b_line(s: Any, t: Any, action: int) -> None:
    s.b_line_made |= 1 << action
    s.b_line_action = action
    s.red_kind = PLAN[action]
    s.red_target = target_of_b_line(s, t, action)


@compiled
def next_of_b_line(s: Any) -> int:
    action = int(s.b_line_action)
    succeeded = s.red_success == tables.TRUE
    while True:
        action = min(action + 1, LAST) if succeeded else int(AFTER_FAILURE[action])
        # The first exploit of the OT host needs the result of the last scan. Later ones do not.
        was_made = ((s.b_line_made >> action) & 1) != 0
        if was_made or action != EXPLOITS_OT_HOST or s.n_events > 0:
            return action
        # The last scan showed nothing, because Red cannot reach the OT host. B_line goes on as
        # after its first action.
        action = 0


@compiled
def target_of_b_line(s: Any, t: Any, action: int) -> int:
    first_host = t.red_host if s.b_line_host == NONE else s.b_line_host
    return int64(t.plan_of_b_line[first_host, action])


@compiled
def meander(s: Any, t: Any) -> None:
    """Follow `RedMeanderAgent.get_action`: draw one of the targets of `meanders_options`."""
    learn_as_meander(s, t)
    kind, targets = meanders_options(s, t)
    if kind == tables.RED_SLEEP:
        s.error = CYBORG_FAILS
        return
    if kind == tables.DISCOVER_SYSTEMS or kind == tables.IMPACT:
        target = lowest_bit(int(targets))
    elif t.is_cage1:
        target = first_in_order(s, t, int(kind), int(targets))
    elif len(t.subnet) <= MOST_NIBBLES:
        target = first_of_nibbles(s, t, int(kind), int(targets))
    else:
        target = first_of_list(s, t, int(kind), int(targets))
    act_as_meander(s, int(kind), target)
    # CybORG refuses an Impact on a host whose name Red does not know.
    if kind == tables.IMPACT and not ((s.known_hostnames >> target) & 1):
        s.red_kind = tables.REFUSED


@compiled
def lowest_bit(mask: int) -> int:
    """Return the number of a mask's lowest bit."""
    i = 0
    while not ((mask >> i) & 1):
        i += 1
    return i


@compiled
def first_in_order(s: Any, t: Any, kind: int, targets: int) -> int:
    """Return the host of a mask that comes first in Red's action space: see `address_order`."""
    target, first, bound = lowest_bit(targets), int(s.first_address), int64(t.bound_host)
    comes_first = bound <= target < first and ((targets >> first) & 1) != 0
    # An escalation names a host by its hostname, and hostnames are in the order of hosts.
    return first if comes_first and kind != tables.ESCALATE else target


@compiled
def first_of_nibbles(s: Any, t: Any, kind: int, targets: int) -> int:
    """Shuffle the hosts as the agent does, and return the first host that is in a mask.

    The agent shuffles the list of addresses. Before any action but a scan, the agent also shuffles
    the list of hostnames. An escalation reads the hostnames. All other actions read the addresses.
    """
    n_hosts = int64(t.n_hosts)
    in_order = IN_ORDER & ((1 << (4 * n_hosts)) - 1)
    bound = int64(t.bound_host)
    order = shuffle_nibbles(s, address_order(in_order, int(s.first_address), bound), n_hosts)
    if kind != tables.DISCOVER_SERVICES:
        hostnames = shuffle_nibbles(s, in_order, n_hosts)
        if kind == tables.ESCALATE:
            order = hostnames
    while not ((targets >> (order & 15)) & 1):
        order >>= 4
    return order & 15


@compiled
def address_order(in_order: int, first: int, bound: int) -> int:
    """Return the order of the addresses in Red's action space.

    This is the order of hosts with one exception: if host `first` comes after host `bound`, CybORG
    lists `first` right before `bound`."""
    shift = 4 * bound
    before = in_order & ((1 << shift) - 1)
    after = in_order >> shift
    # This mask covers the hosts over which `first` moves.
    passed = (1 << (4 * (first - bound))) - 1
    behind = after & ~((passed << 4) | 15)
    moved = behind | ((after & passed) << 4) | first
    return before | (moved << shift)


@compiled
def first_of_list(s: Any, t: Any, kind: int, targets: int) -> int:
    """Return what `first_of_nibbles` returns, for any number of hosts."""
    order = np.empty(len(t.subnet), np.int64)
    bound, n = int64(t.bound_host), int64(t.n_hosts)
    for host in range(n):
        order[host] = host
    # As in `address_order`, host `first_address` moves to the place right before the bound host.
    for host in range(int64(s.first_address), bound, -1):
        order[host] = host - 1
    order[bound] = s.first_address
    shuffle(s, order, n)
    if kind != tables.DISCOVER_SERVICES:
        hostnames = np.arange(len(t.subnet))
        shuffle(s, hostnames, n)
        if kind == tables.ESCALATE:
            order = hostnames
    i = 0
    while not ((targets >> order[i]) & 1):
        i += 1
    return order[i]


@compiled
def meanders_options(s: Any, t: Any) -> tuple[np.int64, np.int64]:
    """Return the kind of the next action, and the mask of its possible targets.

    RED_SLEEP means that CybORG's agent raises an error, because it has nothing left to do."""
    # All integers are signed here: numba turns a mix of signed and unsigned integers into a float.
    goal = int64(t.op_server)
    if goal != NONE and ((s.meander_escalated >> goal) & 1) and not t.is_cage1:
        return int64(tables.IMPACT), int64(1) << goal
    for i in range(t.n_subnets):
        subnet = int64(t.subnets_by_host[i])
        if ((s.known_subnets & ~s.meander_subnets) >> subnet) & 1:
            return int64(tables.DISCOVER_SYSTEMS), int64(1) << subnet
    hosts = int64(s.known_addresses & ~s.meander_scanned)
    if hosts != 0:
        return int64(tables.DISCOVER_SERVICES), hosts
    # These are the hosts that Red once took and has given up.
    lost = s.meander_mapped & ~s.meander_exploited
    hosts = int64(s.known_hostnames & ~s.meander_escalated & ~lost)
    if hosts != 0:
        return int64(tables.ESCALATE), hosts
    hosts = int64(s.known_addresses & ~s.meander_exploited)
    if hosts != 0:
        return int64(tables.EXPLOIT), hosts
    if t.is_cage1 and goal != NONE:
        return int64(tables.IMPACT), int64(1) << goal
    return int64(tables.RED_SLEEP), int64(0)


@compiled
def act_as_meander(s: Any, kind: int, target: int) -> None:
    """Set Red's action, and note it in the agent's lists."""
    if kind == tables.DISCOVER_SYSTEMS:
        s.meander_subnets |= 1 << target
    elif kind == tables.DISCOVER_SERVICES:
        s.meander_scanned |= 1 << target
    elif kind == tables.EXPLOIT:
        s.meander_exploited |= 1 << target
        s.meander_last_address = target
    elif kind == tables.ESCALATE:
        s.meander_escalated |= 1 << target
        s.meander_last_host = target
    else:  # IMPACT
        s.meander_last_host = target
    s.red_kind = kind
    s.red_target = target


@compiled
def learn_as_meander(s: Any, t: Any) -> None:
    """Follow `RedMeanderAgent._process_success` and `_process_failed_ip`."""
    if s.meander_last_address != NONE:
        bit = 1 << int(s.meander_last_address)
        if s.red_success == tables.TRUE:
            s.meander_mapped |= bit
        elif t.is_cage1:
            s.meander_escalated = 0
        else:
            s.meander_exploited &= ~bit
            for i in range(2):
                given_up = s.meander_escalated & t.groups_of_meander[i]
                if given_up != 0:
                    # CybORG removes a host from both lists, and fails if a list lacks it.
                    if given_up & ~(s.meander_mapped & s.meander_exploited):
                        s.error = CYBORG_FAILS
                    s.meander_escalated &= ~given_up
                    s.meander_exploited &= ~given_up
                    break
        s.meander_last_address = NONE
    if s.meander_last_host != NONE:
        bit = 1 << int(s.meander_last_host)
        if s.red_success == tables.FALSE:
            s.meander_escalated &= ~bit
            # CybORG's agent leaves a host in its list of exploited hosts if it never took the host.
            s.meander_exploited &= ~(bit & s.meander_mapped)
        s.meander_last_host = NONE
