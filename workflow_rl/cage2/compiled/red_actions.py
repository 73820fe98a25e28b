"""Red's actions: how an action changes the network, what Blue can see, and what Red learns."""

from typing import Any

from workflow_rl.cage2.compiled import hosts, state, tables
from workflow_rl.cage2.compiled.generator import choices_index, randbelow, random
from workflow_rl.cage2.compiled.jit import compiled


@compiled
def act_as_red(s: Any, t: Any) -> None:
    """Follow `Action.sim_execute`, for the action that the red agent has chosen."""
    kind, target = int(s.red_kind), int(s.red_target)
    s.event_host = state.NONE
    s.n_events = 0
    s.event_ports = 0
    s.reverse_shell_seen = False
    s.caught_host = state.NONE
    succeeded = False
    if kind == tables.DISCOVER_SYSTEMS:
        succeeded = discover_remote_systems(s, t, target)
    elif kind == tables.DISCOVER_SERVICES:
        succeeded = discover_network_services(s, t, target)
    elif kind == tables.EXPLOIT:
        succeeded = exploit_remote_service(s, t, target)
    elif kind == tables.ESCALATE:
        succeeded = privilege_escalate(s, t, target)
    elif kind == tables.IMPACT:
        succeeded = impact(s, t, target)
    elif kind == tables.RED_SLEEP:
        s.red_success = tables.UNKNOWN
        return
    s.red_success = tables.TRUE if succeeded else tables.FALSE


@compiled
def is_reachable(s: Any, t: Any, subnet: int) -> bool:
    """Follow `ConcreteAction.check_routable`, from the host of Red's session 0."""
    if t.reach[subnet] != tables.GUARDED:
        return t.reach[subnet] == tables.OPEN
    n_sessions = 0
    for host in range(len(t.subnet)):
        n_sessions += ((t.enterprise >> host) & 1) * s.n_red_sessions[host]
    return n_sessions > 0


@compiled
def show_connection(s: Any, host: int, port: int) -> None:
    """Count a new entry of the host's `events['NetworkConnections']`, and note the entry's port."""
    s.event_host = host
    s.n_events += 1
    s.event_ports |= 1 << port


@compiled
def discover_remote_systems(s: Any, t: Any, subnet: int) -> bool:
    """Follow `Pingsweep`."""
    if not is_reachable(s, t, subnet):
        return False
    s.known_addresses |= t.subnet_mask[subnet]
    s.known_subnets |= 1 << subnet
    return True


@compiled
def discover_network_services(s: Any, t: Any, host: int) -> bool:
    """Follow `Portscan`. A scan of a host that Red cannot reach shows nothing, but succeeds."""
    if not is_reachable(s, t, t.subnet[host]):
        return True
    ports = 0
    for i in range(t.n_listening[host]):
        port = int(t.listening[host, i])
        ports |= 1 << port
        hosts.use_ephemeral_port(s, t, host)
        show_connection(s, host, port)
    process = s.first_process[host]
    while process != state.NO_PROCESS:
        kind = s.processes[process].kind & state.KIND
        if kind < tables.N_DECOY_KINDS:
            port = int(tables.DECOY_PORT[kind])
            ports |= 1 << port
            hosts.use_ephemeral_port(s, t, host)
            show_connection(s, host, port)
        process = s.processes[process].next
    if s.n_events == 0:
        return True
    # In CAGE-1, a scan adds to the ports that Red knows. In CAGE-2, a scan replaces these ports.
    forgets = not t.is_cage1 or not ((s.scanned_by_session >> host) & 1)
    known = 0 if forgets else int(s.known_ports[host])
    s.scanned_by_session |= 1 << host
    s.known_ports[host] = known | (ports & int(t.exploits))
    return True


@compiled
def exploit_remote_service(s: Any, t: Any, host: int) -> bool:
    """Follow `ExploitRemoteService` with its `DefaultExploitActionSelector`."""
    if not ((s.scanned_by_session >> host) & 1):
        return False
    exploit = choose_exploit(s, int(s.known_ports[host]))
    if exploit == state.NONE or not is_reachable(s, t, t.subnet[host]):
        return False
    if exploit == tables.SSH_BRUTE_FORCE:
        return ssh_brute_force(s, t, host)
    return exploit_service(s, t, host, exploit)


@compiled
def choose_exploit(s: Any, ports: int) -> int:
    """Follow `DefaultExploitActionSelector.get_exploit_action`, for a mask of ports.

    CybORG uses the weights of exploits only to rank them. Red takes the best exploit with
    probability ODDS_OF_TOP_CHOICE, or else draws another exploit. Return NONE if no port of the
    mask has an exploit."""
    options = ports
    if not (ports & tables.WEB_PORTS):
        options &= ~(1 << tables.SQL_INJECTION)
    n_options, top = 0, state.NONE
    # The loop meets the best exploit last.
    for i in range(tables.N_EXPLOITS - 1, -1, -1):
        exploit = int(tables.PREFERENCE[i])
        if (options >> exploit) & 1:
            n_options += 1
            top = exploit
    if n_options < 2:
        return top
    # CybORG draws the other exploit first, even if Red then takes the best.
    index = choices_index(s, n_options - 1)
    if random(s) < tables.ODDS_OF_TOP_CHOICE:
        return top
    options &= ~(1 << top)
    # Among the options that are left, find the one with this index.
    exploit = 0
    while index or not ((options >> exploit) & 1):
        index -= (options >> exploit) & 1
        exploit += 1
    return exploit


@compiled
def exploit_service(s: Any, t: Any, host: int, exploit: int) -> bool:
    """Follow `ExploitAction.sim_exploit`, for all exploits except SSHBruteForce.

    exploit: the exploit's number, which is also the number of the port that it attacks."""
    vulnerability = t.vulnerability[host, exploit]
    as_root = vulnerability == tables.VULNERABLE_AS_ROOT
    kind = state.SHELL
    if vulnerability == tables.NOT_VULNERABLE:
        decoy = hosts.decoy_on_port(s, host, exploit, tables.N_DECOYS)
        if decoy == state.NO_PROCESS:
            return False
        hosts.use_ephemeral_port(s, t, host)
        show_connection(s, host, exploit)
        if (t.decoys_fail[host] >> exploit) & 1:
            return False
        if not t.is_cage1:
            show_connection(s, host, exploit)
            return False
        # In CAGE-1, a decoy gives Red a session in the decoy's sandbox.
        as_root = (s.processes[decoy].kind & state.PRIVILEGED) != 0
        kind = state.SHELL | state.SANDBOX
    else:
        hosts.use_ephemeral_port(s, t, host)
        show_connection(s, host, exploit)
        if vulnerability == tables.PATCHED:
            return False
    # The session connects back to Red from another port of the host.
    hosts.use_ephemeral_port(s, t, host)
    if as_root:
        kind |= state.PRIVILEGED
    pid = hosts.add_process(s, t, host, kind)
    s.has_malware |= 1 << host
    start_session(s, host, as_root)
    if random(s) < tables.DETECTION_RATE:
        show_connection(s, host, tables.EPHEMERAL)
        s.reverse_shell_seen = True
        s.caught_host = host
        n = int(s.n_suspicious)
        if n == len(s.suspicious_pid):
            s.error = state.TOO_MANY_SUSPICIOUS_PIDS
        else:
            # CybORG notes the PID at the end of the step: Blue's Monitor calls `add_sus_pids`.
            s.suspicious_host[n] = host
            s.suspicious_pid[n] = pid
            s.n_suspicious = n + 1
    return True


@compiled
def ssh_brute_force(s: Any, t: Any, host: int) -> bool:
    """Follow `SSHBruteForce`."""
    is_service = t.vulnerability[host, tables.SSH_BRUTE_FORCE] != tables.NOT_VULNERABLE
    if not is_service and not hosts.has_decoy_on_port(s, host, tables.SSH_PORT, tables.N_DECOYS):
        return False
    # In CAGE-1, a decoy gives Red a session in the decoy's sandbox. In CAGE-2, a decoy gives none.
    in_sandbox = not is_service and t.is_cage1
    for _ in range(tables.WORDS_OF_BRUTE_FORCE):
        hosts.use_ephemeral_port(s, t, t.red_host)
        show_connection(s, host, tables.SSH_PORT)
    if not (is_service or in_sandbox) or not t.bruteforceable[host]:
        return False
    as_root = t.bruteforceable[host] == tables.VULNERABLE_AS_ROOT
    kind = state.SSH
    if in_sandbox:
        kind |= state.SANDBOX
    if as_root:
        kind |= state.PRIVILEGED
    hosts.add_process(s, t, host, kind)
    start_session(s, host, as_root)
    hosts.use_ephemeral_port(s, t, host)
    show_connection(s, host, tables.SSH_PORT)
    return True


@compiled
def start_session(s: Any, host: int, as_root: bool) -> None:
    """Follow `State.add_session`. From now on, Red knows the host's name."""
    s.n_red_sessions[host] += 1
    if as_root:
        s.is_owned |= 1 << host
    s.known_hostnames |= 1 << host


@compiled
def privilege_escalate(s: Any, t: Any, host: int) -> bool:
    """Follow `PrivilegeEscalate` with `JuicyPotato` or `V4L2KernelExploit`, then `ExploreHost`.

    On Red's own host, Red has a privileged session from the start."""
    if host != t.red_host and not ((s.is_owned >> host) & 1):
        if s.n_red_sessions[host] == 0:
            return False
        session = hosts.red_session(s, host, randbelow(s, s.n_red_sessions[host]))
        if s.processes[session].kind & state.SANDBOX:
            hosts.remove_process(s, host, session, hosts.process_before(s, host, session))
            s.n_red_sessions[host] -= 1
            return False
        s.processes[session].kind |= state.PRIVILEGED
        s.is_owned |= 1 << host
        s.has_malware |= 1 << host
    s.known_addresses |= t.explored_addresses[host]
    s.known_subnets |= t.explored_subnets[host]
    if t.shows_ot_service[host]:
        s.knows_ot_service = True
    return True


@compiled
def impact(s: Any, t: Any, host: int) -> bool:
    """Follow `Impact` with `StopService`. An Impact on a service that is not active also succeeds,
    but has no effect."""
    if host != t.red_host:
        if s.n_red_sessions[host] == 0:
            return False
        # If Red has no privileged session on the host, CybORG draws one of Red's sessions.
        if not ((s.is_owned >> host) & 1):
            randbelow(s, s.n_red_sessions[host])
    service = t.ot_number[host]
    if not s.knows_ot_service or service == tables.NONE:
        return False
    if s.ot_active[service]:
        s.ot_active[service] = False
        if s.ot_listed_with_pid[service]:
            s.ot_running[service] = False
    return True
