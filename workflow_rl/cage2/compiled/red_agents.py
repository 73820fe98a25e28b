"""The red agents: how each chooses its next action, and what it notes.

`begin_red` and the programs without their draws serve Blue's hypotheses too, which follow every
draw that fits. They take any record with the fields `state.RED`, `error` and `n_events`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from workflow_rl.cage2.compiled import tables
from workflow_rl.cage2.compiled.generator import randbelow, shuffle_nibbles
from workflow_rl.cage2.compiled.jit import compiled
from workflow_rl.cage2.compiled.state import CYBORG_FAILS, NONE
from workflow_rl.cage2.scenario2 import HOSTS, RED_AGENTS

B_LINE, MEANDER, SLEEP = map(RED_AGENTS.index, ("B_lineAgent", "RedMeanderAgent", "SleepAgent"))

# B_lineAgent's fifteen actions, and the action that follows each one that fails. A target is a
# subnet, a fixed host, the first host that the agent attacks, or the host in Enterprise that the
# first host leads to.
FIRST_HOST, ENTERPRISE_HOST = tables.N_HOSTS, tables.N_HOSTS + 1
ENTERPRISE2 = HOSTS.index("Enterprise2")
PLAN = np.array(
    [
        (tables.DISCOVER_SYSTEMS, tables.USER),
        (tables.DISCOVER_SERVICES, FIRST_HOST),
        (tables.EXPLOIT, FIRST_HOST),
        (tables.ESCALATE, FIRST_HOST),
        (tables.DISCOVER_SERVICES, ENTERPRISE_HOST),
        (tables.EXPLOIT, ENTERPRISE_HOST),
        (tables.ESCALATE, ENTERPRISE_HOST),
        (tables.DISCOVER_SYSTEMS, tables.ENTERPRISE_SUBNET),
        (tables.DISCOVER_SERVICES, ENTERPRISE2),
        (tables.EXPLOIT, ENTERPRISE2),
        (tables.ESCALATE, ENTERPRISE2),
        (tables.DISCOVER_SERVICES, tables.OT_HOST),
        (tables.EXPLOIT, tables.OT_HOST),
        (tables.ESCALATE, tables.OT_HOST),
        (tables.IMPACT, tables.OT_HOST),
    ]
)
AFTER_FAILURE = np.array([0, 1, 2, 2, 2, 2, 5, 5, 5, 5, 9, 9, 9, 12, 13])
CHOOSES_FIRST_HOST, EXPLOITS_OT_HOST, LAST = 1, 12, 14

# The hosts in their order, four bits each, as `shuffle_nibbles` takes them.
IN_ORDER = sum(host << 4 * host for host in range(tables.N_HOSTS))


@compiled
def begin_red(s: Any, red_agent: int) -> None:
    """Set what Red is, has and knows at the start of an episode."""
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
    s.known_subnets = 1 << tables.SUBNET[tables.RED_HOST]
    s.known_addresses = 1 << tables.RED_HOST
    s.known_hostnames = 1 << tables.RED_HOST
    s.scanned_by_session = 0
    s.knows_ot_service = False
    s.has_malware = 0
    s.is_owned = 0


@compiled
def choose_as_red(s: Any) -> None:
    """`get_action` of the episode's red agent, into `red_kind` and `red_target`."""
    if s.red_agent == B_LINE:
        b_line(s)
    elif s.red_agent == MEANDER:
        meander(s)
    else:
        s.red_kind = tables.RED_SLEEP


@compiled
def b_line(s: Any) -> None:
    """`B_lineAgent.get_action`.

    A repeated action has the same target as before, so that all targets follow from the first host.
    """
    action = next_of_b_line(s)
    if action == CHOOSES_FIRST_HOST and not s.b_line_made >> action & 1:
        # Any host in User except Red's own, which is the first.
        s.b_line_host = tables.SUBNET_HOSTS[
            tables.USER, 1 + randbelow(s, tables.N_SUBNET_HOSTS[tables.USER] - 1)
        ]
    act_as_b_line(s, action)


@compiled
def act_as_b_line(s: Any, action: int) -> None:
    """Choose the action of this index."""
    s.b_line_made |= 1 << action
    s.b_line_action = action
    s.red_kind = PLAN[action, 0]
    s.red_target = target_of_b_line(s, action)


@compiled
def next_of_b_line(s: Any) -> int:
    """Return the index of B_line's next action."""
    action = int(s.b_line_action)
    succeeded = s.red_success == tables.TRUE
    while True:
        action = min(action + 1, LAST) if succeeded else int(AFTER_FAILURE[action])
        if s.b_line_made >> action & 1 or action != EXPLOITS_OT_HOST or s.n_events > 0:
            return action
        # The scan before this exploit showed nothing: its host is out of reach.
        action = 0


@compiled
def target_of_b_line(s: Any, action: int) -> int:
    """Return the host or the subnet of an action, once the first host has been chosen."""
    target = int(PLAN[action, 1])
    if target == FIRST_HOST:
        target = int(s.b_line_host)
    elif target == ENTERPRISE_HOST:
        target = int(tables.LEADS_TO_ENTERPRISE[s.b_line_host])
    return target


@compiled
def meander(s: Any) -> None:
    """`RedMeanderAgent.get_action`: choose at random among the targets that its program allows."""
    learn_as_meander(s)
    kind, targets = meanders_options(s)
    if kind == tables.RED_SLEEP:
        s.error = CYBORG_FAILS
        return
    order = IN_ORDER
    if kind in (tables.DISCOVER_SERVICES, tables.ESCALATE, tables.EXPLOIT):
        order = shuffle_nibbles(s, address_order(int(s.first_address)), tables.N_HOSTS)
        if kind != tables.DISCOVER_SERVICES:
            # The agent shuffles both, and then finds which one it needs.
            hostnames = shuffle_nibbles(s, IN_ORDER, tables.N_HOSTS)
            if kind == tables.ESCALATE:
                order = hostnames
    act_as_meander(s, int(kind), first_in(order, int(targets)))


@compiled
def address_order(first: int) -> int:
    """Return the order of the addresses in Red's action space: the hosts' order after the first."""
    below = (1 << 4 * first) - 1
    return (IN_ORDER & ~((below << 4) | 15)) | (IN_ORDER & below) << 4 | first


@compiled
def first_in(order: int, hosts: int) -> int:
    """Return the first host, in an order, that is in a mask; or NONE."""
    if hosts != 0:
        for _ in range(tables.N_HOSTS):
            if hosts >> (order & 15) & 1:
                return order & 15
            order >>= 4
    return NONE


@compiled
def meanders_options(s: Any) -> tuple[np.int64, np.int64]:
    """Return the kind of the next action, and the mask of the hosts or the subnet to choose from.

    RED_SLEEP means that CybORG's agent has nothing left to do and fails.
    """
    # All are signed: numba turns a mixture of signed and unsigned integers into a float.
    if s.meander_escalated >> tables.OT_HOST & 1:
        return np.int64(tables.IMPACT), np.int64(1 << tables.OT_HOST)
    for i in range(tables.N_SUBNETS):
        subnet = np.int64(tables.SUBNETS_BY_HOST[i])
        if (s.known_subnets & ~s.meander_subnets) >> subnet & 1:
            return np.int64(tables.DISCOVER_SYSTEMS), np.int64(1 << subnet)
    hosts = np.int64(s.known_addresses & ~s.meander_scanned)
    if hosts != 0:
        return np.int64(tables.DISCOVER_SERVICES), hosts
    lost = s.meander_mapped & ~s.meander_exploited
    hosts = np.int64(s.known_hostnames & ~s.meander_escalated & ~lost)
    if hosts != 0:
        return np.int64(tables.ESCALATE), hosts
    hosts = np.int64(s.known_addresses & ~s.meander_exploited)
    if hosts != 0:
        return np.int64(tables.EXPLOIT), hosts
    return np.int64(tables.RED_SLEEP), np.int64(0)


@compiled
def act_as_meander(s: Any, kind: int, target: int) -> None:
    """Choose this action, and note it in the agent's lists."""
    if kind == tables.DISCOVER_SYSTEMS:
        s.meander_subnets |= 1 << target
    elif kind == tables.DISCOVER_SERVICES:
        s.meander_scanned |= 1 << target
    elif kind == tables.EXPLOIT:
        s.meander_exploited |= 1 << target
        s.meander_last_address = target
    else:
        s.meander_escalated |= 1 << target
        s.meander_last_host = target
    s.red_kind = kind
    s.red_target = target


@compiled
def learn_as_meander(s: Any) -> None:
    """`RedMeanderAgent._process_success` and `_process_failed_ip`."""
    if s.meander_last_address != NONE:
        bit = 1 << int(s.meander_last_address)
        if s.red_success == tables.TRUE:
            s.meander_mapped |= bit
        else:
            s.meander_exploited &= ~bit
            for group in tables.GROUPS_OF_MEANDER:
                given_up = s.meander_escalated & group
                if given_up != 0:
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
            s.meander_exploited &= ~(bit & s.meander_mapped)
        s.meander_last_host = NONE
