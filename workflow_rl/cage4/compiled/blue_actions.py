"""What blue agents do. Follows CybORG's blue actions, `Monitor` and `RestoreFromBackup`."""

from typing import Any

from workflow_rl.cage4.compiled import actions, constants, hosts
from workflow_rl.cage4.compiled.cells import free_whole_list, new_cell
from workflow_rl.cage4.compiled.generator import below
from workflow_rl.cage4.compiled.jit import compiled, int64
from workflow_rl.cage4.compiled.red_sessions import forget_session, index_of


@compiled
def act_as_blue(s: Any, agent: int) -> None:
    """Execute an agent's action. Block and Allow are executed earlier: see `control_traffic`."""
    kind, host = s.blue_done[agent], int64(s.blue_target[agent])
    if kind == actions.MONITOR:
        monitor(s, agent)
    elif kind == actions.ANALYSE:
        s.blue_result[agent] = files_on(s, host)
    elif kind == actions.REMOVE:
        remove(s, host)
    elif kind == actions.RESTORE:
        restore(s, host)
    elif kind == actions.DECOY:
        s.blue_result[agent] = deploy_decoy(s, host)


@compiled
def control_traffic(s: Any, agent: int) -> None:
    """`BlockTrafficZone` and `AllowTrafficZone`."""
    kind = s.blue_done[agent]
    to, source = int64(s.blue_target[agent]), int64(s.blue_source[agent])
    is_blocked = (s.blocked[to] >> source) & 1
    n = int64(s.n_blocked[to])
    # An action changes something if it blocks an open way, or opens a blocked way.
    s.blue_result[agent] = (kind == actions.BLOCK) != is_blocked
    if kind == actions.BLOCK and not is_blocked:
        is_listed = False
        for i in range(int64(s.n_blocking)):
            is_listed |= s.blocking[i] == to
        if not is_listed:
            s.blocking[s.n_blocking] = to
            s.n_blocking += 1
        s.blocked[to] |= 1 << source
        s.blocked_order[to, n] = source
        s.n_blocked[to] = n + 1
    elif kind == actions.ALLOW and is_blocked:
        s.blocked[to] ^= 1 << source
        s.n_blocked[to] = n - 1
        i = 0
        while s.blocked_order[to, i] != source:
            i += 1
        for j in range(i, n - 1):
            s.blocked_order[to, j] = s.blocked_order[to, j + 1]


@compiled
def monitor(s: Any, agent: int) -> None:
    """`Monitor` on all of an agent's hosts. The host of the agent's parent session comes last."""
    first = constants.FIRST_ZONE_OF_BLUE[agent]
    parent = int64(s.blue_parent[agent])
    end = first + constants.N_ZONES_OF_BLUE[agent]
    for host in range(first * constants.PLACES, end * constants.PLACES):
        if s.has_events[host] and host != parent:
            monitor_host(s, agent, host)
    if s.has_events[parent]:
        monitor_host(s, agent, parent)


@compiled
def monitor_host(s: Any, agent: int, host: int) -> None:
    """`Monitor` on one host: note suspicious PIDs, and make the events old."""
    event = int64(s.events[host, hosts.PROCESSES])
    while event != 0:
        if s.cells[event].pid != 0:
            suspect(s, agent, host, int64(s.cells[event].pid))
        event = int64(s.cells[event].next)
    hosts.make_old(s, host, hosts.CONNECTIONS)
    hosts.make_old(s, host, hosts.PROCESSES)


@compiled
def suspect(s: Any, agent: int, host: int, pid: int) -> None:
    """`add_sus_pids`."""
    cell = new_cell(s)
    s.cells[cell].pid = pid
    if s.suspicious[host] == 0:
        s.suspicious[host] = cell
        s.suspicious_order[agent, s.n_suspicious[agent]] = host
        s.n_suspicious[agent] += 1
    else:
        s.cells[s.last_suspicious[host]].next = cell
    s.last_suspicious[host] = cell


@compiled
def files_on(s: Any, host: int) -> int:
    """`Analyse`. Return bit 0 if cmd.sh is there, bit 1 if escalate.sh is there, and bit 2 if
    escalate.sh is the last file."""
    found = 0
    cell = int64(s.files[host])
    while cell != 0:
        kind = int64(s.cells[cell].kind)
        found = (found & 3) | (1 << kind) | (kind << 2)
        cell = int64(s.cells[cell].next)
    return found


@compiled
def remove(s: Any, host: int) -> None:
    """`Remove`: stop the processes whose PIDs were ever suspicious, except root's processes."""
    suspicion = int64(s.suspicious[host])
    while suspicion != 0:
        hosts.stop_process(s, host, int64(s.cells[suspicion].pid), False)
        suspicion = int64(s.cells[suspicion].next)


@compiled
def restore(s: Any, host: int) -> None:
    """`RestoreFromBackup`. The host's blue session becomes the last of its agent's sessions."""
    agent = constants.BLUE_OF_ZONE[constants.ZONE[host]]
    order = s.blue_order[agent]
    n = int64(s.n_blue_sessions[agent])
    i = 0
    while order[i] != host:
        i += 1
    for j in range(i, n - 1):
        order[j] = order[j + 1]
    order[n - 1] = host
    take_red_sessions(s, host)
    for which in range(hosts.OLD_PROCESSES + 1):
        hosts.free_events(s, host, which)
    free_whole_list(s, int64(s.files[host]))
    s.files[host] = 0
    cell = int64(s.processes[host])
    while cell != 0:
        following = int64(s.cells[cell].next)
        hosts.free_process(s, cell)
        cell = following
    s.processes[host] = 0
    hosts.rebuild(s, host)
    s.port_bits[host, :] = 0
    s.first_log[host] = s.n_log


@compiled
def take_red_sessions(s: Any, host: int) -> None:
    """Remove the red sessions of a host. The sessions still count in `sessions_count`."""
    cell = int64(s.red_sessions[host])
    while cell != 0:
        agent, ident = int64(s.cells[cell].kind), int64(s.cells[cell].pid)
        forget_session(s, agent, index_of(s, agent, ident))
        cell = int64(s.cells[cell].next)
    free_whole_list(s, int64(s.red_sessions[host]))
    s.red_sessions[host] = 0


@compiled
def deploy_decoy(s: Any, host: int) -> int:
    """`DeployDecoy`: start one of the decoys whose ports are free on the host. Return its PID.
    Vsftpd can always be drawn, because its port is not checked."""
    web, tls, mail = False, False, False
    cell = int64(s.processes[host])
    while cell != 0:
        port = constants.LISTENS_ON[s.cells[cell].kind]
        web |= port == 80
        tls |= port == 443
        mail |= port == 25
        cell = int64(s.cells[cell].next)
    n_options = (not web) + (not tls) + (not mail) + 1
    chosen = below(s, n_options)
    kind = constants.DECOY_VSFTPD
    for option, is_taken in (
        (constants.DECOY_APACHE, web),
        (constants.DECOY_TOMCAT, tls),
        (constants.DECOY_HARAKA, mail),
    ):
        if not is_taken:
            if chosen == 0:
                kind = option
            chosen -= 1
    pid = hosts.draw_pid(s, host)
    hosts.add_process(s, host, kind, pid, constants.UBUNTU)
    hosts.set_service(s, host, kind, pid)
    return pid
