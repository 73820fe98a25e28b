"""Scenario 2 as tables: all that never changes, computed once from `scenario2`.

Hosts are numbered as in `HOSTS`, subnets as in the scenario. A set of hosts or of ports is a bit
mask. Ports are numbered by `PORTS`: first those of the eight exploits, in the order in which
CybORG's `DefaultExploitActionSelector` lists them, so that exploit e attacks port e.
"""

from __future__ import annotations

from ipaddress import IPv4Address, IPv4Network
from typing import Any

import numpy as np
from numpy.typing import NDArray

from workflow_rl.cage2 import scenario2

N_HOSTS = len(scenario2.HOSTS)
SCENARIO = scenario2.scenario2()
SUBNETS = tuple(SCENARIO["Subnets"])
N_SUBNETS = len(SUBNETS)
NETWORK = IPv4Network("10.0.0.0/16")
N_POSSIBLE_SUBNETS = 4096
N_ADDRESSES = 14

# --- Exploits and ports --------------------------------------------------------------------------

ETERNAL_BLUE, BLUE_KEEP, HTTP_RFI, HTTPS_RFI, SSH_BRUTE_FORCE, SQL_INJECTION, HARAKA_RCE, FTP = (
    range(8)
)
N_EXPLOITS = 8
# The process each exploit looks for.
EXPLOITED_TYPES = ("smb", "rdp", "webserver", "webserver", "ssh", "mysql", "smtp", "femitter")
PORTS = (139, 3389, 80, 443, 22, 3390, 25, 21, 135, 445, 53, 68)
SSH_PORT = SSH_BRUTE_FORCE
EPHEMERAL = len(PORTS)
FIRST_EPHEMERAL, N_EPHEMERAL = 49152, 60000 - 49152
# From the most to the least preferred exploit.
PREFERENCE = np.array(
    [FTP, HARAKA_RCE, SQL_INJECTION, HTTPS_RFI, HTTP_RFI, ETERNAL_BLUE, BLUE_KEEP, SSH_BRUTE_FORCE]
)
WORDS_OF_BRUTE_FORCE = 10
DETECTION_RATE = 0.95
ODDS_OF_TOP_CHOICE = 0.75
N_PIDS = 32768

# --- Hosts ---------------------------------------------------------------------------------------

PRIVILEGED_USERS = ("root", "SYSTEM")
WORTH_IN_TENTHS = {"None": 0, "Low": 1, "Medium": 10, "High": 100}
NOT_VULNERABLE, VULNERABLE, VULNERABLE_AS_ROOT = range(3)


def _index(hostname: str) -> int:
    return scenario2.HOSTS.index(hostname)


def _mask(part_of_name: str) -> int:
    return sum(1 << i for i, name in enumerate(scenario2.HOSTS) if part_of_name in name)


def _process_type(process: dict[str, Any]) -> str:
    """`ProcessType.parse_string`, for the names in this scenario."""
    name = process.get("Process Type", process["Process Name"]).lower()
    return {"sshd": "ssh", "sshd.exe": "ssh", "http": "webserver"}.get(name, name)


def _table(rows: list[list[int]], dtype: Any) -> NDArray[Any]:
    table = np.zeros((len(rows), max(map(len, rows))), dtype)
    for row, values in zip(table, rows, strict=True):
        row[: len(values)] = values
    return table


def _listening(host: dict[str, Any]) -> list[int]:
    return [
        PORTS.index(connection["local_port"])
        for process in host["Processes"]
        for connection in process.get("Connections", ())
    ]


def _vulnerability(host: dict[str, Any], exploit: int) -> int:
    """Return the session that `sim_exploit` gets from the first process that it finds, if any."""
    for process in host["Processes"]:
        ports = [c["local_port"] for c in process.get("Connections", ())]
        if _process_type(process) == EXPLOITED_TYPES[exploit] and PORTS[exploit] in ports:
            if exploit == SSH_BRUTE_FORCE:
                return VULNERABLE
            return VULNERABLE_AS_ROOT if process["Username"] in PRIVILEGED_USERS else VULNERABLE
    return NOT_VULNERABLE


_HOST_ROWS = [SCENARIO["Hosts"][name] for name in scenario2.HOSTS]
LISTENING = _table([_listening(row) for row in _HOST_ROWS], np.uint8)
N_LISTENING = np.array([len(_listening(row)) for row in _HOST_ROWS])
LISTENING_PORTS = np.array([sum(1 << p for p in set(_listening(row))) for row in _HOST_ROWS])
VULNERABILITY = np.array(
    [[_vulnerability(row, exploit) for exploit in range(N_EXPLOITS)] for row in _HOST_ROWS]
)
BRUTEFORCEABLE = np.array(
    [any(user.get("Bruteforceable") for user in row["User Info"]) for row in _HOST_ROWS]
)
PIDS = _table([[process["PID"] for process in row["Processes"]] for row in _HOST_ROWS], np.int32)
N_PIDS_OF_HOST = np.array([len(row["Processes"]) for row in _HOST_ROWS])
WORTH = np.array(
    [WORTH_IN_TENTHS[row.get("ConfidentialityValue", "Low")] for row in _HOST_ROWS], np.int64
)
OT_HOST = next(i for i, row in enumerate(_HOST_ROWS) if "OTService" in row.get("Services", {}))
OT_PID = _HOST_ROWS[OT_HOST]["Services"]["OTService"]["PID"]
WORTH_OF_OT_SERVICE = WORTH_IN_TENTHS[_HOST_ROWS[OT_HOST]["AvailabilityValue"]]
RESTORE_COST = 10
ENTERPRISE = _mask("Enterprise")
# The two groups of hosts that RedMeander gives up together.
GROUPS_OF_MEANDER = (_mask("Op"), _mask("Ent"))

# --- Subnets -------------------------------------------------------------------------------------

SUBNET_HOSTS = _table(
    [[_index(name) for name in subnet["Hosts"]] for subnet in SCENARIO["Subnets"].values()],
    np.int64,
)
N_SUBNET_HOSTS = np.array([len(subnet["Hosts"]) for subnet in SCENARIO["Subnets"].values()])
SUBNET_MASK = np.array(
    [sum(1 << _index(name) for name in row["Hosts"]) for row in SCENARIO["Subnets"].values()]
)
SUBNET = (SUBNET_MASK[:, None] >> np.arange(N_HOSTS) & 1).argmax(axis=0)
# The subnets in the order of Red's action space, which is the order of their first hosts.
SUBNETS_BY_HOST = np.array(list(dict.fromkeys(SUBNET.tolist())))
USER, ENTERPRISE_SUBNET = SUBNETS.index("User"), SUBNETS.index("Enterprise")
# Subnets that Red, who always acts from User0, reaches only with a session in Enterprise.
GUARDED = np.array(
    [row["NACLs"].get("User", {}).get("in") == "None" for row in SCENARIO["Subnets"].values()]
)


# RedMeander shuffles the addresses in the order of the true state. That is the order of the hosts,
# but an address that a process of a host is bound to comes right before the host's own.
((BOUND_HOST, _BOUND_ADDRESS),) = [
    (host, int(address) - int(NETWORK.network_address))
    for host, row in enumerate(_HOST_ROWS)
    for process in row["Processes"]
    for connection in process.get("Connections", ())
    if (address := IPv4Address(connection["local_address"])) in NETWORK
]
assert BOUND_HOST == 0
BOUND_SUBNET, BOUND_ADDRESS = divmod(_BOUND_ADDRESS, 16)

# --- Sessions at the start -----------------------------------------------------------------------


# Agent, host and user of each session, in the order in which `State` starts them.
_STARTING = [
    (agent, _index(session["hostname"]), session["username"])
    for agent, row in SCENARIO["Agents"].items()
    for is_child in (False, True)
    for session in row["starting_sessions"]
    if ("parent" in session) == is_child
]
STARTING_AGENTS, _HOSTS_OF_SESSIONS, STARTING_USERS = zip(*_STARTING, strict=True)
STARTING_HOSTS = np.array(_HOSTS_OF_SESSIONS)
N_STARTING_SESSIONS = len(STARTING_HOSTS)
# The place of each session in a list by host, and where the sessions of a host begin and end.
STARTING_SLOTS = np.argsort(np.argsort(STARTING_HOSTS, kind="stable"))
FIRST_SLOT = np.searchsorted(np.sort(STARTING_HOSTS), np.arange(N_HOSTS + 1))
_BLUES_USERS = [
    [user for agent, at, user in _STARTING if (agent, at) == ("Blue", host)]
    for host in range(N_HOSTS)
]
N_BLUE_SESSIONS = np.array([len(users) for users in _BLUES_USERS])
# Whether Blue's processes on a host run as root or SYSTEM.
BLUE_IS_PRIVILEGED = np.array([users[0] in PRIVILEGED_USERS for users in _BLUES_USERS])
assert all(len(set(users)) == 1 for users in _BLUES_USERS)
(_REDS_SESSION,) = SCENARIO["Agents"]["Red"]["starting_sessions"]
RED_HOST = _index(_REDS_SESSION["hostname"])
assert _REDS_SESSION["username"] in PRIVILEGED_USERS

# --- What Red finds by exploring a host ----------------------------------------------------------


def _explored(host: dict[str, Any], facts: str | None) -> int:
    """Return the mask of the hosts in a host's `info`.

    facts: only hosts of whose interfaces this is shown; None: all hosts.
    """
    return sum(
        1 << _index(name)
        for name, shown in host.get("info", {}).items()
        if facts is None or shown["Interfaces"] == facts
    )


EXPLORED_ADDRESSES = np.array([_explored(row, None) for row in _HOST_ROWS])
EXPLORED_SUBNETS = np.array(
    [
        sum(1 << i for i in range(N_SUBNETS) if _explored(row, "All") & SUBNET_MASK[i])
        for row in _HOST_ROWS
    ]
)
SHOWS_OT_SERVICE = np.array(
    [
        "OTService" in row.get("info", {}).get(name, {}).get("Services", ())
        for name, row in zip(scenario2.HOSTS, _HOST_ROWS, strict=True)
    ]
)
# The host in Enterprise that a host in User leads to.
LEADS_TO_ENTERPRISE = np.array(
    [
        next((i for i in range(N_HOSTS) if _explored(row, None) & ENTERPRISE & 1 << i), N_HOSTS)
        for row in _HOST_ROWS
    ]
)

# --- Blue's actions ------------------------------------------------------------------------------

KINDS = tuple(dict.fromkeys(name.partition(" ")[0] for name in scenario2.ACTION_NAMES))
SLEEP, MONITOR, ANALYSE, REMOVE, FIRST_DECOY, LAST_DECOY, RESTORE = map(
    KINDS.index,
    ("Sleep", "Monitor", "Analyse", "Remove", "DecoyApache", "DecoyVsftpd", "Restore"),
)
N_ACTIONS = len(scenario2.ACTION_NAMES)
ACTION_KIND = np.array([KINDS.index(name.partition(" ")[0]) for name in scenario2.ACTION_NAMES])
ACTION_HOST = np.array(
    [_index(name.partition(" ")[2]) if " " in name else 0 for name in scenario2.ACTION_NAMES]
)

# For each decoy: the port that it opens, the port that must be free, the operating system (None:
# any), and whether it runs as SYSTEM instead of Blue's own user.
DECOYS: dict[str, tuple[int, int, str | None, bool]] = {
    "DecoyApache": (80, 80, None, False),
    "DecoyFemitter": (21, 21, "WINDOWS", True),
    "DecoyHarakaSMPT": (25, 25, "LINUX", False),
    "DecoySmss": (139, 139, "WINDOWS", False),
    "DecoySSHD": (22, 22, None, False),
    "DecoySvchost": (3389, 3389, "WINDOWS", False),
    "DecoyTomcat": (443, 443, None, False),
    # CybORG checks another port than this decoy opens, so that a host can have any number of them.
    "DecoyVsftpd": (80, 21, "LINUX", False),
}
N_DECOYS = len(DECOYS)
assert KINDS[FIRST_DECOY : LAST_DECOY + 1] == tuple(DECOYS)
DECOY_PORT = np.array([PORTS.index(row[0]) for row in DECOYS.values()])
DECOY_FREE_PORT = np.array([PORTS.index(row[1]) for row in DECOYS.values()])
DECOY_RUNS_ON = np.array(
    [
        [row[2] in (None, host["System info"]["OSType"]) for host in _HOST_ROWS]
        for row in DECOYS.values()
    ]
)
# Which decoys can be set up on a host at all, by host and decoy.
DECOY_FITS = DECOY_RUNS_ON.T & (LISTENING_PORTS[:, None] >> DECOY_FREE_PORT & 1 == 0)
DECOY_IS_PRIVILEGED = np.array([row[3] for row in DECOYS.values()])
# Where a host lists the service of each decoy. A decoy for Windows and one for Linux can share a
# place.
SERVICE = np.array([0, 1, 1, 2, 3, 4, 5, 2])
N_SERVICES = int(SERVICE.max()) + 1
assert all(len(set(SERVICE[runs])) == runs.sum() for runs in DECOY_RUNS_ON.T)

# --- Red's actions -------------------------------------------------------------------------------

RED_SLEEP, DISCOVER_SYSTEMS, DISCOVER_SERVICES, EXPLOIT, ESCALATE, IMPACT = range(
    len(scenario2.RED_ACTIONS)
)
# The kind of an action that CybORG refuses, because Red does not know its target.
REFUSED = len(scenario2.RED_ACTIONS)
FALSE, TRUE, UNKNOWN = range(len(scenario2.SUCCESSES))
