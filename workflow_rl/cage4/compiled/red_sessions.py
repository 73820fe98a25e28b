"""The sessions of red agents. Follows `State.add_session` and `RedAbstractSession`."""

from typing import Any

from workflow_rl.cage4.compiled import cells
from workflow_rl.cage4.compiled.constants import NO_PARENT, ZONE
from workflow_rl.cage4.compiled.jit import compiled, int64
from workflow_rl.cage4.compiled.state import TOO_MANY_SESSIONS


@compiled
def index_of(s: Any, agent: int, ident: int) -> int:
    """Return the index of a session in its agent's list, or -1."""
    for i in range(int64(s.n_sessions[agent])):
        if s.sessions[agent, i].ident == ident:
            return i
    return -1


@compiled
def add_session(s: Any, agent: int, host: int, kind: int, user: int, parent: int, pid: int) -> int:
    """Add a session. Its id, which is returned, is one above the agent's highest session id."""
    n, ident = int64(s.n_sessions[agent]), 0
    for i in range(n):
        ident = max(ident, int64(s.sessions[agent, i].ident) + 1)
    if max(n, ident) >= s.sessions.shape[1]:
        s.error = TOO_MANY_SESSIONS
        return 0
    if parent != NO_PARENT:
        add_child(s, agent, index_of(s, agent, parent), ident)
    session = s.sessions[agent, n]
    session.children = 0
    session.scans = 0
    session.ident = ident
    session.pid = pid
    session.parent = parent
    session.host = host
    session.type = kind
    session.user = user
    s.n_sessions[agent] = n + 1
    s.sessions_count[agent] += 1
    join_host(s, agent, ident, host, False)
    return ident


@compiled
def add_child(s: Any, agent: int, i: int, ident: int) -> None:
    """Add a child's id to the children of session i, unless the children contain this id."""
    cell = int64(s.sessions[agent, i].children)
    while cell != 0:
        if s.cells[cell].pid == ident:
            return
        cell = int64(s.cells[cell].next)
    cell = cells.new_cell(s)
    s.cells[cell].pid = ident
    s.sessions[agent, i].children = cells.append_cell(s, int64(s.sessions[agent, i].children), cell)


@compiled
def forget_session(s: Any, agent: int, i: int) -> None:
    cells.free_whole_list(s, int64(s.sessions[agent, i].children))
    scan = int64(s.sessions[agent, i].scans)
    while scan != 0:
        following = int64(s.cells[scan].next)
        cells.free_whole_list(s, int64(s.cells[scan].first))
        cells.free_list(s, scan, scan)
        scan = following
    n = int64(s.n_sessions[agent]) - 1
    for j in range(i, n):
        s.sessions[agent, j] = s.sessions[agent, j + 1]
    s.n_sessions[agent] = n


@compiled
def join_host(s: Any, agent: int, ident: int, host: int, at_front: bool) -> None:
    cell = cells.new_cell(s)
    s.cells[cell].kind = agent
    s.cells[cell].pid = ident
    if at_front:
        s.cells[cell].next = s.red_sessions[host]
        s.red_sessions[host] = cell
    else:
        s.red_sessions[host] = cells.append_cell(s, int64(s.red_sessions[host]), cell)


@compiled
def leave_host(s: Any, agent: int, ident: int, host: int) -> None:
    cell = int64(s.red_sessions[host])
    while s.cells[cell].kind != agent or s.cells[cell].pid != ident:
        cell = int64(s.cells[cell].next)
    s.red_sessions[host] = cells.without(s, int64(s.red_sessions[host]), cell)
    cells.free_list(s, cell, cell)


@compiled
def has_session_on(s: Any, agent: int, host: int) -> bool:
    cell = int64(s.red_sessions[host])
    while cell != 0:
        if s.cells[cell].kind == agent:
            return True
        cell = int64(s.cells[cell].next)
    return False


@compiled
def learn_own_host(s: Any, agent: int, host: int) -> None:
    """`ActionSpace.update`: learn the address, name and zone of a host in the agent's zones."""
    s.knows_address[agent, host] = True
    s.knows_name[agent, host] = True
    s.known_zones[agent] |= 1 << ZONE[host]


@compiled
def learn_session(s: Any, agent: int, ident: int) -> None:
    """`ActionSpace.update`: learn an abstract session's id. The agent never forgets this id."""
    if not s.knows_id[agent, ident]:
        s.knows_id[agent, ident] = True
        n = int64(s.n_ids[agent])
        s.ids[agent, n] = ident
        s.n_ids[agent] = n + 1
