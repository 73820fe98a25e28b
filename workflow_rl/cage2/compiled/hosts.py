"""What happens on a host: its processes, PIDs and ports. Follows CybORG's `Host` and `State`."""

from __future__ import annotations

from typing import Any

import numpy as np

from workflow_rl.cage2.compiled.jit import compiled
from workflow_rl.cage2.compiled.random import randbelow
from workflow_rl.cage2.compiled.state import (
    KIND,
    MAX_PORTS,
    NO_ERROR,
    NO_PROCESS,
    NONE,
    SHELL,
    SSH,
    TOO_MANY_PORTS,
    TOO_MANY_PROCESSES,
)
from workflow_rl.cage2.compiled.tables import (
    DECOY_PORT,
    FIRST_SLOT,
    LISTENING_PORTS,
    N_DECOYS,
    N_EPHEMERAL,
    N_HOSTS,
    N_PIDS,
    N_PIDS_OF_HOST,
    OT_HOST,
    OT_PID,
    PIDS,
    RED_HOST,
    SSH_PORT,
)

# Red's host aside, six hosts are listed from the left of `ports` and six from the right, so that a
# port and the host that uses it fit into 16 bits.
_RANKS = np.cumsum(np.arange(N_HOSTS) != RED_HOST) - 1
PORT_SIDE = _RANKS // 6
FIRST_PORT = _RANKS % 6 * N_EPHEMERAL
assert PORT_SIDE.max() == 1
assert FIRST_PORT.max() + N_EPHEMERAL <= 2**16


@compiled
def has_pid(s: Any, host: int, pid: int) -> bool:
    """Return whether a process of the host has this PID."""
    for i in range(N_PIDS_OF_HOST[host]):
        if PIDS[host, i] == pid:
            # Only the OT service ever stops.
            return host != OT_HOST or pid != OT_PID or s.ot_running or has_added_pid(s, host, pid)
    for i in range(FIRST_SLOT[host], FIRST_SLOT[host + 1]):
        if s.session_pid[i] == pid:
            return True
    return has_added_pid(s, host, pid)


@compiled
def has_added_pid(s: Any, host: int, pid: int) -> bool:
    """Return whether a process that was added since the start has this PID."""
    process = s.first_process[host]
    while process != NO_PROCESS:
        if s.processes[process].pid == pid:
            return True
        process = s.processes[process].next
    return False


@compiled
def draw_pid(s: Any, host: int) -> int:
    """Draw a PID as `Host.add_process` does."""
    pid = 0
    while pid == 0 or has_pid(s, host, pid):
        pid = randbelow(s, N_PIDS)
    return pid


@compiled
def add_process(s: Any, host: int, kind: int) -> int:
    """`Host.add_process`: append a process to the host's list, and return the PID."""
    pid = draw_pid(s, host)
    process = int(s.free_process)
    if process != NO_PROCESS:
        s.free_process = s.processes[process].next
    elif s.n_processes < len(s.processes) - 1:
        process = int(s.n_processes) + 1
        s.n_processes = process
    else:
        s.error = TOO_MANY_PROCESSES
        return pid
    s.processes[process].pid = pid
    s.processes[process].kind = kind
    s.processes[process].next = NO_PROCESS
    if s.first_process[host] == NO_PROCESS:
        s.first_process[host] = process
    else:
        s.processes[s.last_process[host]].next = process
    s.last_process[host] = process
    return pid


@compiled
def remove_process(s: Any, host: int, process: int, previous: int) -> None:
    """Take a process from the host's list. previous: the one before it, or NO_PROCESS."""
    following = s.processes[process].next
    if previous == NO_PROCESS:
        s.first_process[host] = following
    else:
        s.processes[previous].next = following
    if following == NO_PROCESS:
        s.last_process[host] = previous
    s.processes[process].next = s.free_process
    s.free_process = process


@compiled
def remove_all_processes(s: Any, host: int) -> None:
    """Take all processes from the list that were added since the start."""
    if s.first_process[host] != NO_PROCESS:
        s.processes[s.last_process[host]].next = s.free_process
        s.free_process = s.first_process[host]
        s.first_process[host] = NO_PROCESS
        s.last_process[host] = NO_PROCESS


@compiled
def is_using_port(s: Any, host: int, port: int) -> bool:
    """`_is_host_using_port`; `port` is a number in `tables.PORTS`."""
    if LISTENING_PORTS[host] >> port & 1:
        return True
    process = s.first_process[host]
    while process != NO_PROCESS:
        kind = s.processes[process].kind & KIND
        if kind < N_DECOYS:
            if DECOY_PORT[kind] == port:
                return True
        elif kind == SSH and port == SSH_PORT:
            return True
        process = s.processes[process].next
    return False


@compiled
def first_decoy_on_port(s: Any, host: int, port: int) -> int:
    """Return the first decoy in the host's list that listens on a port, or NO_PROCESS."""
    process = s.first_process[host]
    while process != NO_PROCESS:
        kind = s.processes[process].kind & KIND
        if kind < N_DECOYS and DECOY_PORT[kind] == port:
            return process
        process = s.processes[process].next
    return NO_PROCESS


@compiled
def red_session(s: Any, host: int, index: int) -> int:
    """Return the process of Red's index-th session on a host, in the order of `State.sessions`."""
    process = s.first_process[host]
    while process != NO_PROCESS:
        if s.processes[process].kind & KIND >= SHELL:
            if index == 0:
                return process
            index -= 1
        process = s.processes[process].next
    return NO_PROCESS


@compiled
def row_of_bits(s: Any, host: int) -> int:
    """Return the host's row in `port_bits`, or -1 if its ports are listed."""
    if len(s.port_bits) == N_HOSTS:
        return host
    if host == RED_HOST:
        return 0
    return 1 if host == s.busy_host else -1


@compiled
def use_ephemeral_port(s: Any, host: int) -> None:
    """`Host.get_ephemeral_port`: a port that is in use is drawn again, but only once."""
    port = randbelow(s, N_EPHEMERAL)
    row = row_of_bits(s, host)
    if row >= 0:
        if s.port_bits[row, port >> 5] >> (port & 31) & 1:
            port = randbelow(s, N_EPHEMERAL)
        s.port_bits[row, port >> 5] |= 1 << (port & 31)
        return
    side, first = PORT_SIDE[host], FIRST_PORT[host]
    n = int(s.n_ports[side])
    in_use = False
    for i in range(n):
        in_use |= s.ports[at(side, i)] == first + port
    if in_use:
        port = randbelow(s, N_EPHEMERAL)
    if s.error != NO_ERROR:
        return
    s.ports[at(side, n)] = first + port
    s.n_ports[side] = n + 1
    if s.n_ports[0] + s.n_ports[1] == MAX_PORTS:
        make_room_for_ports(s)


@compiled
def at(side: int, i: int) -> int:
    """Return the index of the i-th port that is listed from a side of `ports`."""
    return i if side == 0 else MAX_PORTS - 1 - i


@compiled
def take_listed_ports(s: Any, host: int, keep: bool) -> None:
    """Remove a host's ports from the list. keep: note them in the bits of the busy host."""
    side, first = PORT_SIDE[host], FIRST_PORT[host]
    n = int(s.n_ports[side])
    i = 0
    while i < n:
        port = int(s.ports[at(side, i)]) - first
        if 0 <= port < N_EPHEMERAL:
            if keep:
                s.port_bits[1, port >> 5] |= 1 << (port & 31)
            n -= 1
            s.ports[at(side, i)] = s.ports[at(side, n)]
        else:
            i += 1
    s.n_ports[side] = n


@compiled
def make_room_for_ports(s: Any) -> None:
    """Turn the list of the host with most ports into bits, once an episode."""
    if s.busy_host != NONE:
        s.error = TOO_MANY_PORTS
        return
    busiest, most = 0, 0
    for host in range(N_HOSTS):
        if host != RED_HOST:
            n_listed = 0
            for i in range(s.n_ports[PORT_SIDE[host]]):
                port = int(s.ports[at(PORT_SIDE[host], i)]) - FIRST_PORT[host]
                n_listed += 0 <= port < N_EPHEMERAL
            if n_listed > most:
                busiest, most = host, n_listed
    s.busy_host = busiest
    take_listed_ports(s, busiest, True)


@compiled
def free_ephemeral_ports(s: Any, host: int) -> None:
    """Free a host's ports, as `Host.restore` does."""
    row = row_of_bits(s, host)
    if row >= 0:
        s.port_bits[row, :] = 0
    else:
        take_listed_ports(s, host, False)
