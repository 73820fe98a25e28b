"""What red agents do. Follows all classes of red actions except the exploits."""

from typing import Any

from workflow_rl.cage4.compiled import actions, constants, hosts, state
from workflow_rl.cage4.compiled.cells import append_cell, free_whole_list, new_cell
from workflow_rl.cage4.compiled.exploits import exploit_host
from workflow_rl.cage4.compiled.generator import below, random
from workflow_rl.cage4.compiled.jit import compiled, int64
from workflow_rl.cage4.compiled.red_sessions import index_of
from workflow_rl.cage4.scenario.scenario4 import FALSE, TRUE

DECOY_RATE, FALSE_DECOY_RATE = 0.5, 0.1
DEGRADATION = 20


@compiled
def act_as_red(s: Any, agent: int) -> None:
    """Execute an agent's action, and note what the agent observes."""
    kind, target = int64(s.red_done[agent]), int64(s.red_target[agent])
    s.seen_kind[agent] = kind
    s.seen_target[agent] = target
    if kind == actions.INVALID:
        s.seen_success[agent] = FALSE
        return
    if kind == actions.DISCOVER:
        succeeded = discover(s, agent, target)
    elif kind == actions.AGGRESSIVE_SCAN:
        succeeded = scan(s, agent, target, s.scenario.aggressive_scan_detection)
    elif kind == actions.STEALTH_SCAN:
        succeeded = scan(s, agent, target, s.scenario.stealth_scan_detection)
    elif kind == actions.EXPLOIT:
        succeeded = exploit_host(s, agent, target)
    elif kind == actions.ESCALATE:
        succeeded = escalate(s, agent, target)
    elif kind == actions.DEGRADE:
        succeeded = degrade(s, agent, target)
    elif kind == actions.DECEPTION:
        succeeded = discover_deception(s, agent, target)
    elif kind == actions.IMPACT:
        succeeded = impact(s, agent, target)
    elif kind == actions.WITHDRAW:
        succeeded = withdraw(s, agent, int64(s.red_hostname[agent]))
    else:
        return  # Sleep's outcome is unknown.
    s.seen_success[agent] = TRUE if succeeded else FALSE


@compiled
def own_session(s: Any, agent: int) -> int:
    """Return the index of the session that an agent acts with, or -1."""
    return index_of(s, agent, int64(s.red_session[agent]))


@compiled
def discover(s: Any, agent: int, zone: int) -> bool:
    """`DiscoverRemoteSystems`. The agent observes the hosts only in a zone of its own."""
    if own_session(s, agent) < 0:
        return False
    s.sees_target[agent] = constants.RED_OF_ZONE[zone] == agent
    return True


@compiled
def scan(s: Any, agent: int, host: int, rate: float) -> bool:
    """`DiscoverNetworkServices` and `Portscan`: find the ports on which the processes listen."""
    i = own_session(s, agent)
    if i < 0 or s.sessions[agent, i].type != constants.ABSTRACT:
        return False
    source = int64(s.sessions[agent, i].host)
    if (s.blocked[constants.ZONE[host]] >> constants.ZONE[source]) & 1:
        return False
    # One draw decides for all ports whether Blue sees the scan.
    draw = random(s)
    ports = 0
    process = int64(s.processes[host])
    while process != 0:
        kind = s.cells[process].kind
        port = constants.LISTENS_ON[kind]
        if port != 0:
            cell = new_cell(s)
            s.cells[cell].local_port = port
            ports = append_cell(s, ports, cell)
            is_decoy = constants.DECOY_APACHE <= kind <= constants.DECOY_VSFTPD
            if draw <= rate or is_decoy:
                hosts.see_connection(s, host, host, port, source, hosts.draw_port(s, host))
        process = int64(s.cells[process].next)
    if ports != 0:
        s.sees_target[agent] = True
        keep_scan(s, agent, i, host, ports)
    return True


@compiled
def keep_scan(s: Any, agent: int, i: int, host: int, ports: int) -> None:
    """Store a host's open ports in session i, instead of the ports from an earlier scan."""
    found = int64(s.sessions[agent, i].scans)
    while found != 0 and s.cells[found].local_host != host:
        found = int64(s.cells[found].next)
    if found == 0:
        found = new_cell(s)
        s.cells[found].local_host = host
        s.sessions[agent, i].scans = append_cell(s, int64(s.sessions[agent, i].scans), found)
    else:
        free_whole_list(s, int64(s.cells[found].first))
    s.cells[found].first = ports


@compiled
def discover_deception(s: Any, agent: int, host: int) -> bool:
    """`DiscoverDeception`. Exploits do not use the decoys that the agent finds."""
    if own_session(s, agent) < 0:
        return False
    process = int64(s.processes[host])
    while process != 0:
        is_decoy = constants.DECOY_APACHE <= s.cells[process].kind <= constants.DECOY_VSFTPD
        is_found = random(s) <= DECOY_RATE and is_decoy
        # CybORG draws a second number if the first draw found no decoy.
        if is_found or (random(s) <= FALSE_DECOY_RATE and not is_decoy):
            s.sees_target[agent] = True
        process = int64(s.cells[process].next)
    return True


@compiled
def privileged_session(s: Any, agent: int, host: int) -> int:
    """Return the index of the agent's first root session on a host, or -1."""
    for i in range(int64(s.n_sessions[agent])):
        if s.sessions[agent, i].host == host and s.sessions[agent, i].user == constants.ROOT:
            return i
    return -1


@compiled
def escalate(s: Any, agent: int, host: int) -> bool:
    """`PrivilegeEscalate`, with `V4L2KernelExploit` and `ExploreHost`."""
    n_here = 0
    for i in range(int64(s.n_sessions[agent])):
        n_here += s.sessions[agent, i].host == host
    if n_here == 0:
        return False
    acting = own_session(s, agent)
    chosen = privileged_session(s, agent, host)
    if chosen < 0:
        # Choose the session that has `n_before` of the agent's sessions on the host before it.
        # CybORG draws this number even if the acting session cannot escalate.
        n_before = below(s, n_here)
        chosen = 0
        while n_before > 0 or s.sessions[agent, chosen].host != host:
            n_before -= s.sessions[agent, chosen].host == host
            chosen += 1
        if acting < 0 or s.sessions[agent, acting].type != constants.ABSTRACT:
            return False
        s.sessions[agent, chosen].user = constants.ROOT
        process = hosts.process_of(s, host, int64(s.sessions[agent, chosen].pid))
        s.cells[process].user = constants.ROOT
        hosts.add_file(s, host, constants.ESCALATE_FILE)
    s.sees_target[agent] = True
    s.seen_session[agent] = s.sessions[agent, chosen].ident
    s.seen_abstract[agent] = s.sessions[agent, chosen].type == constants.ABSTRACT
    if acting >= 0 and constants.PLACE[host] == constants.FIRST_SERVER:
        s.sees_links[agent] = True
    return True


@compiled
def degrade(s: Any, agent: int, host: int) -> bool:
    """`DegradeServices`."""
    if privileged_session(s, agent, host) < 0:
        return False
    succeeded = False
    for i in range(int64(s.n_services[host])):
        if s.service_active[host, i]:
            succeeded = True
            s.reliability[host, i] = max(0, int64(s.reliability[host, i]) - DEGRADATION)
            if hosts.process_of(s, host, int64(s.service_pid[host, i])) == 0:
                s.error = state.NO_PROCESS_OF_SERVICE
    if succeeded:
        s.sees_target[agent] = True
    return succeeded


@compiled
def impact(s: Any, agent: int, host: int) -> bool:
    """`Impact` and `StopService`. If the acting session is gone, `impact_count` rises, but the
    service does not stop."""
    if privileged_session(s, agent, host) < 0:
        return False
    for i in range(int64(s.n_services[host])):
        if s.service_kind[host, i] == constants.OT_SERVICE and s.service_active[host, i]:
            s.sees_target[agent] = True
            s.impact_count[host] += 1
            process = hosts.process_of(s, host, int64(s.service_pid[host, i]))
            if process == 0:
                s.error = state.NO_PROCESS_OF_SERVICE
                return False
            if own_session(s, agent) < 0:
                return False
            s.service_active[host, i] = False
            hosts.remove_process(s, host, process)
            hosts.free_process(s, process)
            return True
    return False


@compiled
def withdraw(s: Any, agent: int, host: int) -> bool:
    """`Withdraw`: end the agent's sessions on a host: first the sessions with a parent, then those
    without a parent except session 0, then the acting session."""
    acting = int64(s.red_session[agent])
    i = index_of(s, agent, acting)
    if i < 0:
        return False
    own_host, own_pid = int64(s.sessions[agent, i].host), int64(s.sessions[agent, i].pid)
    # Ids and PIDs in the order in which the sessions end.
    ending = 0
    for with_parent in (True, False):
        for j in range(int64(s.n_sessions[agent])):
            session = s.sessions[agent, j]
            has_parent = session.parent != constants.NO_PARENT
            is_first = not has_parent and session.ident == 0
            if session.host == host and has_parent == with_parent and not is_first:
                cell = ending_cell(s, int64(session.ident), int64(session.pid))
                ending = append_cell(s, ending, cell)
    if own_host == host:
        ending = append_cell(s, ending, ending_cell(s, acting, own_pid))
    if ending == 0:
        return False
    succeeded = True
    cell = ending
    while cell != 0 and succeeded:
        acting_exists = index_of(s, agent, acting) >= 0
        ending_exists = index_of(s, agent, int64(s.cells[cell].local_port)) >= 0
        succeeded = (
            acting_exists
            and ending_exists
            and hosts.stop_process(s, host, int64(s.cells[cell].pid), True)
        )
        cell = int64(s.cells[cell].next)
    free_whole_list(s, ending)
    return succeeded


@compiled
def ending_cell(s: Any, ident: int, pid: int) -> int:
    """Return a cell that holds a session's id, as `local_port`, and its PID."""
    cell = new_cell(s)
    s.cells[cell].local_port = ident
    s.cells[cell].pid = pid
    return cell
