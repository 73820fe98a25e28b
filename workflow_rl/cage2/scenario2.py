"""Scenario 2 of CAGE Challenge 2: the simulated network and its three agents, described once.

`scenario2()` composes the scenario's content. The facts come from the official `Scenario2.yaml` and
its host images (copyright DST Group, MIT licence). The order of agents, subnets, hosts, processes
and sessions is part of the scenario, because CybORG draws its random numbers in this order. This
file also has the names and sizes that all files about scenarios share."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from workflow_rl.cage2.scenario.actions import (
    BLUE,
    EXPLOITS,
    RED_ACTIONS,
    blue_action_names,
    blue_kinds,
    red_action_names,
)
from workflow_rl.errors import UserError

ENV_ID = "workflow_rl/CAGE2-v0"
RED_ENV_ID = "workflow_rl/CAGE2-red-v0"
SCENARIO2 = "scenario2"
"""The name of CAGE Challenge 2's own scenario."""
SCENARIO1B = "scenario1b"
"""The name of CAGE Challenge 1's own scenario."""
RED_AGENTS = ("B_lineAgent", "RedMeanderAgent", "SleepAgent")
HORIZONS = (30, 50, 100)
SUCCESSES = ("FALSE", "TRUE", "UNKNOWN")
"""CybORG's words for the success of an action."""
WORTH_IN_TENTHS = {"None": 0, "Low": 1, "Medium": 10, "High": 100}
"""What a step costs, in tenths of a reward, for each value of a host. The confidentiality counts
while Red owns the host. The availability counts while the host's OT service is stopped."""

# For each host: its image, its confidentiality value, its availability value, and the host whose IP
# address Red finds on this host, or None. CybORG reads a value of None as Low.
_HOSTS: dict[str, tuple[str, str | None, str | None, str | None]] = {
    "Defender": ("Velociraptor_Server", None, None, None),
    "Enterprise0": ("Gateway", "Medium", "Medium", None),
    "Enterprise1": ("Internal", "Medium", "Medium", None),
    "Enterprise2": ("Internal", "Medium", "Medium", "Op_Server0"),
    "Op_Host0": ("Gateway", None, None, None),
    "Op_Host1": ("Gateway", None, None, None),
    "Op_Host2": ("Gateway", None, None, None),
    "Op_Server0": ("OP_Server", "Medium", "High", None),
    "User0": ("windows_user_host1", "None", "None", None),
    "User1": ("windows_user_host1", None, "None", "Enterprise1"),
    "User2": ("windows_user_host2", None, "None", "Enterprise1"),
    "User3": ("linux_user_host1", None, "None", "Enterprise0"),
    "User4": ("linux_user_host2", None, "None", "Enterprise0"),
}

HOSTS = tuple(_HOSTS)
"""The 13 hosts, in the order of the observation and of each kind's actions."""
CONTESTED = tuple(host for host in HOSTS if host not in ("Defender", "User0"))
"""The hosts that Red can take and Blue can free."""
OBS_SIZE = 4 * len(HOSTS)

_ACTIVITIES = {(0, 0): "nothing", (1, 0): "scan", (1, 1): "exploit"}
_BELIEFS = {(0, 0): "clean", (1, 0): "unknown", (0, 1): "user", (1, 1): "privileged"}


class ScenarioError(UserError):
    """A scenario is wrong. The message says where it is wrong, and what would be right."""


def capacity(size: int) -> int:
    """Return the number of addresses for hosts that CybORG has in a subnet of this Size."""
    return int(2 ** prefix_bits(size)) - 2


def prefix_bits(size: int) -> int:
    """Return the number of bits of an address that differ within a subnet: CybORG's formula."""
    return max(int(math.log2(size + 5)), 4)


def bits_in_words(bits: Sequence[int]) -> tuple[str, str]:
    """Return, in words, the activity and the compromise that a host's four bits show."""
    return _ACTIVITIES[bits[0], bits[1]], _BELIEFS[bits[2], bits[3]]


_SUBNETS: dict[str, tuple[str, ...]] = {
    "Enterprise": ("Enterprise0", "Enterprise1", "Enterprise2", "Defender"),
    "Operational": ("Op_Server0", "Op_Host0", "Op_Host1", "Op_Host2"),
    "User": ("User0", "User1", "User2", "User3", "User4"),
}
_ALLOWED_SUBNETS = ("User", "Enterprise", "Operational")

SUBNETS = tuple(_SUBNETS)
RED_TARGETS = (*HOSTS, *SUBNETS)
"""The targets of Red's actions, by name. CybORG's own actions name some hosts by an address."""

RED_ACTION_NAMES = red_action_names(HOSTS, SUBNETS, ("Op_Server0",))
"""The names of Red's 44 actions in `Cage2RedEnv`, by index."""

FACTS_OF_A_HOST = ("address known", "name known", "ports known", "user session", "root session")
"""The bits that an observation of `Cage2RedEnv` has for each host."""
RED_OBS_SIZE = len(SUBNETS) + len(FACTS_OF_A_HOST) * len(HOSTS) + 2

_EXPLOITS = sorted(EXPLOITS.keys() - {"SSHBruteForce"}, key=str.lower)
RED_ACTION_KINDS = (*RED_ACTIONS[:4], *_EXPLOITS, *RED_ACTIONS[4:], "SSHBruteForce")
GREEN_ACTIONS = ("Sleep", "GreenPingSweep", "GreenPortScan", "GreenConnection")
ACTION_NAMES = blue_action_names(blue_kinds(2), HOSTS)
"""The names of Blue's 145 actions, by index, as CybORG prints them."""


def actions_in_words() -> list[tuple[str, str, str]]:
    """Return a table of Blue's actions for the pages. Its first row is the heading."""
    rows = [("action", "what it does", "numbers, host 0 to host 12")]
    first = 0
    for kind in blue_kinds(2):
        last = first + len(HOSTS) - 1
        numbers = f"{first} to {last}" if BLUE[kind].on_host else str(first)
        rows.append((kind, BLUE[kind].does, numbers))
        first += len(blue_action_names([kind], HOSTS))
    return rows


def _process(
    pid: int,
    ppid: int,
    name: str,
    user: str,
    path: str | None = None,
    connections: list[dict[str, Any]] | None = None,
) -> dict[str, Any]:
    process = {"PID": pid, "PPID": ppid, "Process Name": name, "Username": user}
    stated = {"Path": path, "Connections": connections}
    return process | {key: value for key, value in stated.items() if value is not None}


def _listening(*ports: int) -> list[dict[str, Any]]:
    return [{"local_address": "0.0.0.0", "local_port": port} for port in ports]


def _bound(port: int, protocol: str, address: str = "0.0.0.0") -> dict[str, Any]:
    return {"local_address": address, "local_port": port, "Transport Protocol": protocol}


def _listening_tcp(port: int) -> list[dict[str, Any]]:
    return [_bound(port, "TCP")]


def _linux_user(uid: int, name: str, **more: Any) -> dict[str, Any]:
    return {"Groups": [{"GID": uid, "Group Name": name}], "UID": uid, "Username": name} | more


def _windows_user(name: str, relative_id: int, admin: bool = True, **more: Any) -> dict[str, Any]:
    uid = f"S-1-5-21-1983491181-1743339912-3520046837-{relative_id}"
    groups = {"Groups": [{"GID": 0, "Group Name": "ADMINISTRATORS"}]} if admin else {}
    return groups | {"UID": uid, "Username": name} | more


_LINUX = {
    "Architecture": "x64",
    "OSDistribution": "UBUNTU",
    "OSType": "LINUX",
    "OSVersion": "U18_04_3",
}
_WINDOWS = {
    "Architecture": "x64",
    "OSDistribution": "WINDOWS_SVR_2008",
    "OSType": "WINDOWS",
    "OSVersion": "W6_1_7601",
}
_ROOT = _linux_user(0, "root")
_UBUNTU = _linux_user(1000, "ubuntu")
_LINUX_USERS = [
    _ROOT,
    _linux_user(33, "www-data"),
    _linux_user(1001, "pi", Bruteforceable=True, Password="raspberry"),
    _UBUNTU,
    _linux_user(1001, "GreenAgent"),
]
_WINDOWS_USERS = [
    _windows_user("Administrator", 500),
    _windows_user("GreenAgent", 1019, admin=False),
    _windows_user("vagrant", 1000, Password="vagrant", Bruteforceable=True),
    {"Username": "SYSTEM"},
]

_SSHD = _process(1091, 1, "sshd", "root", "/usr/sbin", _listening_tcp(22))
_SMTP = _process(1102, 1, "smtp", "root", "/usr/sbin", _listening_tcp(25)) | {
    "Process Type": "smtp",
    "Process Version": "haraka 2.7.0",
}
_OT_SERVICE = _process(1043, 1, "OTService", "root", "/root")
_OPENSSH = "C:\\Program Files\\OpenSSH\\usr\\sbin"
_SSHD_EXE = _process(3368, 5956, "sshd.exe", "sshd_server", _OPENSSH, _listening(22))
_RPC = _process(832, 4, "svchost.exe", "SYSTEM", None, _listening(135))
_SMB = _process(4, 372, "smss.exe", "SYSTEM", None, _listening(445, 139))
_FEMITTER = _process(
    3344, 5566, "femitter.exe", "SYSTEM", "C:\\Program Files\\Femitter", _listening(21)
) | {"Process Type": "femitter"}
_TOMCAT = _process(3404, 4, "tomcat8.exe", "NetworkService", None, _listening(80, 443)) | {
    "Process Type": "webserver",
    "Properties": ["rfi"],
}


def _rdp(user: str) -> dict[str, Any]:
    process = _process(4400, 4, "svchost.exe", user, None, _listening(3389))
    return process | {"Process Type": "rdp"}


def _apache(port: int) -> dict[str, Any]:
    process = _process(1100, 1, "apache2", "www-data", "/usr/sbin", _listening_tcp(port))
    return process | {"Process Type": "webserver", "Properties": "rfi"}


def _mysql(port: int) -> dict[str, Any]:
    return _process(1101, 1, "mysql", "root", "/etc/init.d", _listening_tcp(port))


_NAME_SERVICE = [_bound(53, protocol, "127.0.0.53") for protocol in ("TCP", "UDP")]
_ADDRESS_LEASE = _bound(68, "UDP", "10.0.11.88")
_DEFENDER_PROCESSES = [
    _process(1, 0, "init", "root", "/sbin"),
    _process(389, 1, "systemd-journald", "root", "/lib/systemd"),
    _process(407, 1, "systemd-udevd", "root", "/lib/systemd"),
    _process(409, 1, "lvmetad", "root", "/sbin"),
    _process(560, 1, "systemd-timesyncd", "systemd+", "/lib/systemd"),
    _process(790, 1, "accounts-daemon", "root", "/usr/lib/accountsservice"),
    _process(802, 1, "atd", "daemon", "/usr/sbin"),
    _process(803, 1, "bash", "velocir+", "/bin"),
    _process(807, 1, "rsyslogd", "syslog", "/usr/sbin"),
    _process(824, 1, "acpid", "root", "/usr/sbin"),
    _process(825, 1, "snapd", "root", "/usr/lib/snapd"),
    _process(827, 1, "dbus-daemon", "message+", "/usr/bin"),
    _process(832, 803, "velociraptor.bin", "velocir+", "/usr/local/bin"),
    _process(844, 1, "cron", "root", "/usr/sbin"),
    _process(847, 1, "systemd-logind", "root", "/lib/systemd"),
    _process(852, 1, "python3", "root", "/usr/bin"),
    _process(853, 1, "lxcfs", "root", "/usr/bin"),
    _process(863, 1, "polkitd", "root", "/usr/lib/policykit-1"),
    _process(867, 1, "python3", "root", "/usr/bin"),
    _process(875, 1, "agetty", "root", "/sbin"),
    _process(884, 1, "agetty", "root", "/sbin"),
    _process(1370, 1, "python3", "root", "/usr/bin"),
    _process(1432, 1, "systemd-hostnamed", "root", "/lib/systemd"),
    _process(2288, 879, "sshd", "root"),
    _process(879, 1, "sshd", "root", "/usr/sbin", _listening_tcp(22)),
    _process(656, 1, "systemd-resolved", "systemd+", "/lib/systemd", _NAME_SERVICE),
    _process(634, 1, "systemd-networkd", "systemd+", "/lib/systemd", [_ADDRESS_LEASE]),
]

IMAGES: dict[str, dict[str, Any]] = {
    "Velociraptor_Server": {
        "Processes": _DEFENDER_PROCESSES,
        "System info": _LINUX,
        "User Info": [_ROOT, _UBUNTU],
    },
    "Gateway": {"Processes": [_SSHD], "System info": _LINUX, "User Info": _LINUX_USERS},
    "Internal": {
        "Processes": [_SSHD_EXE, _RPC, _rdp("SYSTEM"), _SMB, _TOMCAT],
        "System info": _WINDOWS,
        "User Info": _WINDOWS_USERS,
    },
    "OP_Server": {
        "Processes": [_SSHD, _OT_SERVICE],
        "System info": _LINUX,
        "Services": {"OTService": {"active": True, "PID": 1043}},
        "User Info": _LINUX_USERS,
    },
    "windows_user_host1": {
        "Processes": [_SSHD_EXE, _FEMITTER],
        "System info": _WINDOWS,
        "User Info": _WINDOWS_USERS,
    },
    "windows_user_host2": {
        "Processes": [_SMB | {"Process Type": "smb"}, _RPC, _rdp("NetworkService")],
        "System info": _WINDOWS,
        "User Info": _WINDOWS_USERS,
    },
    "linux_user_host1": {
        "Processes": [_apache(80), _mysql(3389), _apache(443), _SMTP],
        "System info": _LINUX,
        "User Info": _LINUX_USERS,
    },
    "linux_user_host2": {
        "Processes": [_SSHD, _apache(80), _mysql(3390) | {"Properties": None}, _apache(443), _SMTP],
        "System info": _LINUX,
        "User Info": _LINUX_USERS,
    },
}
"""The images by their names in the challenge's files. An image says what runs on a host."""


def _host(name: str) -> dict[str, Any]:
    """Return what CybORG reads about a host: its image, its values, and what Red learns there."""
    image, confidentiality, availability, leads_to = _HOSTS[name]
    host: dict[str, Any] = {"AWS_Info": [], "image": image}
    if name != "Defender":  # Red never explores Defender.
        explored: dict[str, dict[str, Any]] = {name: {"Interfaces": "All"}}
        if services := IMAGES[image].get("Services"):
            explored[name]["Services"] = list(services)
        if leads_to:
            explored[leads_to] = {"Interfaces": "IP Address"}
        # CybORG's file has these entries in alphabetical order.
        host["info"] = dict(sorted(explored.items()))
    worth = {"ConfidentialityValue": confidentiality, "AvailabilityValue": availability}
    stated = {kind: value for kind, value in worth.items() if value is not None}
    return host | stated


def _subnet(name: str) -> dict[str, Any]:
    access = {"all": {"in": "all", "out": "all"}}
    if name == "Operational":
        # User reaches this subnet only while Red has a session in Enterprise.
        access = {"User": {"in": "None", "out": "all"}} | access
    # The challenge's file gives Enterprise the Size 3, although Defender is a fourth host there.
    size = 3 if name == "Enterprise" else len(_SUBNETS[name])
    return {"Hosts": list(_SUBNETS[name]), "NACLs": access, "Size": size}


def _agent(
    actions: tuple[str, ...],
    known: dict[str, tuple[str, ...]],
    reward: str,
    sessions: list[dict[str, Any]],
    **more: Any,
) -> dict[str, Any]:
    return {
        "AllowedSubnets": list(_ALLOWED_SUBNETS),
        "INT": {"Hosts": {host: dict.fromkeys(facts, "All") for host, facts in known.items()}},
        **more,
        "actions": list(actions),
        "agent_type": "SleepAgent",
        "reward_calculator_type": reward,
        "starting_sessions": sessions,
        "wrappers": [],
    }


def _session(host: str, name: str, kind: str, user: str, **more: Any) -> dict[str, Any]:
    return {"hostname": host, "name": name, "type": kind, "username": user} | more


def _agents() -> dict[str, Any]:
    users, enterprise, operational = (_SUBNETS[name] for name in _ALLOWED_SUBNETS)

    def user(host: str) -> str:
        return "SYSTEM" if host in ("Enterprise1", "Enterprise2") else "ubuntu"

    blue_sessions = [
        _session(host, f"Velo{host}", "VelociraptorClient", user(host), parent="VeloServer")
        for host in users + enterprise + operational
    ]
    server = _session("Defender", "VeloServer", "VelociraptorServer", "ubuntu")
    server |= {"artifacts": ["NetworkConnections", "ProcessCreation"], "num_children_sessions": 2}
    green_sessions = [
        _session(host, "GreenSession", "green_session", "GreenAgent")
        for host in users + operational[1:]
    ]
    reds_session = _session("User0", "RedPhish", "RedAbstractSession", "SYSTEM")
    facts = ("Interfaces", "System info", "User info")
    return {
        "Blue": _agent(
            blue_kinds(2),
            dict.fromkeys(HOSTS, facts),
            "HybridAvailabilityConfidentiality",
            [*blue_sessions, server],
            adversary="Red",
        ),
        "Green": _agent(GREEN_ACTIONS, dict.fromkeys(HOSTS, facts), "None", green_sessions),
        "Red": _agent(RED_ACTION_KINDS, {"User0": facts[:2]}, "HybridImpactPwn", [reds_session]),
    }


def scenario2() -> dict[str, Any]:
    """Return the content of Scenario 2: see `Scenario.content`."""
    return {
        "Agents": _agents(),
        "Hosts": {name: _host(name) for name in HOSTS},
        "Images": IMAGES,
        "Subnets": {name: _subnet(name) for name in _SUBNETS},
    }
