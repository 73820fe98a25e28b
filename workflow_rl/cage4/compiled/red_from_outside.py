"""Red agents whose choices come from outside of the simulator, and what these agents see.

Follows `replace_action_if_invalid` and the observations of CybORG's red agents."""

from typing import Any

from workflow_rl.agents.team import ACTS, BUSY, CUT_OFF
from workflow_rl.cage4.compiled import actions, constants
from workflow_rl.cage4.compiled.jit import compiled, int64
from workflow_rl.cage4.compiled.red_memory import remember_hosts
from workflow_rl.cage4.compiled.red_sessions import index_of
from workflow_rl.cage4.compiled.red_tables import FROM_OUTSIDE
from workflow_rl.cage4.compiled.state import UNSEEN
from workflow_rl.cage4.red import red_api
from workflow_rl.cage4.scenario.scenario4 import TRUE


@compiled
def take_choice(s: Any, agent: int) -> int:
    """Return the kind of the chosen action, or INVALID, and set target and session."""
    choice = int64(s.red_choice[agent])
    kind, target = red_api.KIND_OF[agent, choice], red_api.TARGET_OF[agent, choice]
    session = int64(s.red_choice_session[agent])
    if session == red_api.FIRST_KNOWN:
        session = first_known(s, agent)
    s.red_target[agent] = target
    s.red_hostname[agent] = target
    s.red_session[agent] = session
    if kind == actions.RED_SLEEP:
        return kind
    if session >= s.knows_id.shape[1] or not s.knows_id[agent, session]:
        return actions.INVALID
    return kind if is_known(s, agent, kind, target) else actions.INVALID


@compiled
def is_known(s: Any, agent: int, kind: int, target: int) -> bool:
    if kind == actions.DISCOVER:
        return ((s.known_zones[agent] >> target) & 1) != 0
    if kind in red_api.NEEDS_NAME:
        return s.knows_name[agent, target] != 0
    return s.knows_address[agent, target] != 0


@compiled
def first_known(s: Any, agent: int) -> int:
    """Return the id of an agent's first abstract session. Without such a session, return the first
    id that the agent learned, or 0."""
    for i in range(int64(s.n_sessions[agent])):
        if s.sessions[agent, i].type == constants.ABSTRACT:
            return int64(s.sessions[agent, i].ident)
    return int64(s.ids[agent, 0]) if s.n_ids[agent] > 0 else 0


@compiled
def remember_outcomes(s: Any) -> None:
    """Update the memories of active FROM_OUTSIDE agents with what the last step showed. CybORG's
    agents remember when they choose. Here, the caller reads the memories before it chooses."""
    if s.red_class == FROM_OUTSIDE:
        for agent in range(constants.N_RED):
            if s.is_active[agent]:
                remember_hosts(s, agent)
                s.red_steps[agent] += 1


@compiled
def show_red(s: Any, row: Any) -> None:
    """Write what all red agents see and can do. row: see `red_api.red_layout`."""
    row[:] = 0
    for agent in range(constants.N_RED):
        show_facts(s, agent, row)
        show_hosts(s, agent, row)
        show_outcome(s, agent, row)
        show_sessions(s, agent, row)
        status = red_api.FIRST_STATUS + agent
        at = red_api.FIRST_RED_CHOICE[agent]
        row[status] = CUT_OFF if s.done else BUSY
        row[at] = 1
        if s.is_active[agent] and s.red_ticks[agent] == 0:
            if not s.done:
                row[status] = ACTS
            for choice in range(1, red_api.N_RED_CHOICES[agent]):
                kind = red_api.KIND_OF[agent, choice]
                row[at + choice] = is_known(s, agent, kind, red_api.TARGET_OF[agent, choice])


@compiled
def show_facts(s: Any, agent: int, row: Any) -> None:
    at = red_api.FIRST_RED_OBS[agent]
    row[at + s.phase] = 1
    kind, success = int64(s.seen_kind[agent]), int64(s.seen_success[agent])
    if kind <= actions.WITHDRAW:
        row[at + red_api.KIND + kind] = 1
    elif kind == actions.INVALID:
        row[at + red_api.KIND + actions.WITHDRAW + 1] = 1
    elif is_dropped(s, agent) and s.is_active[agent] and s.n_news[agent] == 0:
        success = TRUE  # This agent observes only RedSessionCheck, which succeeds.
    row[at + red_api.SUCCESS + success - 1] = 1
    row[at + red_api.ACTIVE] = s.is_active[agent]
    first = constants.FIRST_ZONE_OF_RED[agent]
    for i in range(red_api.N_ZONES_OF[agent]):
        row[at + red_api.KNOWN_ZONES + i] = (s.known_zones[agent] >> (first + i)) & 1


@compiled
def is_dropped(s: Any, agent: int) -> bool:
    """Return whether the agent's last action was dropped, because the action's session was gone."""
    kind = s.red_done[agent]
    return (
        s.step_count > 0
        and kind != actions.RED_SLEEP
        and kind != actions.INVALID
        and s.route_start[agent] == constants.NOBODY
    )


@compiled
def mark(row: Any, agent: int, feature: int, host: int) -> None:
    """Set a feature of a host in an agent's observation."""
    first = red_api.FIRST_RED_OBS[agent] + red_api.N_FACTS[agent]
    row[first + feature * red_api.N_HOSTS_OF[agent] + red_api.PLACE_OF[agent, host]] = 1


@compiled
def show_hosts(s: Any, agent: int, row: Any) -> None:
    for i in range(red_api.N_HOSTS_OF[agent]):
        host = red_api.HOST_AT[agent, i]
        if s.knows_address[agent, host]:
            mark(row, agent, red_api.ADDRESS, host)
            if constants.PLACE[host] >= constants.FIRST_SERVER:
                mark(row, agent, red_api.SERVER, host)
            if constants.RED_OF_ZONE[constants.ZONE[host]] == agent:
                mark(row, agent, red_api.OWN, host)
        if s.knows_name[agent, host]:
            mark(row, agent, red_api.NAME, host)
            if s.step_count == 0:
                mark(row, agent, red_api.SHOWN, host)
        if s.host_state[agent, host] != UNSEEN:
            mark(row, agent, red_api.STATE + int64(s.host_state[agent, host]), host)


@compiled
def show_outcome(s: Any, agent: int, row: Any) -> None:
    """Write which hosts the last step's observation shows."""
    for i in range(int64(s.n_news[agent])):
        mark(row, agent, red_api.SHOWN, int64(s.news_host[agent, i]))
        mark(row, agent, red_api.GAINED, int64(s.news_host[agent, i]))
    if not s.sees_target[agent]:
        return
    kind, target = s.seen_kind[agent], int64(s.seen_target[agent])
    if kind == actions.DISCOVER:
        first = target * constants.PLACES
        for host in range(first + constants.FIRST_USER, first + constants.PLACES):
            if s.exists[host]:
                mark(row, agent, red_api.SHOWN, host)
        return
    mark(row, agent, red_api.SHOWN, target)
    if kind == actions.EXPLOIT and s.seen_success[agent] == TRUE:
        mark(row, agent, red_api.GAINED, target)
        mark(row, agent, red_api.SHOWN, int64(s.seen_source[agent]))
    if s.sees_links[agent]:
        for i in range(constants.N_LINKED[constants.ZONE[target]]):
            mark(row, agent, red_api.SHOWN, constants.LINKED[constants.ZONE[target], i])


@compiled
def show_sessions(s: Any, agent: int, row: Any) -> None:
    """Write an agent's sessions, and the ports that the session of FIRST_KNOWN has found."""
    for i in range(int64(s.n_sessions[agent])):
        session = s.sessions[agent, i]
        host = int64(session.host)
        mark(row, agent, red_api.SHOWN, host)
        mark(row, agent, red_api.SESSION, host)
        if session.user == constants.ROOT:
            mark(row, agent, red_api.ROOT, host)
        if session.type == constants.ABSTRACT:
            mark(row, agent, red_api.ABSTRACT, host)
    acting = index_of(s, agent, first_known(s, agent))
    if acting < 0:
        return
    mark(row, agent, red_api.ACTS_FROM, int64(s.sessions[agent, acting].host))
    scan = int64(s.sessions[agent, acting].scans)
    while scan != 0:
        cell = int64(s.cells[scan].first)
        while cell != 0:
            for i in range(len(red_api.PORTS)):
                if s.cells[cell].local_port == red_api.PORTS[i]:
                    mark(row, agent, red_api.PORT + i, int64(s.cells[scan].local_host))
            cell = int64(s.cells[cell].next)
        scan = int64(s.cells[scan].next)
