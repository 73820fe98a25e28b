"""The processes, PIDs and ports of a host. The functions follow CybORG's `Host` and `State`."""

from typing import Any

from workflow_rl.cage2.compiled import state, tables
from workflow_rl.cage2.compiled.generator import randbelow
from workflow_rl.cage2.compiled.jit import compiled


@compiled
def has_pid(s: Any, t: Any, host: int, pid: int) -> bool:
    for i in range(t.n_pids[host]):
        if t.pids[host, i] == pid:
            # Of the scenario's processes, only the OT service can stop.
            return is_running(s, t, host, pid) or has_added_pid(s, host, pid)
    for i in range(t.first_slot[host], t.first_slot[host + 1]):
        if s.session_pid[i] == pid:
            return True
    return has_added_pid(s, host, pid)


@compiled
def is_running(s: Any, t: Any, host: int, pid: int) -> bool:
    """Return False if the PID is the OT service's and Red has stopped it. Return True otherwise."""
    service = t.ot_number[host]
    return service == tables.NONE or pid != t.ot_pid[host] or s.ot_running[service]


@compiled
def has_added_pid(s: Any, host: int, pid: int) -> bool:
    process = s.first_process[host]
    while process != state.NO_PROCESS:
        if s.processes[process].pid == pid:
            return True
        process = s.processes[process].next
    return False


@compiled
def draw_pid(s: Any, t: Any, host: int) -> int:
    """Draw a PID as `Host.add_process` does."""
    pid = 0
    while pid == 0 or has_pid(s, t, host, pid):
        pid = randbelow(s, tables.N_PIDS)
    return pid


@compiled
def add_process(s: Any, t: Any, host: int, kind: int) -> int:
    """Follow `Host.add_process`: append a process to the host's list, and return its PID."""
    pid = draw_pid(s, t, host)
    process = int(s.free_process)
    if process != state.NO_PROCESS:
        s.free_process = s.processes[process].next
    elif s.n_processes < len(s.processes) - 1:
        process = int(s.n_processes) + 1
        s.n_processes = process
    else:
        s.error = state.TOO_MANY_PROCESSES
        return pid
    s.processes[process].pid = pid
    s.processes[process].kind = kind
    s.processes[process].next = state.NO_PROCESS
    if s.first_process[host] == state.NO_PROCESS:
        s.first_process[host] = process
    else:
        s.processes[s.last_process[host]].next = process
    s.last_process[host] = process
    return pid


@compiled
def remove_process(s: Any, host: int, process: int, previous: int) -> None:
    """Remove a process from the host's list. previous: the process before this process in the list,
    or NO_PROCESS."""
    following = s.processes[process].next
    if previous == state.NO_PROCESS:
        s.first_process[host] = following
    else:
        s.processes[previous].next = following
    if following == state.NO_PROCESS:
        s.last_process[host] = previous
    s.processes[process].next = s.free_process
    s.free_process = process


@compiled
def remove_all_processes(s: Any, host: int) -> None:
    """Empty the host's list of processes that were added since the start."""
    if s.first_process[host] != state.NO_PROCESS:
        s.processes[s.last_process[host]].next = s.free_process
        s.free_process = s.first_process[host]
        s.first_process[host] = state.NO_PROCESS
        s.last_process[host] = state.NO_PROCESS


@compiled
def is_using_port(s: Any, t: Any, host: int, port: int) -> bool:
    """Follow `_is_host_using_port`. port: the port's number on this host, see `tables`."""
    if (t.listening_ports[host] >> port) & 1:
        return True
    if has_decoy_on_port(s, host, port, tables.N_DECOY_KINDS):
        return True
    # Each of Red's SSH sessions uses the port of SSH.
    process = s.first_process[host]
    while process != state.NO_PROCESS and port == tables.SSH_PORT:
        if (s.processes[process].kind & state.KIND) == state.SSH:
            return True
        process = s.processes[process].next
    return False


@compiled
def has_decoy_on_port(s: Any, host: int, port: int, n_kinds: int) -> bool:
    """Return whether a decoy listens on a port of the host. n_kinds: see `decoy_on_port`."""
    return decoy_on_port(s, host, port, n_kinds) != state.NO_PROCESS


@compiled
def decoy_on_port(s: Any, host: int, port: int, n_kinds: int) -> int:
    """Return the first process of a decoy on a port, or NO_PROCESS. n_kinds: only the first
    `n_kinds` kinds of decoys count."""
    process = int(s.first_process[host])
    while process != state.NO_PROCESS:
        kind = s.processes[process].kind & state.KIND
        if kind < n_kinds and tables.DECOY_PORT[kind] == port:
            return process
        process = int(s.processes[process].next)
    return int(state.NO_PROCESS)


@compiled
def process_before(s: Any, host: int, process: int) -> int:
    """Return the process that stands before `process` in the host's list, or NO_PROCESS."""
    before, following = int(state.NO_PROCESS), int(s.first_process[host])
    while following != process:
        before, following = following, int(s.processes[following].next)
    return before


@compiled
def red_session(s: Any, host: int, index: int) -> int:
    """Return the process of Red's index-th session on a host, in the order of `State.sessions`."""
    process = s.first_process[host]
    while process != state.NO_PROCESS:
        if (s.processes[process].kind & state.KIND) >= state.SHELL:
            if index == 0:
                return process
            index -= 1
        process = s.processes[process].next
    return state.NO_PROCESS


@compiled
def has_bits_of_all(s: Any) -> bool:
    """Return whether `port_bits` has a row for every host."""
    return len(s.port_bits) == len(s.n_red_sessions)


@compiled
def row_of_bits(s: Any, t: Any, host: int) -> int:
    """Return the host's row in `port_bits`, or -1 if `ports` holds the host's ports as numbers."""
    if has_bits_of_all(s):
        return host
    if host == t.red_host:
        return 0
    return 1 if host == s.busy_host else -1


@compiled
def use_ephemeral_port(s: Any, t: Any, host: int) -> None:
    """Follow `Host.get_ephemeral_port`: if the drawn port is in use, draw one more time. The second
    port may be in use, too."""
    port = randbelow(s, tables.N_EPHEMERAL)
    row = row_of_bits(s, t, host)
    if row >= 0:
        # A word of `port_bits` has the bits of 32 ports.
        if (s.port_bits[row, port >> 5] >> (port & 31)) & 1:
            port = randbelow(s, tables.N_EPHEMERAL)
        s.port_bits[row, port >> 5] |= 1 << (port & 31)
        return
    side, first = t.port_side[host], t.first_port[host]
    n = int(s.n_ports[side])
    in_use = False
    for i in range(n):
        in_use |= s.ports[port_place(s, side, i)] == first + port
    if in_use:
        port = randbelow(s, tables.N_EPHEMERAL)
    if s.error != state.NO_ERROR:
        return
    s.ports[port_place(s, side, n)] = first + port
    s.n_ports[side] = n + 1
    if s.n_ports[0] + s.n_ports[1] == len(s.ports):
        make_room_for_ports(s, t)


@compiled
def port_place(s: Any, side: int, i: int) -> int:
    """Return the index in `ports` of entry i of a list. `ports` holds two lists: list 0 grows from
    the front, and list 1 grows from the back. side: the number of the list."""
    return i if side == 0 else len(s.ports) - 1 - i


@compiled
def take_listed_ports(s: Any, t: Any, host: int, keep: bool) -> None:
    """Remove a host's ports from its list. keep: whether to set their bits in `port_bits[1]`."""
    side, first = t.port_side[host], t.first_port[host]
    n = int(s.n_ports[side])
    i = 0
    while i < n:
        port = int(s.ports[port_place(s, side, i)]) - first
        if 0 <= port < tables.N_EPHEMERAL:
            if keep:
                s.port_bits[1, port >> 5] |= 1 << (port & 31)
            # The list's last entry takes the place of the removed one.
            n -= 1
            s.ports[port_place(s, side, i)] = s.ports[port_place(s, side, n)]
        else:
            i += 1
    s.n_ports[side] = n


@compiled
def make_room_for_ports(s: Any, t: Any) -> None:
    """Move the ports of the host with most listed ports to `port_bits[1]`, once in an episode. If
    the list is full a second time, set the error TOO_MANY_PORTS."""
    if s.busy_host != state.NONE:
        s.error = state.TOO_MANY_PORTS
        return
    busiest, most = 0, 0
    for host in range(t.n_hosts):
        if host != t.red_host:
            n_listed = 0
            side, first = t.port_side[host], t.first_port[host]
            for i in range(s.n_ports[side]):
                port = int(s.ports[port_place(s, side, i)]) - first
                n_listed += 0 <= port < tables.N_EPHEMERAL
            if n_listed > most:
                busiest, most = host, n_listed
    s.busy_host = busiest
    take_listed_ports(s, t, busiest, True)


@compiled
def free_ephemeral_ports(s: Any, t: Any, host: int) -> None:
    """Follow `Host.restore`: free a host's ephemeral ports."""
    row = row_of_bits(s, t, host)
    if row >= 0:
        s.port_bits[row, :] = 0
    else:
        take_listed_ports(s, t, host, False)
