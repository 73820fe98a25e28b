"""The real csle-cyborg, sped up without changing one bit of a trace.

CybORG spends most of a step on work whose result nobody reads: the complete true state for a
reward that depends on a few sessions, tables and deep copies for 52 bits, enums parsed from
strings. Each function below leaves out such work, or gets the same result another way, and says
why that is exact. The red agents, what actions do to the network, and every draw of a random
number, in its order, remain CybORG's own: the tests compare whole traces with csle-cyborg as
published.

All of it happens in a private copy of the package, imported a second time under modules of its
own, so that csle-cyborg as published stays untouched in the same process.
"""

from __future__ import annotations

import importlib
import random
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from ipaddress import IPv4Address, IPv4Network
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from workflow_rl.scenario2 import ACTION_NAMES, HOSTS, RED_AGENTS, scenario2

PACKAGE = "csle_cyborg"
WORTH = {"None": 0.0, "Low": 0.1, "Medium": 1.0, "High": 10.0}
# All possible subnets of CybORG's private network, which it lists anew for every episode.
SUBNETS = list(IPv4Network("10.0.0.0/16").subnets(new_prefix=28))
BROADCAST = IPv4Address("0.0.0.0")


class PrivateCopy:
    """A second import of csle-cyborg, with its own modules and its own random generator.

    `random` takes the place of Python's global generator in every module of the copy. It is the
    same Mersenne Twister with the same methods, so the same seed gives the same draws, while the
    global state is neither read nor written. The simulators of one process share it in turns.
    """

    def __init__(self) -> None:
        self.random = random.Random()
        self.modules: dict[str, ModuleType] = {}
        self._playing: SpedUpSimulator | None = None
        with self.importable():
            for name in ("agents", "shared.actions", "simulator.state"):
                importlib.import_module(f"{PACKAGE}.{name}")
        global_generator = random.choice.__self__  # type: ignore[attr-defined]
        for module in self.modules.values():
            for name, value in list(vars(module).items()):
                if value is random:
                    setattr(module, name, self.random)
                elif getattr(value, "__self__", None) is global_generator:
                    setattr(module, name, getattr(self.random, value.__name__))

    def __getitem__(self, name: str) -> Any:
        return self.modules[f"{PACKAGE}.{name}"]

    @contextmanager
    def importable(self) -> Iterator[None]:
        """Let imports, and CybORG's own look-ups in `sys.modules`, find this copy."""
        published = _take_modules()
        sys.modules.update(self.modules)
        try:
            yield
        finally:
            self.modules = _take_modules()
            sys.modules.update(published)

    def switch_to(self, simulator: SpedUpSimulator) -> None:
        """Continue with the draws of this simulator; costs nothing while it plays alone."""
        if self._playing is simulator:
            return
        if self._playing is not None:
            self._playing.random_state = self.random.getstate()
        self.random.setstate(simulator.random_state)
        self._playing = simulator


def _take_modules() -> dict[str, ModuleType]:
    names = [name for name in sys.modules if name == PACKAGE or name.startswith(f"{PACKAGE}.")]
    return {name: sys.modules.pop(name) for name in names}


def _clone(entity: Any) -> Any:
    """A copy of one of CybORG's objects, with its own lists and dicts (one level deep)."""
    twin = object.__new__(type(entity))
    twin.__dict__.update(
        (name, value.copy() if type(value) in (list, dict) else value)
        for name, value in vars(entity).items()
    )
    return twin


# --- Replacements in the private copy ------------------------------------------------------------


def restore_host(host: Any) -> None:
    """`Host.restore`: CybORG builds each process anew from its backup, part by part.

    The result equals the backup, and a backup never changes: a copy is the same.
    """
    host.events = {"NetworkConnections": [], "ProcessCreation": []}
    host.files = []
    host.sessions = {agent: list(idents) for agent, idents in host.original_sessions.items()}
    host.processes = [_clone(process) for process in host.original_processes]
    host.ephemeral_ports = []
    host.services = {name: dict(service) for name, service in host.original_services.items()}


def is_host_using_port(host: Any, port: int) -> bool:
    """`_is_host_using_port`: reads the connections without describing each process."""
    return any(
        connection["local_port"] == port
        for process in host.processes
        for connection in process.connections
    )


@cache
def _private_copy() -> PrivateCopy:
    copy = PrivateCopy()
    copy["simulator.host"].Host.restore = restore_host
    for module in copy.modules.values():
        if hasattr(module, "_is_host_using_port"):
            module._is_host_using_port = is_host_using_port
    # A parsed string depends on nothing but the string.
    for enum in vars(copy["shared.enums"]).values():
        if hasattr(enum, "parse_string"):
            enum.parse_string = staticmethod(cache(enum.parse_string))
    return copy


# --- One network ---------------------------------------------------------------------------------


class SpedUpSimulator:
    """Scenario 2 on the private copy's network state, actions and red agents.

    Green is left out: its agent sleeps, which draws nothing and changes nothing.
    """

    def __init__(self) -> None:
        self._copy = copy = _private_copy()
        self.random_state = copy.random.getstate()
        copy.switch_to(self)
        with copy.importable():
            self._scenario = copy["shared.scenario"].Scenario(scenario2())
            self._state = copy["simulator.state"].State(self._scenario)
            agents, actions = copy["agents"], copy["shared.actions"]
        self._red_agents = {name: getattr(agents, name)() for name in RED_AGENTS}
        self._red_action_types = {
            getattr(actions, name) for name in self._scenario.get_agent_info("Red").actions
        }
        self._blue_actions = [_blue_action(actions, name) for name in ACTION_NAMES]
        self._invalid_action = copy["shared.actions.action"].InvalidAction
        self._template = _Template(self._state)
        self._compromise = np.zeros((len(HOSTS), 4), np.uint8)

    def reset(self, seed: int, red_agent: str) -> NDArray[np.uint8]:
        self._copy.switch_to(self)
        self._copy.random.seed(seed)
        self._template.reset(self._state, self._copy.random)
        self._addresses = frozenset(self._state.ip_addresses) | {BROADCAST}
        self._networks = frozenset(self._state.subnets)
        self._red_knows = self._template.red_knows_at_first(self._state)
        self._red_agent = self._red_agents[red_agent]
        self._red_agent.end_episode()
        known = {"User0": {"Interfaces": "All", "System info": "All", "Sessions": "Red"}}
        self._see(self._state.get_true_state(known))
        self._compromise[:] = 0
        return self._compromise.ravel().copy()

    def step(self, action: int) -> tuple[NDArray[np.uint8], float]:
        self._copy.switch_to(self)
        state = self._state
        blue = self._blue_actions[action]
        blue_obs = blue.sim_execute(state)
        red = self._red_agent.get_action(self._red_obs, self._red_knows)
        if not self._is_valid(red):
            red = self._invalid_action(red)
        self._see(red.sim_execute(state))
        self._blue_action, self._blue_success = ACTION_NAMES[action], blue_obs.data["success"]
        self._red_action = red
        reward = self._reward() + blue.cost
        return self._observe(action, blue_obs.data), round(reward, 1)

    @property
    def blue_action(self) -> str:
        return self._blue_action

    @property
    def blue_success(self) -> str:
        return str(self._blue_success)

    @property
    def red_action(self) -> str:
        return str(self._red_action)

    @property
    def red_success(self) -> str:
        return str(self._red_obs["success"])

    def _is_valid(self, action: Any) -> bool:
        """`test_valid_action`: may Red do this, with nothing but what it knows?"""
        known = self._red_knows
        return type(action) in self._red_action_types and all(
            known[name].get(value, False) for name, value in vars(action).items() if name in known
        )

    def _see(self, obs: Any) -> None:
        """What Red sees of an action's observation, and what it knows from then on.

        Addresses outside the network are removed (`filter_addresses`, comparing addresses rather
        than their strings). Of the knowledge, only what a red agent or the check of its actions
        reads is kept: hostnames, addresses, subnets.
        """
        known = self._red_knows
        for host in obs.data.values():
            if type(host) is not dict:
                continue
            if "Processes" in host:
                host["Processes"] = [p for p in host["Processes"] if self._in_network(p)]
                if not host["Processes"]:
                    del host["Processes"]
            if "Interface" in host:
                host["Interface"] = [
                    interface
                    for interface in host["Interface"]
                    if interface.get("IP Address", BROADCAST) in self._addresses
                    and ("Subnet" not in interface or interface["Subnet"] in self._networks)
                ]
                for interface in host["Interface"]:
                    if "Subnet" in interface:
                        known["subnet"][interface["Subnet"]] = True
                    if "IP Address" in interface:
                        known["ip_address"][interface["IP Address"]] = True
                if not host["Interface"]:
                    del host["Interface"]
            if "Hostname" in host.get("System info", ()):
                known["hostname"][host["System info"]["Hostname"]] = True
        for name in [name for name, host in obs.data.items() if host == {}]:
            del obs.data[name]
        self._red_obs = obs.data

    def _in_network(self, process: dict[str, Any]) -> bool:
        return all(
            connection.get(side, BROADCAST) in self._addresses
            for connection in process.get("Connections", ())
            for side in ("local_address", "remote_address")
        )

    def _reward(self) -> float:
        """Blue's reward before the cost of its action, from the sessions and the OT service.

        CybORG describes the whole network to compute this, Red's reward and Green's, which no
        agent of this scenario reads. The sums run in its order and are rounded where it rounds.
        """
        state = self._state
        red_sessions = state.sessions["Red"]
        root_worth = system_worth = disrupted_worth = 0.0
        for name, superuser, confidentiality, availability in self._template.worth:
            host = state.hosts[name]
            if any(
                red_sessions[ident].username == superuser for ident in host.sessions.get("Red", ())
            ):
                if superuser == "root":
                    root_worth += confidentiality
                else:
                    system_worth += confidentiality
            if availability is not None and not any(p.name == "OTService" for p in host.processes):
                disrupted_worth += availability
        return -round(disrupted_worth, 1) + -round(root_worth + system_worth, 1)

    def _observe(self, action: int, blue_obs: dict[str, Any]) -> NDArray[np.uint8]:
        """Blue's 52 bits: `Monitor`, then the table of `BlueTableWrapper`, straight to its bits.

        A host's anomalies are the process that a decoy of this step started there and the
        connections seen since the last step: none of them is ever part of the first observation,
        with which CybORG compares, because that holds only the processes of Blue's sessions.
        """
        name, _, target = ACTION_NAMES[action].partition(" ")
        compromise = self._compromise
        if name == "Restore":
            compromise[HOSTS.index(target), 2:] = 0
        elif name == "Remove" and compromise[HOSTS.index(target), 2:].any():
            compromise[HOSTS.index(target), 2:] = (1, 0)
        sus_pids = self._state.sessions["Blue"][0]
        activity = {}
        for index, hostname in enumerate(HOSTS):
            events = self._state.hosts[hostname].events
            seen = events["NetworkConnections"]
            decoy = hostname == target and "Processes" in blue_obs.get(target, ())
            if decoy or seen:
                kind = _interpret_connections(decoy, seen)
                activity[index] = kind
                if kind == (1, 1):
                    compromise[index, 2:] = (0, 1)
                for event in seen:
                    if "pid" in event:
                        sus_pids.add_sus_pids(hostname=hostname, pid=event["pid"])
                events["NetworkConnections"] = []
        if "Files" in blue_obs.get(target, ()) and any(
            file["Density"] >= 0.9 for file in blue_obs[target]["Files"]
        ):
            compromise[HOSTS.index(target), 2:] = 1
        obs = compromise.copy()
        for index, kind in activity.items():
            obs[index, :2] = kind
        return obs.ravel()


def _interpret_connections(decoy: bool, seen: list[dict[str, Any]]) -> tuple[int, int]:
    """Activity bits of a host, from its new decoy process and the connections seen."""
    n_anomalies = decoy + len(seen)
    local_ports = {event["local_port"] for event in seen}
    if n_anomalies >= 3 and len(local_ports) >= 3:
        return 1, 0
    if any(event.get("remote_port") == 4444 for event in seen):
        return 1, 1
    if n_anomalies >= 3 and len(local_ports) == 1:
        return 1, 1
    return (0, 0) if decoy else (1, 0)


def _blue_action(actions: Any, name: str) -> Any:
    kind, _, host = name.partition(" ")
    if kind == "Sleep":
        return actions.Sleep()
    return getattr(actions, kind)(session=0, agent="Blue", **({"hostname": host} if host else {}))


class _Template:
    """What every episode of a scenario starts from, taken from a state that CybORG initialised.

    `reset` draws the random numbers that `State._initialise_state` draws, in its order: the
    subnets, the addresses of their hosts, the PID of each session. Everything else is the same in
    every episode and is copied.
    """

    def __init__(self, state: Any) -> None:
        scenario = state.scenario
        self._scenario = scenario
        self._hosts = {name: _clone(host) for name, host in state.hosts.items()}
        session_pids = {
            (session.host, session.pid)
            for sessions in state.sessions.values()
            for session in sessions.values()
        }
        for name, host in self._hosts.items():
            host.original_processes = [
                p for p in host.original_processes if (name, p.pid) not in session_pids
            ]
            host.processes = [p for p in host.processes if (name, p.pid) not in session_pids]
        self._sessions = [
            (agent, _clone(session), _clone(state.hosts[session.host].get_process(session.pid)))
            for agent, sessions in state.sessions.items()
            for session in sessions.values()
        ]
        self.worth = []
        for name, host in state.hosts.items():
            stated = scenario.get_host(name)
            self.worth.append(
                (
                    name,
                    "root" if host.os_type.name == "LINUX" else "SYSTEM",
                    WORTH[stated.get("ConfidentialityValue", "Low")],
                    WORTH[stated.get("AvailabilityValue", "Low")]
                    if any(p.name == "OTService" for p in host.processes)
                    else None,
                )
            )

    def reset(self, state: Any, generator: random.Random) -> None:
        state.ip_addresses, state.subnet_name_to_cidr, subnets = {}, {}, {}
        scenario, address_of = self._scenario, {}
        subnet_class = type(next(iter(state.subnets.values())))
        drawn = generator.sample(SUBNETS, len(scenario.subnets))
        for name, cidr in zip(scenario.subnets, drawn, strict=True):
            generator.choice((cidr,))  # among its subnets of the size needed: itself
            hosts = scenario.get_subnet_hosts(name)
            addresses = generator.sample(_addresses_in(cidr), len(hosts))
            for host, address in zip(hosts, addresses, strict=True):
                state.ip_addresses[address] = host
                address_of[host] = (address, cidr)
            state.subnet_name_to_cidr[name] = cidr
            subnets[cidr] = subnet_class(
                cidr, addresses, scenario.get_subnet_nacls(name), name=name
            )
        state.subnets = subnets
        state.hosts = {name: self._host(name, *address_of[name]) for name in self._hosts}
        state.sessions = {agent: {} for agent in scenario.agents}
        for agent, session, process in self._sessions:
            self._start_session(state, agent, session, process, generator)
        state.sessions_count = {agent: len(state.sessions[agent]) for agent in state.sessions}

    def _host(self, name: str, address: IPv4Address, cidr: IPv4Network) -> Any:
        template = self._hosts[name]
        host = _clone(template)
        host.processes = [_clone(process) for process in template.processes]
        loopback, ethernet = template.interfaces
        host.interfaces = [loopback, _clone(ethernet)]
        host.interfaces[1].ip_address, host.interfaces[1].subnet = address, cidr
        host.services = {service: dict(facts) for service, facts in template.services.items()}
        host.events = {kind: [] for kind in template.events}
        host.sessions = {}
        host.original_sessions = {}
        return host

    @staticmethod
    def _start_session(
        state: Any, agent: str, session: Any, process: Any, generator: random.Random
    ) -> None:
        host = state.hosts[session.host]
        session, process = _clone(session), _clone(process)
        taken = {p.pid for p in host.processes}
        pid = 0
        while pid == 0 or pid in taken:
            pid = generator.randrange(32768)
        session.pid = process.pid = pid
        session.children = {}
        host.processes.append(process)
        backup = _clone(process)
        backup.open_ports = []
        host.original_processes.append(backup)
        for sessions in (host.sessions, host.original_sessions):
            sessions.setdefault(agent, []).append(session.ident)
        state.sessions[agent][session.ident] = session
        if session.parent is not None:
            state.sessions[agent][session.parent].children[session.ident] = session

    def red_knows_at_first(self, state: Any) -> dict[str, dict[Any, bool]]:
        """Red's action space as an episode begins: all hosts, subnets and addresses, unknown.

        RedMeander draws from the addresses in the order in which the true state lists them: host
        by host, first those that a process of the host is bound to, should one exist.
        """
        subnets: dict[IPv4Network, bool] = {}
        addresses: dict[IPv4Address, bool] = {}
        for host in state.hosts.values():
            for process in host.processes:
                for connection in process.connections:
                    if connection["local_address"] in state.ip_addresses:
                        addresses[connection["local_address"]] = False
            subnets[host.interfaces[1].subnet] = False
            addresses[host.interfaces[1].ip_address] = False
        return {
            "subnet": subnets,
            "ip_address": addresses,
            "hostname": dict.fromkeys(state.hosts, False),
            "session": {0: True},
            "agent": {"Red": True},
        }


@cache
def _addresses_in(cidr: IPv4Network) -> list[IPv4Address]:
    return list(cidr.hosts())
