"""Writes what a step showed the blue agents into a record of `raw_record.RAW`."""

from typing import Any

from workflow_rl.cage4.agent import raw_record
from workflow_rl.cage4.compiled.actions import ALLOW, ANALYSE, BLOCK, DECOY, SLEEP
from workflow_rl.cage4.compiled.constants import BLUE_OF_ZONE, N_BLUE, N_HOSTS, ZONE
from workflow_rl.cage4.compiled.exploits import PORTS, SSH
from workflow_rl.cage4.compiled.hosts import OLD_CONNECTIONS, OLD_PROCESSES
from workflow_rl.cage4.compiled.jit import compiled, int64
from workflow_rl.cage4.scenario.scenario4 import FALSE, IN_PROGRESS, TRUE, UNKNOWN

BY_GREEN = 0


@compiled
def write_raw(s: Any, raw: Any) -> bool:
    """Write what the last step of a network showed. Returns whether the record had room."""
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
            elif raw.n_shells[host] == raw_record.MAX_SOURCES:
                has_room = False
            else:
                raw.shell_pid[host, raw.n_shells[host]] = s.cells[event].pid
                raw.n_shells[host] += 1
            event = int64(s.cells[event].next)
    return has_room


@compiled
def write_outcome(s: Any, agent: int, raw: Any) -> None:
    kind, host, result = s.blue_done[agent], int64(s.blue_target[agent]), s.blue_result[agent]
    raw.success[agent] = TRUE
    if s.blue_ticks[agent] != 0:
        raw.success[agent] = IN_PROGRESS
    elif s.step_count == 0 or kind == SLEEP:
        raw.success[agent] = UNKNOWN
    elif kind == ANALYSE:
        raw.files[host] = raw_record.ANALYSED | (result & (raw_record.CMD | raw_record.ESCALATE))
    elif kind == DECOY:
        raw.decoy_pid[host] = result
        for i in range(int64(s.n_services[host])):
            if s.service_pid[host, i] == result:
                raw.decoy[host] = s.service_kind[host, i]
    elif kind in (ALLOW, BLOCK) and not result:
        raw.success[agent] = FALSE


@compiled
def write_connections(s: Any, host: int, raw: Any) -> bool:
    """Write the connection events of a host. Returns whether the record had room."""
    event = int64(s.events[host, OLD_CONNECTIONS])
    before = 0
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
    """Return the bit of `seen` that an event adds, or BY_GREEN. before: the previous event, or 0.

    An SSH exploit that takes a host tries passwords, which makes several equal events in a row.
    Other events with an equal local port differ in the remote port."""
    port = s.cells[event].local_port
    if port == 0:
        if s.cells[event].remote_port != PORTS[SSH]:
            return BY_GREEN
        return raw_record.APPROACHED if s.cells[event].local_host == host else raw_record.PASSED
    if port >= raw_record.FIRST_PORT:
        return raw_record.DECEIVED
    is_row = are_equal(s, before, event) or are_equal(s, event, int64(s.cells[event].next))
    return raw_record.TAKEN if is_row else raw_record.SCANNED


@compiled
def are_equal(s: Any, first: int, second: int) -> bool:
    """Return whether two events exist and have the same source and ports."""
    return (
        first != 0
        and second != 0
        and s.cells[first].local_port == s.cells[second].local_port
        and s.cells[first].remote_host == s.cells[second].remote_host
        and s.cells[first].remote_port == s.cells[second].remote_port
    )


@compiled
def add_source(raw: Any, host: int, source: int, how: int) -> bool:
    """Add a bit of `seen` to a source of a host. Returns whether the record had room."""
    if BLUE_OF_ZONE[ZONE[source]] != BLUE_OF_ZONE[ZONE[host]]:
        source = raw_record.STRANGER
    i = 0
    while i < raw.n_sources[host] and raw.source[host, i] != source:
        i += 1
    if i == raw_record.MAX_SOURCES:
        return False
    if i == raw.n_sources[host]:
        raw.n_sources[host] = i + 1
        raw.source[host, i] = source
    raw.seen[host, i] |= how
    return True
