"""Blue's actions on the network."""

from __future__ import annotations

from typing import Any

from workflow_rl.cage2.compiled import hosts, state, tables
from workflow_rl.cage2.compiled.generator import randbelow
from workflow_rl.cage2.compiled.jit import compiled


@compiled
def act_as_blue(s: Any, kind: int, host: int) -> None:
    """`Action.sim_execute`."""
    s.blue_success = tables.TRUE
    s.malware_found = False
    if kind == tables.SLEEP:
        s.blue_success = tables.UNKNOWN
        return
    if kind == tables.MONITOR:
        # Nothing has happened since Blue monitored at the end of the last step.
        return
    # CybORG chooses one of Blue's sessions on the host.
    randbelow(s, tables.N_BLUE_SESSIONS[host])
    if kind == tables.ANALYSE:
        # `DensityScout`: only Red's files have a high density.
        s.malware_found = s.has_malware >> host & 1 != 0
    elif kind == tables.REMOVE:
        remove(s, host)
    elif kind == tables.RESTORE:
        restore(s, host)
    elif kind >= tables.FIRST_DECOY:
        set_up_decoy(s, kind - tables.FIRST_DECOY, host)


@compiled
def remove(s: Any, host: int) -> None:
    """`Remove` and `StopProcess`: stop all processes ever caught on the host, except root's."""
    for i in range(s.n_suspicious):
        if s.suspicious_host[i] == host:
            kill_process(s, host, s.suspicious_pid[i])


@compiled
def kill_process(s: Any, host: int, pid: int) -> None:
    """`StopProcess.kill_process`, for a PID that was caught."""
    if host == tables.OT_HOST and pid == tables.OT_PID and s.ot_running:
        return
    previous, process = state.NO_PROCESS, int(s.first_process[host])
    while process != state.NO_PROCESS and s.processes[process].pid != pid:
        previous, process = process, int(s.processes[process].next)
    if process == state.NO_PROCESS or s.processes[process].kind & state.PRIVILEGED:
        return
    kind = int(s.processes[process].kind)
    hosts.remove_process(s, host, process, previous)
    is_service = host == tables.OT_HOST and s.ot_listed_with_pid and pid == tables.OT_PID
    for service in range(tables.N_SERVICES):
        is_service |= s.service_pid[host, service] == pid
    if kind & state.KIND >= state.SHELL:
        s.n_red_sessions[host] -= 1
        if is_service:
            # CybORG restarts the session, but confuses the session with its number.
            s.error = state.CYBORG_FAILS
    elif is_service:
        hosts.add_process(s, host, kind)


@compiled
def restore(s: Any, host: int) -> None:
    """`RestoreFromBackup`: remove all that was added to the host, with Red's sessions there.

    The first sessions stay, and Red's own keeps its memory. The backup lists the OT service without
    its PID, so that Red cannot stop the service again.
    """
    hosts.remove_all_processes(s, host)
    hosts.free_ephemeral_ports(s, host)
    s.n_red_sessions[host] = 0
    s.is_owned &= ~(1 << host)
    s.has_malware &= ~(1 << host)
    for service in range(tables.N_SERVICES):
        s.service_pid[host, service] = 0
    if host == tables.OT_HOST:
        s.ot_running = True
        s.ot_active = True
        s.ot_listed_with_pid = False


@compiled
def set_up_decoy(s: Any, decoy: int, host: int) -> None:
    """`DecoyApache` and the others, with their `is_host_compatible`."""
    if not tables.DECOY_RUNS_ON[decoy, host] or hosts.is_using_port(
        s, host, tables.DECOY_FREE_PORT[decoy]
    ):
        s.blue_success = tables.FALSE
        return
    # CybORG chooses the only factory.
    randbelow(s, 1)
    is_privileged = tables.BLUE_IS_PRIVILEGED[host] or tables.DECOY_IS_PRIVILEGED[decoy]
    pid = hosts.add_process(s, host, decoy | (state.PRIVILEGED if is_privileged else 0))
    # A service keeps the PID of its first process.
    if s.service_pid[host, tables.SERVICE[decoy]] == 0:
        s.service_pid[host, tables.SERVICE[decoy]] = pid
