"""The compiled network in plain values and in CybORG's words, to compare it with CybORG's."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from workflow_rl.cage2.compiled import tables
from workflow_rl.cage2.compiled.hosts import FIRST_PORT, PORT_SIDE
from workflow_rl.cage2.compiled.state import KIND, NO_PROCESS, PRIVILEGED, SHELL
from workflow_rl.cage2.scenario2 import HOSTS, RED_ACTIONS

DECOY_NAMES = tuple(tables.DECOYS)

Process = tuple[int, bool, list[int]]
"""The PID, whether the process runs as root or SYSTEM, and its listening ports."""


def compiled_network(state: Any) -> dict[str, Any]:
    """Return everything in a record of `state.STATE` that can change a later step."""
    network: dict[str, Any] = {
        "random words drawn, modulo 624": int(state["mt_index"]),
        "subnets": {name: subnet_of(state, i) for i, name in enumerate(tables.SUBNETS)},
        "subnets Red knows": [
            name for i, name in enumerate(tables.SUBNETS) if state["known_subnets"] >> i & 1
        ],
        "addresses Red knows": _hosts_in(state["known_addresses"]),
        "hosts Red knows": _hosts_in(state["known_hostnames"]),
        "Red knows the OT service": bool(state["knows_ot_service"]),
    }
    for host, name in enumerate(HOSTS):
        network |= {
            f"{name}: address": address_of(state, host),
            f"{name}: processes": processes_on(state, host),
            f"{name}: red sessions": red_sessions(state, host),
            f"{name}: other sessions": _other_sessions(state, host),
            f"{name}: services": _services(state, host),
            f"{name}: ephemeral ports": ephemeral_ports(state, host),
            f"{name}: red files": bool(state["has_malware"] >> host & 1),
            f"{name}: ports Red knows": known_ports(state, host),
            f"{name}: PIDs caught": [
                int(state["suspicious_pid"][i])
                for i in range(state["n_suspicious"])
                if state["suspicious_host"][i] == host
            ],
        }
    return network


def _hosts_in(mask: Any) -> list[str]:
    return [name for host, name in enumerate(HOSTS) if mask >> host & 1]


def added_slots(state: Any, host: int) -> list[int]:
    """Return the places of the processes that were added since the start, in their order."""
    slots, process = [], int(state["first_process"][host])
    while process != NO_PROCESS:
        slots.append(process)
        process = int(state["processes"][process]["next"])
    return slots


def _added(state: Any, host: int) -> list[tuple[int, int]]:
    """Return PID and kind of the processes that were added since the start."""
    added = state["processes"][added_slots(state, host)]
    return list(zip(added["pid"].tolist(), added["kind"].tolist(), strict=True))


def decoys_on(state: Any, host: int) -> list[str]:
    """Return the decoys that run on a host, in the order in which they were set up."""
    return [
        DECOY_NAMES[kind & KIND] for _, kind in _added(state, host) if kind & KIND < tables.N_DECOYS
    ]


def processes_on(state: Any, host: int) -> list[Process]:
    """Return the processes that run on a host."""
    processes: list[Process] = [
        (
            row["PID"],
            row["Username"] in tables.PRIVILEGED_USERS,
            [connection["local_port"] for connection in row.get("Connections", ())],
        )
        for row in tables.SCENARIO["Hosts"][HOSTS[host]]["Processes"]
        if row["Process Name"] != "OTService" or state["ot_running"]
    ]
    for i in range(tables.N_STARTING_SESSIONS):
        if tables.STARTING_HOSTS[i] == host:
            pid = int(state["session_pid"][tables.STARTING_SLOTS[i]])
            processes.append((pid, tables.STARTING_USERS[i] in tables.PRIVILEGED_USERS, []))
    for pid, kind in _added(state, host):
        decoy = kind & KIND
        ports = [tables.PORTS[tables.DECOY_PORT[decoy]]] if decoy < tables.N_DECOYS else []
        processes.append((pid, bool(kind & PRIVILEGED), ports))
    return processes


def red_sessions(state: Any, host: int) -> list[tuple[int, bool]]:
    """Return the PID of each session, and whether it is root's or SYSTEM's."""
    sessions = [
        (pid, bool(kind & PRIVILEGED)) for pid, kind in _added(state, host) if kind & KIND >= SHELL
    ]
    assert len(sessions) == state["n_red_sessions"][host]
    assert any(privileged for _, privileged in sessions) == bool(state["is_owned"] >> host & 1)
    if host == tables.RED_HOST:
        sessions.insert(0, (int(state["session_pid"][tables.STARTING_SLOTS[-1]]), True))
    return sessions


def _other_sessions(state: Any, host: int) -> list[tuple[str, int, bool]]:
    """Return the agent, the PID and the privilege of other sessions, which never change."""
    return [
        (agent, int(state["session_pid"][slot]), user in tables.PRIVILEGED_USERS)
        for agent, at, slot, user in zip(
            tables.STARTING_AGENTS,
            tables.STARTING_HOSTS,
            tables.STARTING_SLOTS,
            tables.STARTING_USERS,
            strict=True,
        )
        if agent != "Red" and at == host
    ]


def _services(state: Any, host: int) -> dict[str, Any]:
    """Return PIDs by service, and for the OT service also whether it is listed as active."""
    services: dict[str, Any] = {}
    if host == tables.OT_HOST:
        pid = tables.OT_PID if state["ot_listed_with_pid"] else None
        services["OTService"] = bool(state["ot_active"]), pid
    for decoy, name in enumerate(tables.DECOYS):
        pid = int(state["service_pid"][host, tables.SERVICE[decoy]])
        if pid and tables.DECOY_RUNS_ON[decoy, host]:
            services[name] = pid
    return services


def ephemeral_ports(state: Any, host: int) -> list[int]:
    """Return the ephemeral ports in use on a host."""
    rows = state["port_bits"]
    if len(rows) == tables.N_HOSTS or host == tables.RED_HOST or host == state["busy_host"]:
        words = rows[host if len(rows) == tables.N_HOSTS else 0 if host == tables.RED_HOST else 1]
        bits = np.unpackbits(words.view(np.uint8), bitorder="little")
        return [tables.FIRST_EPHEMERAL + int(port) for port in np.flatnonzero(bits)]
    n = int(state["n_ports"][PORT_SIDE[host]])
    side = state["ports"][:n] if PORT_SIDE[host] == 0 else state["ports"][len(state["ports"]) - n :]
    ports = side.astype(int) - FIRST_PORT[host]
    used = ports[(ports >= 0) & (ports < tables.N_EPHEMERAL)]
    return sorted({tables.FIRST_EPHEMERAL + int(port) for port in used})


def known_ports(state: Any, host: int) -> list[int] | None:
    """Return the ports of exploits that Red knows; None if Red has not scanned the host."""
    if not state["scanned_by_session"] >> host & 1:
        return None
    return sorted(
        tables.PORTS[i] for i in range(tables.N_EXPLOITS) if state["known_ports"][host] >> i & 1
    )


HOST_KINDS = (tables.ESCALATE, tables.IMPACT)
"""Red's actions that name a host. The others name an address, or nothing."""


def red_action_of(state: Any) -> str:
    """Return Red's last action as CybORG prints it."""
    kind, target = int(state["red_kind"]), int(state["red_target"])
    if kind == tables.REFUSED:
        return "InvalidAction"
    if kind == tables.RED_SLEEP or kind in HOST_KINDS:
        return _red_action(kind, target)
    subnet = target if kind == tables.DISCOVER_SYSTEMS else int(tables.SUBNET[target])
    host_part = 0 if kind == tables.DISCOVER_SYSTEMS else int(state["address_index"][target])
    return _red_action(kind, 16 * int(state["subnet_index"][subnet]) + host_part)


@functools.lru_cache(maxsize=1 << 16)
def _red_action(kind: int, at: int) -> str:
    """at: an index into `HOSTS`, or an address's distance from the first one of the network."""
    name = RED_ACTIONS[kind]
    if kind == tables.RED_SLEEP:
        return name
    if kind in HOST_KINDS:
        return f"{name} {HOSTS[at]}"
    address = tables.NETWORK.network_address + at
    return f"{name} {address}/28" if kind == tables.DISCOVER_SYSTEMS else f"{name} {address}"


def subnet_of(state: Any, subnet: int) -> str:
    """Return a subnet's addresses as CybORG prints them."""
    return f"{tables.NETWORK.network_address + 16 * int(state['subnet_index'][subnet])}/28"


def address_of(state: Any, host: int) -> str:
    """Return a host's address as CybORG prints it."""
    first = tables.NETWORK.network_address + 16 * int(state["subnet_index"][tables.SUBNET[host]])
    return str(first + int(state["address_index"][host]))
