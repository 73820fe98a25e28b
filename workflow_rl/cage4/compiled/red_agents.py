"""What red agents choose. Follows `FiniteStateRedAgent` and `RandomSelectRedAgent`."""

from typing import Any

import numpy as np

from workflow_rl.cage4.compiled import actions, red_tables
from workflow_rl.cage4.compiled.constants import FIRST_SERVER, N_HOSTS, N_RED, N_ZONES, PLACE
from workflow_rl.cage4.compiled.generator import below, choice_by_weight, random
from workflow_rl.cage4.compiled.jit import compiled, int64
from workflow_rl.cage4.compiled.red_from_outside import take_choice
from workflow_rl.cage4.compiled.red_memory import remember_hosts
from workflow_rl.cage4.compiled.state import NO_KNOWN_HOST
from workflow_rl.cage4.scenario.scenario4 import IN_PROGRESS


@compiled
def choose_as_red(s: Any) -> None:
    """`get_action` of every active agent. A busy agent also chooses, but its choice is dropped."""
    for agent in range(N_RED):
        kind = actions.RED_SLEEP
        before = s.red_ticks[agent]
        target, name, session = s.red_target[agent], s.red_hostname[agent], s.red_session[agent]
        if s.is_active[agent] and s.red_class != red_tables.SLEEPING:
            if s.red_class == red_tables.RANDOM_SELECT:
                kind = select_at_random(s, agent)
            elif s.red_class == red_tables.FROM_OUTSIDE:
                kind = take_choice(s, agent)
            else:
                kind = choose_by_state(s, agent)
        if before == 0:
            s.red_kind[agent] = kind
            longest = int64(s.scenario.longest_red_action)
            s.red_ticks[agent] = min(actions.RED_DURATION[kind], longest)
        else:
            s.red_target[agent], s.red_hostname[agent] = target, name
            s.red_session[agent] = session


@compiled
def choose_by_state(s: Any, agent: int) -> int:
    """`FiniteStateRedAgent.get_action`. Returns the action's kind, and sets target and session."""
    is_busy = s.seen_success[agent] == IN_PROGRESS
    remember_hosts(s, agent)
    s.red_steps[agent] += 1
    if is_busy or s.error != 0:
        return actions.RED_SLEEP
    if s.red_class == red_tables.DISCOVERY:
        host = choose_host_by_priority(s, agent)
    else:
        host = choose_host(s, agent, -1, False, False)
    if s.error != 0:
        return actions.RED_SLEEP
    state = s.host_state[agent, host]
    program = int64(s.red_class)
    option = choice_by_weight(
        s, red_tables.CUMULATED[program, state], red_tables.N_OPTIONS[program, state]
    )
    kind = red_tables.OPTIONS[program, state, option]
    s.red_target[agent] = host
    s.red_hostname[agent] = host
    if kind == actions.DISCOVER:
        s.red_target[agent] = choose_zone(s, agent)
    s.red_session[agent] = s.ids[agent, below(s, int64(s.n_ids[agent]))]
    if needs_name(kind):
        if not s.named[agent, host]:
            s.error = NO_KNOWN_HOST
        if not s.knows_name[agent, host]:
            return actions.INVALID
    return kind


@compiled
def needs_name(kind: int) -> bool:
    return kind in (actions.ESCALATE, actions.DEGRADE, actions.IMPACT, actions.WITHDRAW)


@compiled
def choose_host(s: Any, agent: int, state: int, on_servers: bool, off_servers: bool) -> int:
    """Choose a known host that is in this state. -1 means every state except F.

    on_servers: choose only servers. off_servers: choose only hosts that are not servers."""
    n = 0
    for i in range(int64(s.n_hosts[agent])):
        n += is_option(s, agent, int64(s.hosts[agent, i]), state, on_servers, off_servers)
    if n == 0:
        s.error = NO_KNOWN_HOST
        return 0
    n_before = below(s, n)
    for i in range(int64(s.n_hosts[agent])):
        host = int64(s.hosts[agent, i])
        if is_option(s, agent, host, state, on_servers, off_servers):
            if n_before == 0:
                return host
            n_before -= 1
    return 0


@compiled
def is_option(
    s: Any, agent: int, host: int, state: int, on_servers: bool, off_servers: bool
) -> bool:
    if state == -1:
        return s.host_state[agent, host] != red_tables.F
    if s.host_state[agent, host] != state:
        return False
    is_server = s.named[agent, host] != 0 and PLACE[host] >= FIRST_SERVER
    if on_servers:
        return is_server
    return not (off_servers and is_server)


@compiled
def choose_host_by_priority(s: Any, agent: int) -> int:
    """`_choose_host` of `DiscoveryFSRed`: draw a state by priority, then prefer servers."""
    states = np.zeros(red_tables.N_STATES, np.int64)
    n_states = 0
    counts = np.zeros(red_tables.N_STATES, np.int64)
    n_servers = np.zeros(red_tables.N_STATES, np.int64)
    for i in range(int64(s.n_hosts[agent])):
        host = int64(s.hosts[agent, i])
        state = int64(s.host_state[agent, host])
        if state != red_tables.F:
            if counts[state] == 0:
                states[n_states] = state
                n_states += 1
            counts[state] += 1
            n_servers[state] += is_option(s, agent, host, state, True, False)
    if n_states == 0:
        s.error = NO_KNOWN_HOST
        return 0
    chosen = states[choose_state(s, states, n_states)]
    if counts[chosen] == 1 or n_servers[chosen] == 0:
        return choose_host(s, agent, chosen, False, False)
    if random(s) <= red_tables.SERVER_RATE or n_servers[chosen] == counts[chosen]:
        return choose_host(s, agent, chosen, True, False)
    return choose_host(s, agent, chosen, False, True)


@compiled
def choose_state(s: Any, states: Any, n: int) -> int:
    """Draw one of n states, weighted by priority. Returns the state's index."""
    total = 0.0
    for i in range(n):
        total += red_tables.PRIORITY[states[i]]
    if total == 0:
        return below(s, n)
    # These are CybORG's divisions in CybORG's order, because rounding depends on the order.
    multiplier = 1 / (total / red_tables.PRIORITY_BASE)
    cumulated = np.zeros(red_tables.N_STATES)
    so_far = 0.0
    for i in range(n):
        so_far += red_tables.PRIORITY[states[i]] / red_tables.PRIORITY_BASE * multiplier
        cumulated[i] = so_far
    for i in range(n):
        cumulated[i] /= so_far
    return choice_by_weight(s, cumulated, n)


@compiled
def choose_zone(s: Any, agent: int) -> int:
    n = 0
    for zone in range(N_ZONES):
        n += (s.known_zones[agent] >> zone) & 1
    n_before = below(s, n)
    for zone in range(N_ZONES):
        if (s.known_zones[agent] >> zone) & 1:
            if n_before == 0:
                return zone
            n_before -= 1
    return 0


@compiled
def choose_known(s: Any, known: Any) -> int:
    """Choose a host that is known. known: bool `[137]`."""
    n = 0
    for host in range(N_HOSTS):
        n += known[host]
    n_before = below(s, n)
    for host in range(N_HOSTS):
        if known[host]:
            if n_before == 0:
                return host
            n_before -= 1
    return 0


@compiled
def select_at_random(s: Any, agent: int) -> int:
    """`RandomSelectRedAgent.get_action`: draw an action, then its parameters in CybORG's order."""
    s.red_steps[agent] += 1
    # No choice is empty: an active agent knows a session, an address, a name and a zone.
    kind = below(s, actions.N_RED_ACTIONS)
    if kind == actions.RED_SLEEP:
        return kind
    if kind == actions.DISCOVER:
        s.red_target[agent] = choose_zone(s, agent)
    elif kind == actions.EXPLOIT:
        s.red_target[agent] = choose_known(s, s.knows_address[agent])
    elif needs_name(kind) and kind != actions.WITHDRAW:
        s.red_target[agent] = choose_known(s, s.knows_name[agent])
    s.red_session[agent] = s.ids[agent, below(s, int64(s.n_ids[agent]))]
    if kind in (actions.AGGRESSIVE_SCAN, actions.STEALTH_SCAN, actions.DECEPTION, actions.WITHDRAW):
        s.red_target[agent] = choose_known(s, s.knows_address[agent])
    if kind == actions.WITHDRAW:
        s.red_hostname[agent] = choose_known(s, s.knows_name[agent])
    return kind
