"""The template from which every episode of the sped-up csle-cyborg starts."""

import functools
import random
from ipaddress import IPv4Address, IPv4Network
from typing import Any

from workflow_rl.cage2.compiled.tables import N_PIDS, NETWORK, SUPERUSERS
from workflow_rl.cage2.scenario2 import WORTH_IN_TENTHS, prefix_bits

WORTH = {worth: tenths / 10 for worth, tenths in WORTH_IN_TENTHS.items()}
SESSION_MEMORY = ("ports", "operating_system", "sus_pids", "sus_files")


@functools.lru_cache(16)
def _subnets_of(network: IPv4Network, prefix: int) -> list[IPv4Network]:
    """Return the subnets of a network. CybORG lists them anew for every episode."""
    return list(network.subnets(new_prefix=prefix))


def clone(entity: Any, *containers: str) -> Any:
    """Return a shallow copy of an object of CybORG, with copies of the named lists and dicts."""
    twin = object.__new__(type(entity))
    facts = vars(entity).copy()
    for name in containers:
        facts[name] = facts[name].copy()
    twin.__dict__ = facts
    return twin


class Template:
    """A network that CybORG has set up, from which `reset` makes the network of each episode.

    Attributes:
        confidentiality: for each host, the host's name, its superuser, and what Blue loses in a
            step while Red has a session as this superuser.
        availability: the name and the worth of each host with an OT service."""

    def __init__(self, state: Any) -> None:
        scenario = state.scenario
        self._scenario = scenario
        self._subnet_type = type(next(iter(state.subnets.values())))
        self._sessions = []
        for agent, sessions in state.sessions.items():
            for session in sessions.values():
                process = state.hosts[session.host].get_process(session.pid)
                self._sessions.append((agent, session, process))
        pids = {(session.host, session.pid) for _, session, _ in self._sessions}
        self._hosts = {}
        self.confidentiality = []
        self.availability = []
        for name, host in state.hosts.items():
            template = clone(host)
            self._hosts[name] = template
            for kind in ("processes", "original_processes"):
                kept = [entry for entry in getattr(host, kind) if (name, entry.pid) not in pids]
                setattr(template, kind, kept)
            stated = scenario.get_host(name)
            superuser = SUPERUSERS[host.os_type.name]
            worth = WORTH[stated.get("ConfidentialityValue", "Low")]
            self.confidentiality.append((name, superuser, worth))
            if any(process.name == "OTService" for process in host.processes):
                worth = WORTH[stated.get("AvailabilityValue", "Low")]
                self.availability.append((name, worth))

    def reset(self, state: Any, generator: random.Random) -> None:
        """Follow `State.reset`: draw subnets, addresses and PIDs, and copy all other values."""
        scenario = self._scenario
        state.ip_addresses = {}
        state.subnet_name_to_cidr = {}
        state.subnets = {}
        location = {}
        prefixes = [32 - prefix_bits(scenario.get_subnet_size(name)) for name in scenario.subnets]
        drawn = generator.sample(_subnets_of(NETWORK, min(prefixes)), len(prefixes))
        for name, wide, prefix in zip(scenario.subnets, drawn, prefixes, strict=True):
            # CybORG divides the drawn subnet into parts of the needed size, and draws one part.
            parts = _subnets_of(wide, prefix) if wide.prefixlen < prefix else [wide]
            cidr = generator.choice(parts)
            hosts = scenario.get_subnet_hosts(name)
            # A cache of these lists would save only 20 us an episode, and take 6 MB a process.
            addresses = generator.sample(list(cidr.hosts()), len(hosts))
            for host, address in zip(hosts, addresses, strict=True):
                state.ip_addresses[address] = host
                location[host] = address, cidr
            state.subnet_name_to_cidr[name] = cidr
            state.subnets[cidr] = self._subnet_type(
                cidr, addresses, scenario.get_subnet_nacls(name), name
            )
        state.hosts = {name: self._host(name, *location[name]) for name in self._hosts}
        state.sessions = {agent: {} for agent in scenario.agents}
        for agent, session, process in self._sessions:
            _start_session(state, agent, session, process, generator)
        state.sessions_count = {agent: len(state.sessions[agent]) for agent in scenario.agents}

    def _host(self, name: str, address: IPv4Address, cidr: IPv4Network) -> Any:
        template = self._hosts[name]
        host = clone(template, "original_processes")
        host.processes = [clone(process, "connections") for process in template.processes]
        loopback, ethernet = template.interfaces
        ethernet = clone(ethernet)
        ethernet.ip_address, ethernet.subnet = address, cidr
        host.interfaces = [loopback, ethernet]
        host.services = {service: dict(facts) for service, facts in template.services.items()}
        host.events = {kind: [] for kind in template.events}
        host.files, host.ephemeral_ports = [], []
        host.sessions, host.original_sessions = {}, {}
        return host


def _start_session(
    state: Any, agent: str, session: Any, process: Any, generator: random.Random
) -> None:
    """Follow `Host.add_session` and `Host.create_backup`, for a session of an episode's start."""
    host = state.hosts[session.host]
    taken = {process.pid for process in host.processes}
    pid = 0
    while pid == 0 or pid in taken:
        pid = generator.randrange(N_PIDS)
    process = clone(process, "connections")
    session = clone(session, *(name for name in SESSION_MEMORY if name in vars(session)))
    process.pid = session.pid = pid
    session.children = {}
    host.processes.append(process)
    backup = clone(process, "connections")
    backup.open_ports = []
    host.original_processes.append(backup)
    for sessions in (host.sessions, host.original_sessions):
        sessions.setdefault(agent, []).append(session.ident)
    state.sessions[agent][session.ident] = session
    if session.parent is not None:
        state.sessions[agent][session.parent].children[session.ident] = session
