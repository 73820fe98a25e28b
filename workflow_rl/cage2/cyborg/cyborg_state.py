"""Describe CybORG's network as `compiled.cyborg_words` describes a compiled network."""

import random
from typing import Any

from workflow_rl.cage2.env.cage2_env import Cage2Env

SERVICES = ("apache2", "femitter", "haraka", "smss", "sshd", "svchost", "tomcat", "vsftpd")
"""CybORG's names for the services of decoys, in the order of `actions.DECOYS`."""


def cyborg_network(env: Cage2Env) -> dict[str, Any]:
    """Return the values of `compiled_network`, read from CybORG's true state.

    The value of a session is its PID, and whether its user is root or SYSTEM."""
    state, known, _ = network_parts(env)
    hosts = env.scenario.hosts
    subnets = {state.subnets[cidr].name: str(cidr) for cidr in state.subnets}
    known_subnets = {str(cidr) for cidr, is_known in known["subnet"].items() if is_known}
    known_hosts = {str(name) for name, is_known in known["hostname"].items() if is_known}
    network: dict[str, Any] = {
        "random words drawn, modulo 624": _position(env),
        "subnets": subnets,
        "subnets Red knows": [name for name, cidr in subnets.items() if cidr in known_subnets],
        "addresses Red knows": [
            name for name in hosts if known["ip_address"].get(address_in(state, name), False)
        ],
        "hosts Red knows": [name for name in hosts if name in known_hosts],
        "Red knows the OT service": state.sessions["Red"][0].ot_service is not None,
    }
    for name in hosts:
        network |= {f"{name}: {fact}": value for fact, value in _facts_of(state, name).items()}
    return network


def _facts_of(state: Any, name: str) -> dict[str, Any]:
    from workflow_rl.cage2.compiled.tables import N_EXPLOITS, PORTS, PRIVILEGED_USERS

    host = state.hosts[name]
    address = str(address_in(state, name))
    scanned = {str(ip): ports for ip, ports in state.sessions["Red"][0].ports.items()}
    known_ports = None
    if address in scanned:
        known_ports = sorted(set(scanned[address]) & set(PORTS[:N_EXPLOITS]))
    processes = []
    for process in host.processes:
        ports = [c["local_port"] for c in process.connections if "remote_port" not in c]
        processes.append((process.pid, process.user in PRIVILEGED_USERS, ports))
    sessions = []
    for agent, of_agent in state.sessions.items():
        for session in of_agent.values():
            if session.host == name:
                sessions.append((agent, session.pid, session.username in PRIVILEGED_USERS))
    return {
        "address": address,
        "processes": processes,
        "red sessions": [(pid, is_root) for agent, pid, is_root in sessions if agent == "Red"],
        "other sessions": [session for session in sessions if session[0] != "Red"],
        "services": _services(host, name),
        "ephemeral ports": sorted(set(host.ephemeral_ports)),
        "red files": bool(host.files),
        "ports Red knows": known_ports,
        "PIDs caught": list(state.sessions["Blue"][0].sus_pids.get(name, ())),
    }


def _services(host: Any, name: str) -> dict[str, Any]:
    from workflow_rl.cage2.scenario.actions import DECOYS

    services: dict[str, Any] = {}
    if listed := host.services.get("OTService"):
        services["OTService"] = bool(listed["active"]), listed["process"]
    for service, decoy in zip(SERVICES, DECOYS, strict=True):
        if service in host.services:
            services[decoy] = host.services[service]["process"]
    return services


def network_parts(env: Cage2Env) -> tuple[Any, dict[str, Any], dict[str, Any]]:
    """Return CybORG's state, Red's action space, and Red's last observation."""
    from workflow_rl.cage2.cyborg.speedups import CYBORG, SpedUpSimulator

    simulator: Any = env._simulator
    if isinstance(simulator, SpedUpSimulator):
        CYBORG.let_play(simulator)
        return simulator._state, simulator._red_knows, simulator._red_obs
    controller = simulator._controller
    known = controller.agent_interfaces["Red"].action_space.get_action_space()
    return controller.state, known, controller.observation["Red"].data


def _position(env: Cage2Env) -> int:
    """Return the random generator's position, modulo the 624 words of its state."""
    from workflow_rl.cage2.cyborg.speedups import CYBORG, SpedUpSimulator

    simulator: Any = env._simulator
    is_sped_up = isinstance(simulator, SpedUpSimulator)
    drawn = CYBORG.random.getstate() if is_sped_up else simulator._random_state._state
    assert drawn[0] == random.Random.VERSION
    return int(drawn[1][-1] % 624)


def address_in(state: Any, hostname: str) -> Any:
    return state.hosts[hostname].interfaces[1].ip_address
