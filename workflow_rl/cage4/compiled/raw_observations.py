"""The dictionaries that CybORG shows blue agents, made from a network's record.

See `Simulator.raw_observations`."""

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from workflow_rl.cage4.compiled import constants
from workflow_rl.cage4.compiled.actions import ALLOW, ANALYSE, BLOCK, BLUE_ACTIONS, DECOY, SLEEP
from workflow_rl.cage4.compiled.hosts import OLD_CONNECTIONS, OLD_PROCESSES
from workflow_rl.cage4.compiled.true_state import (
    DENSITY,
    FILES,
    SERVICE_NAMES,
    Cell,
    address,
    blue_pid,
)
from workflow_rl.cage4.scenario.scenario4 import HOST_NAMES, ZONES, BlueAction

_DISTRIBUTIONS = (
    {"OSType": "LINUX", "OSDistribution": "UBUNTU", "OSVersion": "UNKNOWN"},
    {"OSType": "LINUX", "OSDistribution": "KALI", "OSVersion": "K2019_4"},
)

_FILES = {1: FILES[:1], 6: FILES[1:], 7: FILES, 3: FILES[::-1]}
"""The files' names in CybORG's order, by the number that `blue_actions.files_on` returns."""


def raw_observations(state: Any, messages: NDArray[Any]) -> tuple[dict[str, Any], ...]:
    """Return the five agents' dictionaries. messages: `[5, 4, 8]`, what each agent received."""
    if state["step_count"] == 0:
        return tuple(_reset(state, agent) for agent in range(constants.N_BLUE))
    return tuple(_step(state, agent, messages[agent]) for agent in range(constants.N_BLUE))


def _reset(state: Any, agent: int) -> dict[str, Any]:
    data: dict[str, Any] = {"success": "UNKNOWN"}
    for host in _hosts(state, agent):
        ident = int(state["blue_ident"][host])
        pid = blue_pid(state, host)
        network = f"10.0.{state['zone_octet'][constants.ZONE[host]]}.0/24"
        interface = {"interface_name": "eth0", "ip_address": address(state, host)}
        session = {"session_id": ident, "username": "ubuntu", "timeout": 0, "PID": pid}
        session["Type"] = "UNKNOWN" if ident else "VELOCIRAPTOR_SERVER"
        data[HOST_NAMES[host]] = {
            "Interface": [{**interface, "Subnet": network}],
            "Sessions": [{**session, "agent": f"blue_agent_{agent}"}],
            "Processes": [{"PID": pid, "username": "ubuntu"}],
            "User Info": [
                {"username": "root", "Groups": [{"GID": 0}]},
                {"username": "user", "Groups": [{"GID": 1}]},
            ],
            "System info": _system(state, host),
        }
    return data


def _step(state: Any, agent: int, messages: NDArray[Any]) -> dict[str, Any]:
    data: dict[str, Any] = {"success": "IN_PROGRESS"}
    if state["blue_ticks"][agent] == 0:
        data = _outcome(state, agent)
    parent = int(state["blue_parent"][agent])
    others = [host for host in _hosts(state, agent) if host != parent]
    for host in (*others, parent):
        if state["has_events"][host]:
            _add_events(state, host, data.setdefault(HOST_NAMES[host], {}))
    data["message"] = messages.astype(np.bool_).tolist()
    return data


def _hosts(state: Any, agent: int) -> Iterator[int]:
    first = int(constants.FIRST_ZONE_OF_BLUE[agent]) * constants.PLACES
    for host in range(first, first + int(constants.N_ZONES_OF_BLUE[agent]) * constants.PLACES):
        if state["exists"][host]:
            yield host


def _outcome(state: Any, agent: int) -> dict[str, Any]:
    kind, result = int(state["blue_done"][agent]), int(state["blue_result"][agent])
    target, source = int(state["blue_target"][agent]), int(state["blue_source"][agent])
    data: dict[str, Any] = {"success": "UNKNOWN" if kind == SLEEP else "TRUE"}
    action = BlueAction(BLUE_ACTIONS[kind])
    if kind in (ALLOW, BLOCK):
        action = action._replace(to_zone=ZONES[target], from_zone=ZONES[source])
        data["success"] = "TRUE" if result else "FALSE"
    elif target < len(HOST_NAMES) and kind != SLEEP:
        action = action._replace(host=HOST_NAMES[target])
    if kind == ANALYSE and result:
        data[action.host] = {"Files": [_file(name) for name in _FILES[result]]}
    elif kind == DECOY:
        is_decoy = state["service_pid"][target] == result
        decoy = state["service_kind"][target][is_decoy][0]
        process = {"PID": result, "PPID": 1, "service_name": SERVICE_NAMES[decoy]}
        process["username"] = "ubuntu"
        if decoy != constants.DECOY_HARAKA:
            process["Properties"] = ["rfi"]
        data[action.host] = {"Processes": [process]}
    data["action"] = str(action)
    return data


def _file(name: str) -> dict[str, Any]:
    known = {"Path": "/tmp/", "Known Path": "TEMP", "File Name": name, "Known File": "UNKNOWN"}
    return {**known, "Density": DENSITY}


def _system(state: Any, host: int) -> dict[str, Any]:
    system = {"Hostname": HOST_NAMES[host], **_DISTRIBUTIONS[state["distribution"][host]]}
    return {**system, "Architecture": "x64", "position": [0.0, 0.0]}


def _add_events(state: Any, host: int, data: dict[str, Any]) -> None:
    """Add what Monitor shows of a host. Each address is at the place of its last event."""
    processes = data.pop("Processes", [])
    addresses: dict[str, None] = {}
    for which in (OLD_CONNECTIONS, OLD_PROCESSES):
        for event in _events(state, host, which):
            if event.pid:
                processes.append({"PID": event.pid})
                continue
            local = address(state, event.local_host)
            addresses.pop(local, None)
            addresses[local] = None
            connection: dict[str, Any] = {}
            if event.local_port:
                connection["local_port"] = event.local_port
            if which == OLD_CONNECTIONS:
                connection["remote_port"] = event.remote_port
            connection["local_address"] = local
            if which == OLD_CONNECTIONS:
                connection["remote_address"] = address(state, event.remote_host)
            processes.append({"Connections": [connection]})
    data["Processes"] = processes
    if addresses:
        data["Interface"] = [{"ip_address": local} for local in addresses]
    data["System info"] = _system(state, host)


def _events(state: Any, host: int, which: int) -> Iterator[Any]:
    at = int(state["events"][host, which])
    while at:
        event: Any = Cell._make(state["cells"][at].item())
        yield event
        at = event.next
