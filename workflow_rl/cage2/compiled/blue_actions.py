"""Blue's actions on the network."""

from typing import Any

from workflow_rl.cage2.compiled import hosts, state, tables
from workflow_rl.cage2.compiled.generator import randbelow
from workflow_rl.cage2.compiled.jit import compiled, int64


@compiled
def act_as_blue(s: Any, t: Any, kind: int, host: int) -> None:
    """Follow `Action.sim_execute` of CybORG. host: the target, which some kinds do not use."""
    s.blue_success = tables.TRUE
    s.malware_found = False
    if kind == tables.SLEEP:
        s.blue_success = tables.UNKNOWN
        return
    if kind == tables.MONITOR:
        # CybORG monitors at the end of every step, so Blue has already seen all events.
        return
    # CybORG chooses one of Blue's sessions on the host.
    session = randbelow(s, int64(t.n_blue_sessions[host]))
    if kind == tables.ANALYSE:
        # `DensityScout`: only Red's files have a high density.
        s.malware_found = ((s.has_malware >> host) & 1) != 0
    elif kind == tables.REMOVE:
        remove(s, t, host)
    elif kind == tables.RESTORE:
        restore(s, t, host)
    elif kind == tables.MISINFORM:
        misinform(s, t, host, session)
    else:
        set_up_decoy(s, t, kind - tables.FIRST_DECOY, host, session)


@compiled
def remove(s: Any, t: Any, host: int) -> None:
    """Follow `Remove` and `StopProcess`: try to stop all processes that were ever noticed on the
    host."""
    for i in range(s.n_suspicious):
        if s.suspicious_host[i] == host:
            kill_process(s, t, host, s.suspicious_pid[i])


@compiled
def kill_process(s: Any, t: Any, host: int, pid: int) -> None:
    """Follow `StopProcess.kill_process`, which stops no process of root or SYSTEM."""
    ot_service = t.ot_number[host]
    is_ot_service = ot_service != tables.NONE and pid == t.ot_pid[host]
    if is_ot_service and s.ot_running[ot_service]:
        return
    previous, process = state.NO_PROCESS, int(s.first_process[host])
    while process != state.NO_PROCESS and s.processes[process].pid != pid:
        previous, process = process, int(s.processes[process].next)
    if process == state.NO_PROCESS or (s.processes[process].kind & state.PRIVILEGED):
        return
    kind = int(s.processes[process].kind)
    hosts.remove_process(s, host, process, previous)
    is_service = is_ot_service and s.ot_listed_with_pid[ot_service]
    for service in range(s.service_pid.shape[1]):
        is_service |= s.service_pid[host, service] == pid
    if (kind & state.KIND) >= state.SHELL:
        s.n_red_sessions[host] -= 1
        if is_service:
            # CybORG fails when it restarts the session, because it reads a number as a session.
            s.error = state.CYBORG_FAILS
    elif is_service:
        hosts.add_process(s, t, host, kind)


@compiled
def restore(s: Any, t: Any, host: int) -> None:
    """Follow `RestoreFromBackup`: remove all processes, files and sessions that were added.

    Sessions of the episode's start stay, and Red's first session keeps its memory. The backup lists
    the OT service without its PID, so Red cannot stop the service again."""
    hosts.remove_all_processes(s, host)
    hosts.free_ephemeral_ports(s, t, host)
    s.n_red_sessions[host] = 0
    s.is_owned &= ~(1 << host)
    s.has_malware &= ~(1 << host)
    for service in range(s.service_pid.shape[1]):
        s.service_pid[host, service] = 0
    ot_service = t.ot_number[host]
    if ot_service != tables.NONE:
        s.ot_running[ot_service] = True
        s.ot_active[ot_service] = True
        s.ot_listed_with_pid[ot_service] = False


@compiled
def set_up_decoy(s: Any, t: Any, decoy: int, host: int, session: int) -> None:
    """Follow `DecoyApache` and the other decoys, with their `is_host_compatible`."""
    port = tables.DECOY_FREE_PORT[decoy]
    if not t.decoy_runs_on[decoy, host] or hosts.is_using_port(s, t, host, port):
        s.blue_success = tables.FALSE
        return
    # CybORG draws the decoy's factory from a list with one element, which uses up random bits.
    randbelow(s, 1)
    start_decoy(s, t, decoy, host, session)


@compiled
def misinform(s: Any, t: Any, host: int, session: int) -> None:
    """Follow `Misinform`: draw one of the MISINFORM_KINDS whose port is free, on any system."""
    n_possible = 0
    for i in range(len(tables.MISINFORM_KINDS)):
        port = tables.DECOY_FREE_PORT[tables.MISINFORM_KINDS[i]]
        n_possible += not hosts.is_using_port(s, t, host, port)
    if n_possible == 0:
        s.blue_success = tables.FALSE
        return
    # Among the kinds whose port is free, take the one with so many before it.
    n_before = randbelow(s, n_possible)
    for i in range(len(tables.MISINFORM_KINDS)):
        kind = int(tables.MISINFORM_KINDS[i])
        if not hosts.is_using_port(s, t, host, tables.DECOY_FREE_PORT[kind]):
            if n_before == 0:
                start_decoy(s, t, kind, host, session)
                return
            n_before -= 1


@compiled
def start_decoy(s: Any, t: Any, decoy: int, host: int, session: int) -> None:
    """Start a decoy's process as the user of Blue's session, and list the decoy's service."""
    kind = decoy
    blue_is_privileged = ((t.blue_is_privileged[host] >> session) & 1) != 0
    if blue_is_privileged or tables.DECOY_IS_PRIVILEGED[decoy]:
        kind |= state.PRIVILEGED
    pid = hosts.add_process(s, t, host, kind)
    # A service keeps the PID of its first process.
    if s.service_pid[host, t.service[decoy]] == 0:
        s.service_pid[host, t.service[decoy]] = pid
