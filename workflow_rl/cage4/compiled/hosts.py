"""What happens on a host. Follows CybORG's `Host`, `HostEvents`, `Process` and `StopProcess`."""

from typing import Any

from workflow_rl.cage4.agent.raw_record import FIRST_PORT
from workflow_rl.cage4.compiled import cells, state
from workflow_rl.cage4.compiled.constants import N_RED, ROOT, SMTP, UBUNTU, USER
from workflow_rl.cage4.compiled.generator import below
from workflow_rl.cage4.compiled.jit import compiled, int64
from workflow_rl.cage4.compiled.red_sessions import forget_session, leave_host

# The lists of a host's events, in the order of `events`. Then the lists' bits in `has_events`.
CONNECTIONS, OLD_CONNECTIONS, PROCESSES, OLD_PROCESSES = range(4)
CONNECTION_BITS = (1 << CONNECTIONS) | (1 << OLD_CONNECTIONS)
PROCESS_BITS = (1 << PROCESSES) | (1 << OLD_PROCESSES)
NOT_FOUND = -1


@compiled
def draw_port(s: Any, host: int) -> int:
    """`get_ephemeral_port`: draw a port. If it is in use, return a second draw without a check."""
    port = below(s, state.N_PORTS)
    # A word of `port_bits` has the bits of 32 ports.
    if (s.port_bits[host, port >> 5] >> (port & 31)) & 1:
        port = below(s, state.N_PORTS)
    s.port_bits[host, port >> 5] |= 1 << (port & 31)
    n = int64(s.n_log)
    if n == len(s.log_port):
        s.error = state.TOO_MANY_PORTS
        return FIRST_PORT
    s.log_host[n] = host
    s.log_port[n] = FIRST_PORT + port
    s.n_log = n + 1
    return FIRST_PORT + port


@compiled
def draw_pid(s: Any, host: int) -> int:
    """`create_pid`."""
    highest = 0
    cell = int64(s.processes[host])
    while cell != 0:
        highest = max(highest, int64(s.cells[cell].pid))
        cell = int64(s.cells[cell].next)
    pid = highest + 1 + below(s, 9)
    if pid > 65535:
        s.error = state.PID_TOO_HIGH
        pid = 65535
    return pid


@compiled
def add_process(s: Any, host: int, kind: int, pid: int, user: int) -> int:
    """Add a process at the end of a host's list. Returns the process's cell."""
    cell = cells.new_cell(s)
    s.cells[cell].kind = kind
    s.cells[cell].pid = pid
    s.cells[cell].user = user
    append_process(s, host, cell)
    return cell


@compiled
def append_process(s: Any, host: int, cell: int) -> None:
    s.cells[cell].next = 0
    if s.processes[host] == 0:
        s.processes[host] = cell
    else:
        s.cells[s.last_process[host]].next = cell
    s.last_process[host] = cell


@compiled
def remove_process(s: Any, host: int, cell: int) -> None:
    previous = 0
    if s.last_process[host] == cell:
        at = int64(s.processes[host])
        while at != cell:
            previous = at
            at = int64(s.cells[at].next)
        s.last_process[host] = previous
    s.processes[host] = cells.without(s, int64(s.processes[host]), cell)


@compiled
def process_of(s: Any, host: int, pid: int) -> int:
    """`get_process`: the cell of the process with this PID, or 0."""
    cell = int64(s.processes[host])
    while cell != 0 and s.cells[cell].pid != pid:
        cell = int64(s.cells[cell].next)
    return cell


@compiled
def free_process(s: Any, cell: int) -> None:
    """Give back the cells of a process that is in no list."""
    cells.free_whole_list(s, int64(s.cells[cell].first))
    cells.free_list(s, cell, cell)


@compiled
def add_connection(
    s: Any, process: int, local: int, local_port: int, remote: int, remote_port: int
) -> None:
    """Add a connection at the end of a process's list."""
    cell = new_connection(s, local, local_port, remote, remote_port)
    s.cells[process].first = cells.append_cell(s, int64(s.cells[process].first), cell)


@compiled
def new_connection(s: Any, local: int, local_port: int, remote: int, remote_port: int) -> int:
    """Return a cell with the hosts and ports of a connection. Port 0 means that there is none."""
    cell = cells.new_cell(s)
    s.cells[cell].local_host = local
    s.cells[cell].local_port = local_port
    s.cells[cell].remote_host = remote
    s.cells[cell].remote_port = remote_port
    s.cells[cell].pid = 0
    return cell


@compiled
def add_event(s: Any, host: int, which: int, cell: int) -> None:
    if s.events[host, which] == 0:
        s.events[host, which] = cell
        s.has_events[host] |= 1 << which
    else:
        s.cells[s.last_event[host, which]].next = cell
    s.last_event[host, which] = cell


@compiled
def see_connection(
    s: Any, host: int, local: int, local_port: int, remote: int, remote_port: int
) -> None:
    cell = new_connection(s, local, local_port, remote, remote_port)
    add_event(s, host, CONNECTIONS, cell)


@compiled
def free_events(s: Any, host: int, which: int) -> None:
    if s.events[host, which] != 0:
        cells.free_list(s, int64(s.events[host, which]), int64(s.last_event[host, which]))
        s.events[host, which] = 0
        s.has_events[host] &= 255 ^ (1 << which)


@compiled
def make_old(s: Any, host: int, which: int) -> None:
    """Make a list of events the list of old events. The list of events is empty then."""
    free_events(s, host, which + 1)
    s.events[host, which + 1] = s.events[host, which]
    s.last_event[host, which + 1] = s.last_event[host, which]
    if s.events[host, which] != 0:
        s.has_events[host] |= 1 << (which + 1)
    s.events[host, which] = 0
    s.has_events[host] &= 255 ^ (1 << which)


@compiled
def add_file(s: Any, host: int, kind: int) -> None:
    cell = cells.new_cell(s)
    s.cells[cell].kind = kind
    s.files[host] = cells.append_cell(s, int64(s.files[host]), cell)


@compiled
def set_service(s: Any, host: int, kind: int, pid: int) -> None:
    """Add a service, or replace the host's service of this kind."""
    i = 0
    while i < s.n_services[host] and s.service_kind[host, i] != kind:
        i += 1
    if i == s.n_services[host]:
        s.n_services[host] = i + 1
    s.service_kind[host, i] = kind
    s.service_pid[host, i] = pid
    s.service_active[host, i] = True
    s.reliability[host, i] = 100


@compiled
def rebuild(s: Any, host: int) -> None:
    """Set the processes and services as they were at the start of the episode."""
    s.n_services[host] = 0
    for i in range(int64(s.n_original[host])):
        kind, pid = int64(s.original_kind[host, i]), int64(s.original_pid[host, i])
        is_service = kind <= SMTP
        add_process(s, host, kind, pid, USER if is_service else UBUNTU)
        if is_service:
            set_service(s, host, kind, pid)


@compiled
def stop_process(s: Any, host: int, pid: int, stops_all: bool) -> bool:
    """`StopProcess`. Returns success. A service restarts with a new PID. stops_all: whether root's
    processes can be stopped, too, as in `Withdraw`."""
    cell = process_of(s, host, pid)
    if cell == 0 or (s.cells[cell].user == ROOT and not stops_all):
        return False
    owner, at = NOT_FOUND, NOT_FOUND
    for agent in range(N_RED):
        for i in range(int64(s.n_sessions[agent])):
            session = s.sessions[agent, i]
            if owner == NOT_FOUND and session.pid == pid and session.host == host:
                owner, at = agent, i
    remove_process(s, host, cell)
    restarts = False
    for i in range(int64(s.n_services[host])):
        if not restarts and s.service_pid[host, i] == pid:
            restarts = True
            new_pid = draw_pid(s, host)
            s.cells[cell].pid = new_pid
            append_process(s, host, cell)
            s.service_pid[host, i] = new_pid
    if not restarts:
        free_process(s, cell)
    if owner != NOT_FOUND:
        ident = int64(s.sessions[owner, at].ident)
        leave_host(s, owner, ident, host)
        forget_session(s, owner, at)
        s.sessions_count[owner] -= 1
    return True
