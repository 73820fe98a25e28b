"""What a blue agent's raw observation tells of hosts, as arrays that a policy reads.

A record `RAW` holds one step of one network, hosts by their number: see `network`. It tells no more
than the dictionaries of `Simulator.raw_observations` do, for the hosts in the blue agents' zones.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from workflow_rl.cage4.compiled.actions import (
    ALLOW,
    ANALYSE,
    BLOCK,
    DECOY,
    FALSE,
    IN_PROGRESS,
    SLEEP,
    TRUE,
    UNKNOWN,
)
from workflow_rl.cage4.compiled.exploits import PORTS, SSH
from workflow_rl.cage4.compiled.hosts import OLD_CONNECTIONS, OLD_PROCESSES
from workflow_rl.cage4.compiled.jit import compiled, int64
from workflow_rl.cage4.compiled.network import BLUE_OF_ZONE, N_BLUE, N_HOSTS, N_RED, NOBODY, ZONE
from workflow_rl.cage4.compiled.state import FIRST_PORT

MOST = N_RED
"""Sources and shells that a step can show on one host: each red agent acts once."""
ANALYSED, CMD, ESCALATE = 4, 1, 2
"""Bits of `files`."""
SCANNED, APPROACHED, PASSED, TAKEN, DECEIVED = 1, 2, 4, 8, 16
"""Bits of `seen`: the source scanned the host, which an exploit of a decoy does as well; an SSH
connection to the host was seen on its way; one to another host passed here; an SSH exploit took the
host; a decoy made an exploit fail."""
BY_GREEN = 0
STRANGER = NOBODY

RAW = np.dtype(
    [
        # By agent, as `actions.TRUE` and its neighbours: what became of the agent's action.
        ("success", np.uint8, N_BLUE),
        # ANALYSED and the kinds of files that were there, 0 on hosts that were not analysed.
        ("files", np.uint8, N_HOSTS),
        # The kind of process (see `network`) and the PID of a decoy that was deployed, or 0.
        ("decoy", np.uint8, N_HOSTS),
        ("decoy_pid", np.uint16, N_HOSTS),
        # Shells: process events with a PID. Process events without one are a green's false alert.
        ("n_shells", np.uint8, N_HOSTS),
        ("shell_pid", np.uint16, (N_HOSTS, MOST)),
        ("false_alerts", np.uint8, N_HOSTS),
        # Hosts from which red acted, each once, and how; the first n_sources count. All hosts of
        # which the agent does not know the name are one STRANGER.
        ("n_sources", np.uint8, N_HOSTS),
        ("source", np.uint8, (N_HOSTS, MOST)),
        ("seen", np.uint8, (N_HOSTS, MOST)),
        # Connection events that greens cause: blocked ones and others.
        ("green_connections", np.uint16, N_HOSTS),
    ],
    align=True,
)


@compiled
def write_raw(s: Any, raw: Any) -> bool:
    """Write what the last step of a network showed. Returns whether there was room for it."""
    for host in range(N_HOSTS):
        raw.files[host] = 0
        raw.decoy[host] = 0
        raw.decoy_pid[host] = 0
        raw.false_alerts[host] = 0
        raw.green_connections[host] = 0
        if raw.n_shells[host] != 0:
            raw.n_shells[host] = 0
            raw.shell_pid[host, :] = 0
        if raw.n_sources[host] != 0:
            raw.n_sources[host] = 0
            raw.source[host, :] = 0
            raw.seen[host, :] = 0
    for agent in range(N_BLUE):
        write_outcome(s, agent, raw)
    has_room = True
    for host in range(N_HOSTS):
        if s.events[host, OLD_CONNECTIONS] != 0:
            has_room &= write_connections(s, host, raw)
        event = int64(s.events[host, OLD_PROCESSES])
        while event != 0:
            if s.cells[event].pid == 0:
                raw.false_alerts[host] += 1
            elif raw.n_shells[host] == MOST:
                has_room = False
            else:
                raw.shell_pid[host, raw.n_shells[host]] = s.cells[event].pid
                raw.n_shells[host] += 1
            event = int64(s.cells[event].next)
    return has_room


@compiled
def write_outcome(s: Any, agent: int, raw: Any) -> None:
    """Write what became of an agent's action."""
    kind, host, result = s.blue_done[agent], int64(s.blue_target[agent]), s.blue_result[agent]
    raw.success[agent] = TRUE
    if s.blue_ticks[agent] != 0:
        raw.success[agent] = IN_PROGRESS
    elif s.step_count == 0 or kind == SLEEP:
        raw.success[agent] = UNKNOWN
    elif kind == ANALYSE:
        raw.files[host] = ANALYSED | (result & (CMD | ESCALATE))
    elif kind == DECOY:
        raw.decoy_pid[host] = result
        for i in range(int64(s.n_services[host])):
            if s.service_pid[host, i] == result:
                raw.decoy[host] = s.service_kind[host, i]
    elif kind in (ALLOW, BLOCK) and not result:
        raw.success[agent] = FALSE


@compiled
def write_connections(s: Any, host: int, raw: Any) -> bool:
    """Write the connection events of a host. Returns whether there was room for the sources."""
    event, before = int64(s.events[host, OLD_CONNECTIONS]), 0
    while event != 0:
        how = meaning_of(s, host, before, event)
        if how == BY_GREEN:
            raw.green_connections[host] += 1
        elif not add_source(raw, host, int64(s.cells[event].remote_host), how):
            return False
        before = event
        event = int64(s.cells[event].next)
    return True


@compiled
def meaning_of(s: Any, host: int, before: int, event: int) -> int:
    """Return the bit of `seen` that an event adds, or BY_GREEN. before: the event before it, or 0.

    An SSH exploit that takes a host tries passwords, which makes a row of equal events. Every other
    event of a host's own port has a remote port of its own.
    """
    port = s.cells[event].local_port
    if port == 0:
        if s.cells[event].remote_port != PORTS[SSH]:
            return BY_GREEN
        return APPROACHED if s.cells[event].local_host == host else PASSED
    if port >= FIRST_PORT:
        return DECEIVED
    is_row = are_equal(s, before, event) or are_equal(s, event, int64(s.cells[event].next))
    return TAKEN if is_row else SCANNED


@compiled
def are_equal(s: Any, first: int, second: int) -> bool:
    """Return whether two events, of which one may be 0, have the same source and ports."""
    return (
        first != 0
        and second != 0
        and s.cells[first].local_port == s.cells[second].local_port
        and s.cells[first].remote_host == s.cells[second].remote_host
        and s.cells[first].remote_port == s.cells[second].remote_port
    )


@compiled
def add_source(raw: Any, host: int, source: int, how: int) -> bool:
    """Add a bit of `seen` to a source of a host. Returns whether there was room."""
    if BLUE_OF_ZONE[ZONE[source]] != BLUE_OF_ZONE[ZONE[host]]:
        source = STRANGER
    i = 0
    while i < raw.n_sources[host] and raw.source[host, i] != source:
        i += 1
    if i == MOST:
        return False
    if i == raw.n_sources[host]:
        raw.n_sources[host] = i + 1
        raw.source[host, i] = source
    raw.seen[host, i] |= how
    return True
