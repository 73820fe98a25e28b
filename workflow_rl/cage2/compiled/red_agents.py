"""The red agents: how each chooses its next action."""

from __future__ import annotations

from typing import Any

import numpy as np

from workflow_rl.cage2.compiled.jit import compiled
from workflow_rl.cage2.compiled.meander import (
    act_as_meander,
    learn_as_meander,
    meanders_options,
)
from workflow_rl.cage2.compiled.random import randbelow, shuffle_nibbles
from workflow_rl.cage2.compiled.state import CYBORG_FAILS, NONE
from workflow_rl.cage2.compiled.tables import (
    DISCOVER_SERVICES,
    DISCOVER_SYSTEMS,
    ENTERPRISE_SUBNET,
    ESCALATE,
    EXPLOIT,
    IMPACT,
    LEADS_TO_ENTERPRISE,
    N_HOSTS,
    N_SUBNET_HOSTS,
    OT_HOST,
    RED_SLEEP,
    SUBNET_HOSTS,
    TRUE,
    USER,
)
from workflow_rl.cage2.scenario2 import HOSTS, RED_AGENTS

B_LINE, MEANDER, SLEEP = map(RED_AGENTS.index, ("B_lineAgent", "RedMeanderAgent", "SleepAgent"))

# B_lineAgent's fifteen actions, and the action that follows each one that fails. A target is a
# subnet, a fixed host, the first host that the agent attacks, or the host in Enterprise that the
# first host leads to.
FIRST_HOST, ENTERPRISE_HOST = N_HOSTS, N_HOSTS + 1
ENTERPRISE2 = HOSTS.index("Enterprise2")
PLAN = np.array(
    [
        (DISCOVER_SYSTEMS, USER),
        (DISCOVER_SERVICES, FIRST_HOST),
        (EXPLOIT, FIRST_HOST),
        (ESCALATE, FIRST_HOST),
        (DISCOVER_SERVICES, ENTERPRISE_HOST),
        (EXPLOIT, ENTERPRISE_HOST),
        (ESCALATE, ENTERPRISE_HOST),
        (DISCOVER_SYSTEMS, ENTERPRISE_SUBNET),
        (DISCOVER_SERVICES, ENTERPRISE2),
        (EXPLOIT, ENTERPRISE2),
        (ESCALATE, ENTERPRISE2),
        (DISCOVER_SERVICES, OT_HOST),
        (EXPLOIT, OT_HOST),
        (ESCALATE, OT_HOST),
        (IMPACT, OT_HOST),
    ]
)
AFTER_FAILURE = np.array([0, 1, 2, 2, 2, 2, 5, 5, 5, 5, 9, 9, 9, 12, 13])
CHOOSES_FIRST_HOST, EXPLOITS_OT_HOST, LAST = 1, 12, 14

# The hosts in their order, four bits each, as `shuffle_nibbles` takes them.
IN_ORDER = sum(host << 4 * host for host in range(N_HOSTS))


@compiled
def choose_as_red(s: Any) -> None:
    """`get_action` of the episode's red agent, into `red_kind` and `red_target`."""
    if s.red_agent == B_LINE:
        b_line(s)
    elif s.red_agent == MEANDER:
        meander(s)
    else:
        s.red_kind = RED_SLEEP


@compiled
def b_line(s: Any) -> None:
    """`B_lineAgent.get_action`.

    A repeated action has the same target as before, so that all targets follow from the first host.
    """
    action = next_of_b_line(s)
    if action == CHOOSES_FIRST_HOST and not s.b_line_made >> action & 1:
        # Any host in User except Red's own, which is the first.
        s.b_line_host = SUBNET_HOSTS[USER, 1 + randbelow(s, N_SUBNET_HOSTS[USER] - 1)]
    s.b_line_made |= 1 << action
    s.b_line_action = action
    s.red_kind = PLAN[action, 0]
    s.red_target = target_of_b_line(s, action)


@compiled
def next_of_b_line(s: Any) -> int:
    """Return the index of B_line's next action."""
    action = int(s.b_line_action)
    succeeded = s.red_success == TRUE
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
        target = int(LEADS_TO_ENTERPRISE[s.b_line_host])
    return target


@compiled
def meander(s: Any) -> None:
    """`RedMeanderAgent.get_action`: choose at random among the targets that its program allows."""
    learn_as_meander(s)
    kind, targets = meanders_options(s)
    if kind == RED_SLEEP:
        s.error = CYBORG_FAILS
        return
    order = IN_ORDER
    if kind in (DISCOVER_SERVICES, ESCALATE, EXPLOIT):
        order = shuffle_nibbles(s, address_order(int(s.first_address)), N_HOSTS)
        if kind != DISCOVER_SERVICES:
            # The agent shuffles both, and then finds which one it needs.
            hostnames = shuffle_nibbles(s, IN_ORDER, N_HOSTS)
            if kind == ESCALATE:
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
        for _ in range(N_HOSTS):
            if hosts >> (order & 15) & 1:
                return order & 15
            order >>= 4
    return NONE
