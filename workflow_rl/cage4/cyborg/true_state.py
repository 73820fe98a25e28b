"""CybORG's true state as plain lists, so that two simulators can be compared.

`cyborg_state` returns a list of these entries:

    hosts        of each host: name, addresses, processes, services, sessions, files, network
                 connection events, old network connection events, process events, old process
                 events, used ports, impact count
      process    name, PID, parent's PID, user, type, version, decoy type, properties, connections
      service    name, PID, active, reliability in percent
      session    agent, ids. An agent without sessions on the host has no entry
      file       name, density
      connection local address and port, remote address and port, PID. A process's connection and
                 a process event are lists of [name, value]
    sessions     of each agent: name, `sessions_count`, and of each session: its key, id, host,
                 user, type, parent's id, PID, active, children's ids, class, ports by address,
                 suspicious PIDs by host. Ports and PIDs are None if the class has none
    agents       of each agent: name, active, [action class, remaining steps] or None, the server
                 sessions and the subnets of a red agent's action space, or None twice, the states
                 of hosts by address, or None, and the counted steps, or None
    blocks       pairs of a subnet and the subnets that it blocks
    phase        0, 1 or 2
    step         number of the last step

A mapping becomes a list of pairs. Every list has the order of CybORG's container. A member of an
Enum becomes its name, or its value if the Enum is one of strings.
"""

import functools
from enum import Enum
from ipaddress import IPv4Address, IPv4Network
from typing import Any

import numpy as np

_text = functools.cache(str)
_AS_THEY_ARE = frozenset({str, int, float, bool, type(None)})


def plain_value(value: Any) -> Any:
    """Return the value as str, int, float, bool, None, or a list of such values."""
    kind = type(value)
    if kind in _AS_THEY_ARE:  # Most values are of these types, so they are tested first.
        return value
    if kind is list or kind is tuple:
        return [item if type(item) in _AS_THEY_ARE else plain_value(item) for item in value]
    if kind is IPv4Address:
        return _text(value)
    if isinstance(value, dict):
        return [[plain_value(key), plain_value(item)] for key, item in value.items()]
    if isinstance(value, Enum):
        return value.value if isinstance(value, str) else value.name
    if isinstance(value, IPv4Network | str):
        return str(value)
    if isinstance(value, list | tuple):
        return [plain_value(item) for item in value]
    if isinstance(value, np.generic):
        return value.item()
    for number in (int, float):
        if isinstance(value, number):
            return number(value)
    return kind.__name__


def cyborg_state(controller: Any) -> list[Any]:
    """Return the state of a CybORG `SimulationController`."""
    state = controller.state
    sessions = []
    for agent, owned in state.sessions.items():
        of_agent = [_session(ident, session) for ident, session in owned.items()]
        sessions.append(plain_value([agent, state.sessions_count[agent], of_agent]))
    agents = []
    for name, interface in controller.agent_interfaces.items():
        agents.append(_agent(name, interface, controller.actions_in_progress.get(name)))
    return [
        [_host(name, host) for name, host in state.hosts.items()],
        sessions,
        agents,
        plain_value(state.blocks),
        state.mission_phase,
        controller.step_count,
    ]


def _host(name: str, host: Any) -> Any:
    events = host.events
    return plain_value(
        [
            name,
            [str(interface.ip_address) for interface in host.interfaces],
            [_process(process) for process in host.processes],
            [
                [service, facts.process, facts.active, facts.get_service_reliability()]
                for service, facts in host.services.items()
            ],
            [[agent, list(ids)] for agent, ids in host.sessions.items() if ids],
            [[file.name, file.density] for file in host.files],
            [_connection(event) for event in events.network_connections],
            [_connection(event) for event in events.old_network_connections],
            [_connection(event) for event in events.process_creation],
            [_connection(event) for event in events.old_process_creation],
            list(host.ephemeral_ports),
            host.impact_count,
        ]
    )


def _process(process: Any) -> list[Any]:
    return [
        process.name,
        process.pid,
        process.ppid,
        process.user,
        process.process_type,
        process.version,
        process.decoy_type.value,
        list(process.properties),
        [_connection(connection) for connection in process.connections],
    ]


def _connection(event: Any) -> Any:
    if isinstance(event, dict):
        return plain_value(event)
    addresses = [event.local_address, event.local_port, event.remote_address, event.remote_port]
    return plain_value([*addresses, event.pid])


def _session(ident: int, session: Any) -> list[Any]:
    return [
        ident,
        session.ident,
        session.hostname,
        session.username,
        session.session_type,
        session.parent,
        session.pid,
        session.active,
        list(session.children),
        type(session).__name__,
        getattr(session, "ports", None),
        getattr(session, "sus_pids", None),
    ]


def _agent(name: str, interface: Any, busy: Any) -> Any:
    space = interface.action_space if name.startswith("red") else None
    return plain_value(
        [
            name,
            interface.active,
            [type(busy["action"]).__name__, busy["remaining_ticks"]] if busy else None,
            space.server_session if space else None,
            space.subnet if space else None,
            getattr(interface.agent, "host_states", None),
            getattr(interface.agent, "step", None),
        ]
    )


def generator_state(state: Any) -> tuple[int, int, int, int]:
    """Return the state of a NumPy `PCG64` as `Simulator.generator_state` does."""
    word = state["state"]["state"]
    return word >> 64, word % 2**64, state["has_uint32"], state["uinteger"]
