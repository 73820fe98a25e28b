"""CybORG's true state as lists, made from a network's record, to compare two simulators.

See `cyborg.true_state` for the lists. The constants below are what the record lacks: names, and
facts that are equal in all episodes."""

from collections import namedtuple
from collections.abc import Iterator
from typing import Any

from workflow_rl.cage4.compiled import constants
from workflow_rl.cage4.compiled.actions import BLUE_ACTIONS, RED_ACTIONS
from workflow_rl.cage4.compiled.hosts import CONNECTIONS, OLD_CONNECTIONS, OLD_PROCESSES, PROCESSES
from workflow_rl.cage4.compiled.red_tables import RANDOM_SELECT, SLEEPING, STATES
from workflow_rl.cage4.compiled.state import CELL, SESSION
from workflow_rl.cage4.scenario.scenario4 import HOST_NAMES, ZONES

PROCESS_NAMES = (
    "SSHD",
    "OTSERVICE",
    "APACHE2",
    "MYSQLD",
    "SMTP",
    "apache2",
    "Tomcat.exe",
    "haraka",
    "vsftpd",
    "UNKNOWN",
    "VELOCIRAPTOR_SERVER",
    "GREY_SESSION",
    "RED_ABSTRACT_SESSION",
    "cmd.sh",
)
SERVICE_NAMES = (*PROCESS_NAMES[:6], "tomcat", *PROCESS_NAMES[7:9])
SERVICE_TYPES = ("SSH", "UNKNOWN", "WEBSERVER", "MYSQL", "SMTP")
DECOY_TYPES = ("WEBSERVER", "WEBSERVER", "SMTP", "WEBSERVER")
# The processes of the four kinds of sessions have no type.
TYPES = (*SERVICE_TYPES, *DECOY_TYPES, None, None, None, None, "UNKNOWN")
USERS = ("user", "ubuntu", "root")
FILES = ("cmd.sh", "escalate.sh")
DENSITY = 0.9
EXPLOIT_DECOY = 2
ZONE_OF, PORTS = constants.ZONE.tolist(), constants.LISTENS_ON.tolist()
SESSION_TYPES = ("RED_ABSTRACT_SESSION", "SSH", "RED_REVERSE_SHELL")
Cell: Any = namedtuple("Cell", CELL.names or ())  # type: ignore[misc]
Session: Any = namedtuple("Session", SESSION.names or ())  # type: ignore[misc]
"""The fields of `state.CELL` and `state.SESSION`, as plain numbers."""
NOT_SHOWN = ("cells", "sessions", "port_bits", "log_host", "log_port", "knows_id")


def true_state(state: Any) -> list[Any]:
    # Python reads plain numbers ten times as fast as numbers in a record.
    s = {name: state[name].tolist() for name in state.dtype.names if name not in NOT_SHOWN}
    s["cells"] = state["cells"][: s["n_cells"]].tolist()
    s["sessions"] = [
        [Session._make(session) for session in sessions[:n].tolist()]
        for sessions, n in zip(state["sessions"], s["n_sessions"], strict=True)
    ]
    hosts = [host for host in range(constants.N_HOSTS) if s["exists"][host]]
    used: dict[int, list[int]] = {host: [] for host in hosts}
    n = s["n_log"]
    drawn = zip(state["log_host"][:n].tolist(), state["log_port"][:n].tolist(), strict=True)
    for i, (host, port) in enumerate(drawn):
        if i >= s["first_log"][host]:
            used[host].append(port)
    blocks = []
    for to in s["blocking"][: s["n_blocking"]]:
        sources = _listed(s, "blocked_order", "n_blocked", to)
        blocks.append([ZONES[to], [ZONES[source] for source in sources]])
    greens = []
    for i in range(s["n_greens"]):
        greens.append([f"green_agent_{i}", True, None, None, None, None, None])
    return [
        [_host(s, host, used[host]) for host in hosts],
        [*_blue_sessions(s), *_green_sessions(s), *_red_sessions(s)],
        [*_blue_agents(s), *greens, *_red_agents(s)],
        blocks,
        s["phase"],
        s["step_count"],
    ]


def _listed(s: Any, name: str, count: str, i: int) -> list[int]:
    """Return the entries in use of list i. name, count: the fields of the lists and their sizes."""
    entries: list[int] = s[name][i]
    return entries[: s[count][i]]


def address(s: Any, host: int) -> str:
    return f"10.0.{s['zone_octet'][ZONE_OF[host]]}.{s['host_octet'][host]}"


def _cells(s: Any, first: int) -> Iterator[Any]:
    while first:
        cell: Any = Cell._make(s["cells"][first])
        yield cell
        first = cell.next


def _host(s: Any, host: int, used: list[int]) -> list[Any]:
    services = [
        [
            SERVICE_NAMES[s["service_kind"][host][i]],
            s["service_pid"][host][i],
            bool(s["service_active"][host][i]),
            s["reliability"][host][i],
        ]
        for i in range(s["n_services"][host])
    ]
    events = s["events"][host]
    return [
        HOST_NAMES[host],
        [address(s, host)],
        [_process(s, cell) for cell in _cells(s, s["processes"][host])],
        services,
        _sessions_on(s, host),
        [[FILES[cell.kind], DENSITY] for cell in _cells(s, s["files"][host])],
        [_connection(s, cell) for cell in _cells(s, events[CONNECTIONS])],
        [_connection(s, cell) for cell in _cells(s, events[OLD_CONNECTIONS])],
        [_process_event(s, cell) for cell in _cells(s, events[PROCESSES])],
        [_process_event(s, cell) for cell in _cells(s, events[OLD_PROCESSES])],
        used,
        s["impact_count"][host],
    ]


def _process(s: Any, cell: Any) -> list[Any]:
    kind = cell.kind
    is_decoy = constants.DECOY_APACHE <= kind <= constants.DECOY_VSFTPD
    version = {constants.SMTP: "HARAKA_2_8_9", constants.DECOY_HARAKA: "HARAKA_2_7_0"}.get(kind)
    connections: list[Any] = []
    if PORTS[kind]:
        connections.append(["0.0.0.0", PORTS[kind], None, None, None])
    connections += [_connection(s, connection) for connection in _cells(s, cell.first)]
    parent_pid = 1 if is_decoy or kind == constants.SHELL else None
    return [
        PROCESS_NAMES[kind],
        cell.pid,
        parent_pid,
        USERS[cell.user],
        TYPES[kind],
        version,
        EXPLOIT_DECOY if is_decoy else 0,
        ["rfi"] if is_decoy and kind != constants.DECOY_HARAKA else [],
        connections,
    ]


def _connection(s: Any, cell: Any) -> list[Any]:
    return [
        address(s, cell.local_host),
        cell.local_port or None,
        address(s, cell.remote_host),
        cell.remote_port or None,
        None,
    ]


def _process_event(s: Any, cell: Any) -> list[Any]:
    local: list[Any] = [["local_address", address(s, cell.local_host)]]
    local.append(["local_port", cell.local_port])
    if not cell.pid:
        return local
    remote = ["remote_address", address(s, cell.remote_host)]
    connection = [*local, remote, ["remote_port", cell.remote_port]]
    return [["pid", cell.pid], ["Connections", [connection]]]


def _sessions_on(s: Any, host: int) -> list[Any]:
    sessions: list[Any] = []
    for agent in range(constants.N_BLUE):
        if host in _listed(s, "blue_order", "n_blue_sessions", agent):
            sessions.append([f"blue_agent_{agent}", [s["blue_ident"][host]]])
    for i in range(s["n_greens"]):
        if s["green_host"][i] == host:
            sessions.append([f"green_agent_{i}", [0]])
    cells = list(_cells(s, s["red_sessions"][host]))
    for agent in range(constants.N_RED):
        idents = [cell.pid for cell in cells if cell.kind == agent]
        if idents:
            sessions.append([f"red_agent_{agent}", idents])
    return sessions


def blue_pid(s: Any, host: int) -> int:
    place = (host % constants.PLACES) - constants.FIRST_USER
    # On a user's host, the green session's process started after the blue session's process.
    is_user = 0 <= place < s["n_users"][ZONE_OF[host]]
    from_end = 2 if is_user else 1
    return int(s["original_pid"][host][s["n_original"][host] - from_end])


def _blue_sessions(s: Any) -> Iterator[list[Any]]:
    for agent in range(constants.N_BLUE):
        hosts = _listed(s, "blue_order", "n_blue_sessions", agent)
        suspicious = [
            [HOST_NAMES[host], [cell.pid for cell in _cells(s, s["suspicious"][host])]]
            for host in _listed(s, "suspicious_order", "n_suspicious", agent)
        ]
        sessions = []
        for host in hosts:
            ident = s["blue_ident"][host]
            is_parent = ident == 0
            sessions.append(
                [
                    ident,
                    ident,
                    HOST_NAMES[host],
                    "ubuntu",
                    "VELOCIRAPTOR_SERVER" if is_parent else "UNKNOWN",
                    None if is_parent else 0,
                    blue_pid(s, host),
                    True,
                    list(range(1, len(hosts))) if is_parent else [],
                    "VelociraptorServer" if is_parent else "Session",
                    None,
                    suspicious if is_parent else None,
                ]
            )
        yield [f"blue_agent_{agent}", len(hosts), sessions]


def _green_sessions(s: Any) -> Iterator[list[Any]]:
    for i in range(s["n_greens"]):
        host = s["green_host"][i]
        # The green session's process is last, except on the host where red begins.
        pid = s["original_pid"][host][s["original_kind"][host].index(constants.GREEN_SESSION)]
        session = [0, 0, HOST_NAMES[host], "ubuntu", "GREY_SESSION", None, pid, True, [], "Session"]
        session += [None, None]
        yield [f"green_agent_{i}", 1, [session]]


def _red_sessions(s: Any) -> Iterator[list[Any]]:
    for agent in range(constants.N_RED):
        sessions = []
        for session in s["sessions"][agent]:
            is_abstract = session.type == constants.ABSTRACT
            scans = [
                [
                    address(s, scan.local_host),
                    [cell.local_port for cell in _cells(s, scan.first)],
                ]
                for scan in _cells(s, session.scans)
            ]
            parent = session.parent
            sessions.append(
                [
                    session.ident,
                    session.ident,
                    HOST_NAMES[session.host],
                    USERS[session.user],
                    SESSION_TYPES[session.type],
                    None if parent == constants.NO_PARENT else parent,
                    session.pid,
                    True,
                    [cell.pid for cell in _cells(s, session.children)],
                    "RedAbstractSession" if is_abstract else "Session",
                    scans if is_abstract else None,
                    None,
                ]
            )
        yield [f"red_agent_{agent}", s["sessions_count"][agent], sessions]


def _blue_agents(s: Any) -> Iterator[list[Any]]:
    for agent in range(constants.N_BLUE):
        ticks = s["blue_ticks"][agent]
        busy = [BLUE_ACTIONS[s["blue_kind"][agent]], ticks] if ticks else None
        yield [f"blue_agent_{agent}", True, busy, None, None, None, None]


def _red_agents(s: Any) -> Iterator[list[Any]]:
    for agent in range(constants.N_RED):
        ticks = s["red_ticks"][agent]
        steps = s["red_steps"][agent]
        hosts = [
            [
                address(s, host),
                [
                    ["state", STATES[s["host_state"][agent][host]]],
                    ["hostname", HOST_NAMES[host] if s["named"][agent][host] else None],
                ],
            ]
            for host in _listed(s, "hosts", "n_hosts", agent)
        ]
        busy = [RED_ACTIONS[s["red_kind"][agent]], ticks] if ticks else None
        zones = []
        for zone, octet in enumerate(s["zone_octet"]):
            is_known = bool((s["known_zones"][agent] >> zone) & 1)
            zones.append([f"10.0.{octet}.0/24", is_known])
        yield [
            f"red_agent_{agent}",
            bool(s["is_active"][agent]),
            busy,
            [[ident, True] for ident in _listed(s, "ids", "n_ids", agent)],
            zones,
            hosts if s["red_class"] not in (RANDOM_SELECT, SLEEPING) else None,
            steps if s["red_class"] != SLEEPING else None,
        ]
