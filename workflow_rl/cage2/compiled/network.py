"""The compiled network in plain values, which can be compared with CybORG's."""

from __future__ import annotations

from typing import Any

import numpy as np

from workflow_rl.cage2.compiled.hosts import FIRST_PORT, PORT_SIDE
from workflow_rl.cage2.compiled.state import KIND, NO_PROCESS, PRIVILEGED, SHELL
from workflow_rl.cage2.compiled.tables import (
    DECOY_PORT,
    DECOY_RUNS_ON,
    DECOYS,
    FIRST_EPHEMERAL,
    N_DECOYS,
    N_EPHEMERAL,
    N_EXPLOITS,
    N_HOSTS,
    N_STARTING_SESSIONS,
    OT_HOST,
    OT_PID,
    PORTS,
    PRIVILEGED_USERS,
    RED_HOST,
    SCENARIO,
    SERVICE,
    STARTING_AGENTS,
    STARTING_HOSTS,
    STARTING_SLOTS,
    STARTING_USERS,
    SUBNETS,
)
from workflow_rl.cage2.compiled.texts import address_of, subnet_of
from workflow_rl.cage2.scenario2 import HOSTS

DECOY_NAMES = tuple(DECOYS)

Process = tuple[int, bool, list[int]]
"""The PID, whether the process runs as root or SYSTEM, and its listening ports."""


def compiled_network(state: Any) -> dict[str, Any]:
    """Return everything in a record of `state.STATE` that can change a later step."""
    network: dict[str, Any] = {
        "random words drawn, modulo 624": int(state["mt_index"]),
        "subnets": {name: subnet_of(state, i) for i, name in enumerate(SUBNETS)},
        "subnets Red knows": [
            name for i, name in enumerate(SUBNETS) if state["known_subnets"] >> i & 1
        ],
        "addresses Red knows": _hosts_in(state["known_addresses"]),
        "hosts Red knows": _hosts_in(state["known_hostnames"]),
        "Red knows the OT service": bool(state["knows_ot_service"]),
    }
    for host, name in enumerate(HOSTS):
        network |= {
            f"{name}: address": address_of(state, host),
            f"{name}: processes": _processes(state, host),
            f"{name}: red sessions": red_sessions(state, host),
            f"{name}: other sessions": _other_sessions(state, host),
            f"{name}: services": _services(state, host),
            f"{name}: ephemeral ports": _ephemeral_ports(state, host),
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


def _added(state: Any, host: int) -> list[tuple[int, int]]:
    """Return PID and kind of the processes that were added since the start."""
    added, process = [], int(state["first_process"][host])
    while process != NO_PROCESS:
        added.append(
            (int(state["processes"][process]["pid"]), int(state["processes"][process]["kind"]))
        )
        process = int(state["processes"][process]["next"])
    return added


def decoys_on(state: Any, host: int) -> list[str]:
    """Return the decoys that run on a host, in the order in which they were set up."""
    return [DECOY_NAMES[kind & KIND] for _, kind in _added(state, host) if kind & KIND < N_DECOYS]


def _processes(state: Any, host: int) -> list[Process]:
    processes: list[Process] = [
        (
            row["PID"],
            row["Username"] in PRIVILEGED_USERS,
            [connection["local_port"] for connection in row.get("Connections", ())],
        )
        for row in SCENARIO["Hosts"][HOSTS[host]]["Processes"]
        if row["Process Name"] != "OTService" or state["ot_running"]
    ]
    for i in range(N_STARTING_SESSIONS):
        if STARTING_HOSTS[i] == host:
            pid = int(state["session_pid"][STARTING_SLOTS[i]])
            processes.append((pid, STARTING_USERS[i] in PRIVILEGED_USERS, []))
    for pid, kind in _added(state, host):
        decoy = kind & KIND
        ports = [PORTS[DECOY_PORT[decoy]]] if decoy < N_DECOYS else []
        processes.append((pid, bool(kind & PRIVILEGED), ports))
    return processes


def red_sessions(state: Any, host: int) -> list[tuple[int, bool]]:
    """Return the PID of each session, and whether it is root's or SYSTEM's."""
    sessions = [
        (pid, bool(kind & PRIVILEGED)) for pid, kind in _added(state, host) if kind & KIND >= SHELL
    ]
    assert len(sessions) == state["n_red_sessions"][host]
    assert any(privileged for _, privileged in sessions) == bool(state["is_owned"] >> host & 1)
    if host == RED_HOST:
        sessions.insert(0, (int(state["session_pid"][STARTING_SLOTS[-1]]), True))
    return sessions


def _other_sessions(state: Any, host: int) -> list[tuple[str, int, bool]]:
    """Return the agent, the PID and the privilege of other sessions, which never change."""
    return [
        (agent, int(state["session_pid"][slot]), user in PRIVILEGED_USERS)
        for agent, at, slot, user in zip(
            STARTING_AGENTS, STARTING_HOSTS, STARTING_SLOTS, STARTING_USERS, strict=True
        )
        if agent != "Red" and at == host
    ]


def _services(state: Any, host: int) -> dict[str, Any]:
    """Return PIDs by service, and for the OT service also whether it is listed as active."""
    services: dict[str, Any] = {}
    if host == OT_HOST:
        pid = OT_PID if state["ot_listed_with_pid"] else None
        services["OTService"] = bool(state["ot_active"]), pid
    for decoy, name in enumerate(DECOYS):
        pid = int(state["service_pid"][host, SERVICE[decoy]])
        if pid and DECOY_RUNS_ON[decoy, host]:
            services[name] = pid
    return services


def _ephemeral_ports(state: Any, host: int) -> list[int]:
    rows = state["port_bits"]
    if len(rows) == N_HOSTS or host == RED_HOST or host == state["busy_host"]:
        words = rows[host if len(rows) == N_HOSTS else 0 if host == RED_HOST else 1]
        bits = np.unpackbits(words.view(np.uint8), bitorder="little")
        return [FIRST_EPHEMERAL + int(port) for port in np.flatnonzero(bits)]
    n = int(state["n_ports"][PORT_SIDE[host]])
    side = state["ports"][:n] if PORT_SIDE[host] == 0 else state["ports"][len(state["ports"]) - n :]
    ports = side.astype(int) - FIRST_PORT[host]
    own = ports[(ports >= 0) & (ports < N_EPHEMERAL)]
    return sorted({FIRST_EPHEMERAL + int(port) for port in own})


def known_ports(state: Any, host: int) -> list[int] | None:
    """Return the ports of exploits that Red knows; None if Red has not scanned the host."""
    if not state["scanned_by_session"] >> host & 1:
        return None
    return sorted(PORTS[i] for i in range(N_EXPLOITS) if state["known_ports"][host] >> i & 1)
