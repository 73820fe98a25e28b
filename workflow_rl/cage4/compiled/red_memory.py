"""What red agents remember. Follows `FiniteStateRedAgent` and `ActionSpace.update`."""

from typing import Any

from workflow_rl.cage4.compiled import actions, constants
from workflow_rl.cage4.compiled.jit import compiled, int64
from workflow_rl.cage4.compiled.red_sessions import has_session_on, learn_own_host, learn_session
from workflow_rl.cage4.compiled.red_tables import FOLLOWING, HAS_SESSION, KD, F, K, U
from workflow_rl.cage4.compiled.state import NO_SESSIONS_IN_OBSERVATION, UNSEEN
from workflow_rl.cage4.scenario.scenario4 import TRUE


@compiled
def learn(s: Any, agent: int) -> None:
    """`ActionSpace.update` with all observations of a step, in CybORG's order."""
    kind, target = s.seen_kind[agent], int64(s.seen_target[agent])
    if kind == actions.DISCOVER:
        if s.sees_target[agent]:
            s.known_zones[agent] |= 1 << target
            router = target * constants.PLACES
            for host in range(router + constants.FIRST_USER, router + constants.PLACES):
                if s.exists[host]:
                    s.knows_address[agent, host] = True
    elif s.sees_target[agent]:
        if kind in (
            actions.AGGRESSIVE_SCAN,
            actions.STEALTH_SCAN,
            actions.DECEPTION,
            actions.EXPLOIT,
        ):
            s.knows_address[agent, target] = True
        if kind == actions.EXPLOIT and s.seen_success[agent] == TRUE:
            s.knows_name[agent, target] = True
            s.knows_address[agent, s.seen_source[agent]] = True
        elif kind == actions.ESCALATE and s.seen_abstract[agent]:
            learn_session(s, agent, int64(s.seen_session[agent]))
        if s.sees_links[agent]:
            for i in range(constants.N_LINKED[constants.ZONE[target]]):
                s.knows_address[agent, constants.LINKED[constants.ZONE[target], i]] = True
    for i in range(int64(s.n_news[agent])):
        s.knows_address[agent, s.news_host[agent, i]] = True
        s.knows_name[agent, s.news_host[agent, i]] = True
        learn_session(s, agent, int64(s.news_session[agent, i]))
    for i in range(int64(s.n_sessions[agent])):
        learn_own_host(s, agent, int64(s.sessions[agent, i].host))
        if s.sessions[agent, i].type == constants.ABSTRACT:
            learn_session(s, agent, int64(s.sessions[agent, i].ident))


@compiled
def remember_hosts(s: Any, agent: int) -> None:
    """Update the host states in an agent's memory with the last step's observations."""
    if s.seen_success[agent] == TRUE and s.seen_kind[agent] <= actions.WITHDRAW:
        change_states(s, agent)
    s.marked[:] = False
    see_outcome(s, agent)
    for i in range(int64(s.n_news[agent])):
        see_host(s, agent, int64(s.news_host[agent, i]), True)
        s.marked[s.news_host[agent, i]] = True
    for i in range(int64(s.n_sessions[agent])):
        see_host(s, agent, int64(s.sessions[agent, i].host), True)
        s.marked[s.sessions[agent, i].host] = True
    for i in range(int64(s.n_hosts[agent])):
        host = s.hosts[agent, i]
        if HAS_SESSION[s.host_state[agent, host]] and not s.marked[host]:
            s.host_state[agent, host] = KD


@compiled
def change_states(s: Any, agent: int) -> None:
    """`_host_state_transition` after a success."""
    kind, target = s.seen_kind[agent], int64(s.seen_target[agent])
    for i in range(int64(s.n_hosts[agent])):
        host = int64(s.hosts[agent, i])
        concerns = host == target
        if kind == actions.DISCOVER:
            concerns = constants.ZONE[host] == target
        elif kind in (actions.ESCALATE, actions.DEGRADE, actions.IMPACT):
            concerns = host == target and s.named[agent, host]
        if concerns:
            state = FOLLOWING[s.host_state[agent, host], kind]
            if state == U and constants.RED_OF_ZONE[constants.ZONE[host]] != agent:
                state = F
            s.host_state[agent, host] = state


@compiled
def see_outcome(s: Any, agent: int) -> None:
    """`_process_new_observations` of the last action."""
    if not s.sees_target[agent]:
        return
    kind, target = s.seen_kind[agent], int64(s.seen_target[agent])
    succeeded = s.seen_success[agent] == TRUE
    if kind == actions.DISCOVER:
        router = target * constants.PLACES
        for host in range(router + constants.FIRST_USER, router + constants.PLACES):
            if s.exists[host]:
                see_host(s, agent, host, False)
    elif kind in (actions.AGGRESSIVE_SCAN, actions.STEALTH_SCAN):
        see_host(s, agent, target, False)
    elif kind == actions.DECEPTION:
        see_host(s, agent, target, True)
    elif kind == actions.EXPLOIT:
        see_host(s, agent, target, succeeded)
        if succeeded:
            see_host(s, agent, int64(s.seen_source[agent]), False)
            s.marked[target] = True
    elif has_session_on(s, agent, target):
        see_host(s, agent, target, True)
    elif kind == actions.ESCALATE:
        # CybORG fails: the observation has a session, but no interface.
        s.error = NO_SESSIONS_IN_OBSERVATION
    if s.sees_links[agent]:
        for i in range(constants.N_LINKED[constants.ZONE[target]]):
            see_host(s, agent, constants.LINKED[constants.ZONE[target], i], True)


@compiled
def see_host(s: Any, agent: int, host: int, with_name: bool) -> None:
    """Add a host to the agent's memory. with_name: whether the agent learns the name, too."""
    if s.host_state[agent, host] == UNSEEN:
        s.host_state[agent, host] = U if s.red_steps[agent] == 0 else K
        s.hosts[agent, s.n_hosts[agent]] = host
        s.n_hosts[agent] += 1
    if with_name:
        s.named[agent, host] = True
