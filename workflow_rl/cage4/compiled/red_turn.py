"""How red sessions change at the end of a step. Follows `different_subnet_agent_reassignment` and
`RedSessionCheck`."""

from typing import Any

from workflow_rl.cage4.compiled import state
from workflow_rl.cage4.compiled.actions import AGGRESSIVE_SCAN, EXPLOIT, STEALTH_SCAN
from workflow_rl.cage4.compiled.cells import append_cell, free_whole_list, new_cell
from workflow_rl.cage4.compiled.constants import ABSTRACT, N_RED, NO_PARENT, RED_OF_ZONE, ZONE
from workflow_rl.cage4.compiled.generator import below
from workflow_rl.cage4.compiled.jit import compiled, int64
from workflow_rl.cage4.compiled.red_sessions import (
    add_child,
    add_session,
    forget_session,
    index_of,
    join_host,
    leave_host,
)
from workflow_rl.cage4.scenario.scenario4 import TRUE


@compiled
def move_sessions(s: Any) -> None:
    """Move each session outside its agent's zones to the agent of the session's zone."""
    # List the sessions before any moves. A cell holds an agent in `kind`, and an id in `pid`.
    first = 0
    for agent in range(N_RED):
        for i in range(int64(s.n_sessions[agent])):
            host = int64(s.sessions[agent, i].host)
            if RED_OF_ZONE[ZONE[host]] != agent:
                cell = new_cell(s)
                s.cells[cell].kind = agent
                s.cells[cell].pid = s.sessions[agent, i].ident
                first = append_cell(s, first, cell)
    cell = first
    while cell != 0:
        move_session(s, int64(s.cells[cell].kind), int64(s.cells[cell].pid))
        cell = int64(s.cells[cell].next)
    free_whole_list(s, first)
    for agent in range(N_RED):
        s.is_active[agent] = s.n_sessions[agent] > 0


@compiled
def move_session(s: Any, agent: int, ident: int) -> None:
    """Move a session to its zone's agent. The session becomes abstract. If an exploit opened the
    session in this step, the new agent observes the session instead of the old agent."""
    i = index_of(s, agent, ident)
    session = s.sessions[agent, i]
    host, user, pid = int64(session.host), int64(session.user), int64(session.pid)
    forget_session(s, agent, i)
    new_agent = RED_OF_ZONE[ZONE[host]]
    new_ident = add_session(s, new_agent, host, ABSTRACT, user, NO_PARENT, pid)
    s.sessions_count[agent] -= 1
    leave_host(s, agent, ident, host)
    if not s.sees_target[agent]:
        return
    kind, is_target = s.seen_kind[agent], s.seen_target[agent] == host
    has_taken = kind == EXPLOIT and s.seen_success[agent] == TRUE
    if has_taken and is_target:
        if s.seen_session[agent] == ident:
            s.seen_session[agent] = NO_PARENT
            n = int64(s.n_news[new_agent])
            s.news_host[new_agent, n] = host
            s.news_session[new_agent, n] = new_ident
            s.n_news[new_agent] = n + 1
        return
    is_scanned = is_target and kind in (AGGRESSIVE_SCAN, STEALTH_SCAN, EXPLOIT)
    if is_scanned or (has_taken and s.seen_source[agent] == host):
        s.error = state.NO_SESSIONS_IN_OBSERVATION


@compiled
def check_sessions(s: Any, agent: int) -> None:
    """`RedSessionCheck`: if an agent has sessions but no session 0, draw a session. This session
    becomes session 0, and the parent of the agent's other sessions."""
    n = int64(s.n_sessions[agent])
    if n == 0 or index_of(s, agent, 0) >= 0:
        return
    i = below(s, n)
    leader = s.sessions[agent, i]
    old_ident, host = int64(leader.ident), int64(leader.host)
    # The drawn session keeps its scans, and becomes the last of the agent's sessions.
    scans, pid = int64(leader.scans), int64(leader.pid)
    kind, user = int64(leader.type), int64(leader.user)
    free_whole_list(s, int64(leader.children))
    leader.children = 0
    leader.scans = 0
    forget_session(s, agent, i)
    leader = s.sessions[agent, n - 1]
    leader.children = 0
    leader.scans = scans
    leader.ident = 0
    leader.pid = pid
    leader.parent = NO_PARENT
    leader.host = host
    leader.type = kind
    leader.user = user
    s.n_sessions[agent] = n
    leave_host(s, agent, old_ident, host)
    join_host(s, agent, 0, host, True)
    for j in range(n - 1):
        s.sessions[agent, j].parent = NO_PARENT
        add_child(s, agent, n - 1, int64(s.sessions[agent, j].ident))
