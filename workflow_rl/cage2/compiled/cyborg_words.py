"""Describe a compiled network in plain values and in CybORG's words, for comparison with CybORG."""

import functools
from typing import Any

import numpy as np

from workflow_rl.cage2.compiled import tables as constants
from workflow_rl.cage2.compiled.description import SCENARIO2
from workflow_rl.cage2.compiled.state import KIND, NO_PROCESS, PRIVILEGED, SHELL
from workflow_rl.cage2.compiled.tables import NETWORK, NONE, PORTS, PRIVILEGED_USERS, Tables
from workflow_rl.cage2.scenario.actions import BLUE, DECOYS, RED, RED_ACTIONS

Process = tuple[int, bool, list[int]]
"""A process: its PID, whether it runs as root or SYSTEM, and its listening ports."""


def compiled_network(state: Any, tables: Tables = SCENARIO2) -> dict[str, Any]:
    """Return everything in a record of `state.STATE` that can change a later step."""
    network: dict[str, Any] = {
        "random words drawn, modulo 624": int(state["mt_index"]),
        "subnets": {name: subnet_of(state, i, tables) for i, name in enumerate(tables.subnets)},
        "subnets Red knows": [
            name for i, name in enumerate(tables.subnets) if (state["known_subnets"] >> i) & 1
        ],
        "addresses Red knows": _hosts_in(tables, state["known_addresses"]),
        "hosts Red knows": _hosts_in(tables, state["known_hostnames"]),
        "Red knows the OT service": bool(state["knows_ot_service"]),
    }
    for host, name in enumerate(tables.hosts):
        network |= {
            f"{name}: address": address_of(state, host, tables),
            f"{name}: processes": processes_on(state, host, tables),
            f"{name}: red sessions": red_sessions(state, host, tables),
            f"{name}: other sessions": _other_sessions(state, host, tables),
            f"{name}: services": _services(state, host, tables),
            f"{name}: ephemeral ports": ephemeral_ports(state, host, tables),
            f"{name}: red files": bool((state["has_malware"] >> host) & 1),
            f"{name}: ports Red knows": known_ports(state, host),
            f"{name}: PIDs caught": [
                int(state["suspicious_pid"][i])
                for i in range(state["n_suspicious"])
                if state["suspicious_host"][i] == host
            ],
        }
    return network


def _hosts_in(tables: Tables, mask: Any) -> list[str]:
    return [name for host, name in enumerate(tables.hosts) if (mask >> host) & 1]


def added_slots(state: Any, host: int) -> list[int]:
    """Return the indices in `processes` of the processes added since the start, in their order."""
    slots, process = [], int(state["first_process"][host])
    while process != NO_PROCESS:
        slots.append(process)
        process = int(state["processes"][process]["next"])
    return slots


def _added(state: Any, host: int) -> list[tuple[int, int]]:
    """Return the PID and the kind of each process that was added since the start."""
    added = state["processes"][added_slots(state, host)]
    return list(zip(added["pid"].tolist(), added["kind"].tolist(), strict=True))


def decoys_on(state: Any, host: int) -> list[str]:
    """Return the decoys that run on a host, in the order in which they were set up."""
    kinds = [kind & KIND for _, kind in _added(state, host)]
    return [constants.DECOY_NAMES[kind] for kind in kinds if kind < constants.N_DECOY_KINDS]


def processes_on(state: Any, host: int, tables: Tables = SCENARIO2) -> list[Process]:
    service = int(tables.of["ot_number"][host])
    processes: list[Process] = []
    for row in tables.description["Hosts"][tables.hosts[host]]["Processes"]:
        if row["Process Name"] != "OTService" or state["ot_running"][service]:
            ports = [connection["local_port"] for connection in row.get("Connections") or ()]
            processes.append((row["PID"], row["Username"] in PRIVILEGED_USERS, ports))
    for session, slot in zip(tables.starting, tables.of["starting_slot"], strict=True):
        _, session_host, user = session
        if session_host == host:
            processes.append((int(state["session_pid"][slot]), user in PRIVILEGED_USERS, []))
    for pid, kind in _added(state, host):
        decoy = kind & KIND
        ports = [PORTS[constants.DECOY_PORT[decoy]]] if decoy < constants.N_DECOY_KINDS else []
        processes.append((pid, bool(kind & PRIVILEGED), ports))
    return processes


def red_sessions(state: Any, host: int, tables: Tables = SCENARIO2) -> list[tuple[int, bool]]:
    """Return the PID of each session of Red, and whether the session is root's or SYSTEM's."""
    sessions = [
        (pid, bool(kind & PRIVILEGED))
        for pid, kind in _added(state, host)
        if (kind & KIND) >= SHELL
    ]
    assert len(sessions) == state["n_red_sessions"][host]
    assert any(privileged for _, privileged in sessions) == bool((state["is_owned"] >> host) & 1)
    if host == tables.of["red_host"]:
        sessions.insert(0, (reds_first_pid(state, tables), True))
    return sessions


def _other_sessions(
    state: Any, host: int, tables: Tables = SCENARIO2
) -> list[tuple[str, int, bool]]:
    """Return agent, PID and privilege of each session of other agents. These never change."""
    sessions = []
    for session, slot in zip(tables.starting, tables.of["starting_slot"], strict=True):
        agent, session_host, user = session
        if agent != "Red" and session_host == host:
            sessions.append((agent, int(state["session_pid"][slot]), user in PRIVILEGED_USERS))
    return sessions


def reds_first_pid(state: Any, tables: Tables = SCENARIO2) -> int:
    """Return the PID of Red's first session."""
    agents = [agent for agent, *_ in tables.starting]
    slot = tables.of["starting_slot"][agents.index("Red")]
    return int(state["session_pid"][slot])


def _services(state: Any, host: int, tables: Tables = SCENARIO2) -> dict[str, Any]:
    """Return the PID of each service. The OT service has a pair: whether it is active, and its PID,
    or None if the PID is not listed."""
    services: dict[str, Any] = {}
    service = int(tables.of["ot_number"][host])
    if service != NONE:
        pid = int(tables.of["ot_pid"][host]) if state["ot_listed_with_pid"][service] else None
        services["OTService"] = bool(state["ot_active"][service]), pid
    kinds = tables.description["Agents"]["Blue"]["actions"]
    for decoy, name in enumerate(DECOYS):
        pid = int(state["service_pid"][host, tables.of["service"][decoy]])
        is_decoy = name in kinds and tables.of["decoy_runs_on"][decoy, host]
        is_one_of = any(name in BLUE[kind].sets_up_one_of for kind in kinds)
        if pid and (is_decoy or is_one_of):
            services[name] = pid
    return services


def ephemeral_ports(state: Any, host: int, tables: Tables = SCENARIO2) -> list[int]:
    rows = state["port_bits"]
    words = None
    if len(rows) == tables.capacity.hosts:
        words = rows[host]
    elif host == tables.of["red_host"]:
        words = rows[0]
    elif host == state["busy_host"]:
        words = rows[1]
    if words is not None:
        bits = np.unpackbits(words.view(np.uint8), bitorder="little")
        return [constants.FIRST_EPHEMERAL + int(port) for port in np.flatnonzero(bits)]
    side = int(tables.of["port_side"][host])
    n = int(state["n_ports"][side])
    listed = state["ports"][:n] if side == 0 else state["ports"][len(state["ports"]) - n :]
    ports = listed.astype(int) - tables.of["first_port"][host]
    used = ports[(ports >= 0) & (ports < constants.N_EPHEMERAL)]
    return sorted({constants.FIRST_EPHEMERAL + int(port) for port in used})


def known_ports(state: Any, host: int) -> list[int] | None:
    """Return the ports of exploits that Red knows, or None if Red has not scanned the host."""
    if not ((state["scanned_by_session"] >> host) & 1):
        return None
    known = int(state["known_ports"][host])
    return sorted(PORTS[i] for i in range(constants.N_EXPLOITS) if (known >> i) & 1)


def red_action_of(state: Any, tables: Tables = SCENARIO2) -> str:
    """Return Red's last action as CybORG prints it."""
    kind, target = int(state["red_kind"]), int(state["red_target"])
    if kind == constants.REFUSED:
        return "InvalidAction"
    if kind == constants.RED_SLEEP:
        return RED_ACTIONS[kind]
    if RED[RED_ACTIONS[kind]].needs == "name":
        return f"{RED_ACTIONS[kind]} {tables.hosts[target]}"
    if kind == constants.DISCOVER_SYSTEMS:
        subnet, index = target, 0
    else:
        subnet, index = int(tables.of["subnet"][target]), int(state["address_index"][target])
    prefix = tables.of["prefixes"][subnet]
    size = 1 << (32 - prefix)
    offset = size * int(state["subnet_index"][subnet]) + index
    return _red_action(kind, offset, prefix)


@functools.lru_cache(maxsize=1 << 16)
def _red_action(kind: int, offset: int, prefix: int) -> str:
    """Return the action's text. offset: the target's address minus NETWORK's first address."""
    text = f"{RED_ACTIONS[kind]} {NETWORK[offset]}"
    return f"{text}/{prefix}" if kind == constants.DISCOVER_SYSTEMS else text


def subnet_of(state: Any, subnet: int, tables: Tables = SCENARIO2) -> str:
    """Return a subnet's addresses as CybORG prints them."""
    return f"{_first_of(state, subnet, tables)}/{tables.of['prefixes'][subnet]}"


def _first_of(state: Any, subnet: int, tables: Tables) -> Any:
    host_bits = 32 - tables.of["prefixes"][subnet]
    return NETWORK[int(state["subnet_index"][subnet]) << host_bits]


def address_of(state: Any, host: int, tables: Tables = SCENARIO2) -> str:
    """Return a host's address as CybORG prints it."""
    first = _first_of(state, int(tables.of["subnet"][host]), tables)
    return str(first + int(state["address_index"][host]))
