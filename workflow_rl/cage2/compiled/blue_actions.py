"""Blue's actions on the network."""

from __future__ import annotations

from typing import Any

from workflow_rl.cage2.compiled.hosts import (
    add_process,
    free_ephemeral_ports,
    is_using_port,
    remove_all_processes,
    remove_process,
)
from workflow_rl.cage2.compiled.jit import compiled
from workflow_rl.cage2.compiled.random import randbelow
from workflow_rl.cage2.compiled.state import CYBORG_FAILS, KIND, NO_PROCESS, PRIVILEGED, SHELL
from workflow_rl.cage2.compiled.tables import (
    ANALYSE,
    BLUE_IS_PRIVILEGED,
    DECOY_FREE_PORT,
    DECOY_IS_PRIVILEGED,
    DECOY_RUNS_ON,
    FALSE,
    FIRST_DECOY,
    MONITOR,
    N_BLUE_SESSIONS,
    N_SERVICES,
    OT_HOST,
    OT_PID,
    REMOVE,
    RESTORE,
    SERVICE,
    SLEEP,
    TRUE,
    UNKNOWN,
)


@compiled
def act_as_blue(s: Any, kind: int, host: int) -> None:
    """`Action.sim_execute`."""
    s.blue_success = TRUE
    s.malware_found = False
    if kind == SLEEP:
        s.blue_success = UNKNOWN
        return
    if kind == MONITOR:
        # Nothing has happened since Blue monitored at the end of the last step.
        return
    # CybORG chooses one of Blue's sessions on the host.
    randbelow(s, N_BLUE_SESSIONS[host])
    if kind == ANALYSE:
        # `DensityScout`: only Red's files have a high density.
        s.malware_found = s.has_malware >> host & 1 != 0
    elif kind == REMOVE:
        remove(s, host)
    elif kind == RESTORE:
        restore(s, host)
    elif kind >= FIRST_DECOY:
        set_up_decoy(s, kind - FIRST_DECOY, host)


@compiled
def remove(s: Any, host: int) -> None:
    """`Remove` and `StopProcess`: stop all processes ever caught on the host, except root's."""
    for i in range(s.n_suspicious):
        if s.suspicious_host[i] == host:
            stop_process(s, host, s.suspicious_pid[i])


@compiled
def stop_process(s: Any, host: int, pid: int) -> None:
    """`StopProcess.kill_process`, for a PID that was caught."""
    if host == OT_HOST and pid == OT_PID and s.ot_running:
        return
    previous, process = NO_PROCESS, int(s.first_process[host])
    while process != NO_PROCESS and s.processes[process].pid != pid:
        previous, process = process, int(s.processes[process].next)
    if process == NO_PROCESS or s.processes[process].kind & PRIVILEGED:
        return
    kind = int(s.processes[process].kind)
    remove_process(s, host, process, previous)
    is_service = host == OT_HOST and s.ot_listed_with_pid and pid == OT_PID
    for service in range(N_SERVICES):
        is_service |= s.service_pid[host, service] == pid
    if kind & KIND >= SHELL:
        s.n_red_sessions[host] -= 1
        if is_service:
            # CybORG restarts the session, but confuses the session with its number.
            s.error = CYBORG_FAILS
    elif is_service:
        add_process(s, host, kind)


@compiled
def restore(s: Any, host: int) -> None:
    """`RestoreFromBackup`: remove all that was added to the host, with Red's sessions there.

    The first sessions stay, and Red's own keeps its memory. The backup lists the OT service without
    its PID, so that Red cannot stop the service again.
    """
    remove_all_processes(s, host)
    free_ephemeral_ports(s, host)
    s.n_red_sessions[host] = 0
    s.is_owned &= ~(1 << host)
    s.has_malware &= ~(1 << host)
    for service in range(N_SERVICES):
        s.service_pid[host, service] = 0
    if host == OT_HOST:
        s.ot_running = True
        s.ot_active = True
        s.ot_listed_with_pid = False


@compiled
def set_up_decoy(s: Any, decoy: int, host: int) -> None:
    """`DecoyApache` and the others, with their `is_host_compatible`."""
    if not DECOY_RUNS_ON[decoy, host] or is_using_port(s, host, DECOY_FREE_PORT[decoy]):
        s.blue_success = FALSE
        return
    # CybORG chooses the only factory.
    randbelow(s, 1)
    is_privileged = BLUE_IS_PRIVILEGED[host] or DECOY_IS_PRIVILEGED[decoy]
    pid = add_process(s, host, decoy | (PRIVILEGED if is_privileged else 0))
    # A service keeps the PID of its first process.
    if s.service_pid[host, SERVICE[decoy]] == 0:
        s.service_pid[host, SERVICE[decoy]] = pid
