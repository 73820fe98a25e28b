"""CybORG 4 whose red agents do what the caller chooses, and what CybORG shows these agents."""

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from workflow_rl.agents.team import ACTS, BUSY, CUT_OFF
from workflow_rl.cage4.compiled import actions, constants
from workflow_rl.cage4.compiled.red_tables import STATES
from workflow_rl.cage4.cyborg.sped_up import SpedUpNetwork
from workflow_rl.cage4.cyborg.stock import CyborgSimulator, StockSimulator
from workflow_rl.cage4.red import red_api
from workflow_rl.cage4.scenario.scenario4 import HOST_NAMES, ZONES
from workflow_rl.cage4.scenario.simulator_protocol import StepResult

NOWHERE = "0.0.0.0"
"""The address of a host that is not in this network. No agent knows this address."""


class RedSide(CyborgSimulator):
    """A mixin that makes a simulator of CybORG a `simulator_protocol.RedSideSimulator`."""

    def reset(self, seed: int | None = None) -> tuple[NDArray[np.int64], ...]:
        observations = super().reset(seed)
        self.choose([0] * constants.N_RED, [red_api.FIRST_KNOWN] * constants.N_RED)
        for agent, name in enumerate(red_api.RED_TEAM):
            puppet = self._controller.agent_interfaces[name].agent
            puppet.told = functools.partial(self._told, agent)
        self._remember()
        self._done = False
        return observations

    def choose(self, choices: Sequence[int], sessions: Sequence[int]) -> None:
        self._choices = red_api.checked_red_choices(choices).tolist()
        self._sessions = red_api.checked_red_sessions(sessions).tolist()

    def step(self, actions: Sequence[int], messages: NDArray[Any] | None = None) -> StepResult:
        result = super().step(actions, messages)
        try:
            self._remember()
        except Exception as error:
            raise self._failure(error) from error
        self._done = result.done
        return result

    def _told(self, agent: int) -> Any:
        """Return the agent's choice as CybORG's action."""
        name = red_api.RED_TEAM[agent]
        state = self._controller.state
        action = red_api.RED_CHOICES[agent][self._choices[agent]]
        space = self._controller.agent_interfaces[name].action_space
        classes = {action_class.__name__: action_class for action_class in space.actions}
        if action.kind == "Sleep":
            return classes["Sleep"]()
        session = self._sessions[agent]
        if session == red_api.FIRST_KNOWN:
            session = self._first_known(name)
        parameters = {
            "session": session,
            "agent": name,
            "subnet": state.subnet_name_to_cidr.get(action.target),
            "hostname": action.target,
            "ip_address": state.hostname_ip_map.get(action.target, NOWHERE),
        }
        needed = space.action_params[classes[action.kind]]
        return classes[action.kind](**{key: parameters[key] for key in needed})

    def _first_known(self, name: str) -> int:
        for ident, session in self._controller.state.sessions[name].items():
            if hasattr(session, "ports"):  # A RedAbstractSession.
                return int(ident)
        return next(iter(self._known_ids(name)), 0)

    def _known_ids(self, name: str) -> list[int]:
        sessions = self._controller.agent_interfaces[name].action_space.server_session
        return [ident for ident, is_known in sessions.items() if is_known]

    def red_sessions(self) -> list[list[int]]:
        return [self._known_ids(name) for name in red_api.RED_TEAM]

    def _remember(self) -> None:
        """Let the active agents remember the last step, as CybORG's agents do when they choose."""
        # CybORG combines the parts of an observation in place.
        self._seen = [
            self._controller.observation[name].get_combined_observation().data
            for name in red_api.RED_TEAM
        ]
        for name, seen in zip(red_api.RED_TEAM, self._seen, strict=True):
            interface = self._controller.agent_interfaces[name]
            if interface.active:
                interface.agent.remember(dict(seen))

    def red_row(self) -> NDArray[np.uint8]:
        seen = [self._seen_by(agent) for agent in range(constants.N_RED)]
        observations, status, masks = zip(*seen, strict=True)
        return np.concatenate([*observations, status, *masks], dtype=np.uint8, casting="unsafe")

    def _seen_by(self, agent: int) -> tuple[NDArray[np.int8], int, NDArray[np.bool_]]:
        name = red_api.RED_TEAM[agent]
        interface = self._controller.agent_interfaces[name]
        subnets = interface.action_space.subnet
        subnet_of = self._controller.state.subnet_name_to_cidr
        zones = [bool(subnets.get(subnet_of[ZONES[zone]])) for zone in red_api.RED_ZONES[agent]]
        hosts = self._host_features(agent)
        self._add_sessions(agent, hosts)
        is_free = bool(interface.active and not self._controller.actions_in_progress.get(name))
        has_address, has_name = hosts[[red_api.ADDRESS, red_api.NAME]].astype(np.bool_)
        mask = red_api.known_choices(agent, has_address, has_name, np.array(zones))
        mask[1:] &= is_free
        free_or_busy = ACTS if is_free else BUSY
        status = CUT_OFF if self._done else free_or_busy
        facts = self._facts(agent)
        obs = np.concatenate([facts, zones, hosts.ravel()], dtype=np.int8, casting="unsafe")
        return obs, status, mask

    def _facts(self, agent: int) -> NDArray[np.int8]:
        """Return the facts before the known zones: see `red_api`."""
        seen = self._seen[agent]
        facts = np.zeros(red_api.KNOWN_ZONES, np.int8)
        facts[self.phase] = 1
        facts[red_api.SUCCESS + seen["success"].value - 1] = 1
        facts[red_api.ACTIVE] = self._controller.agent_interfaces[red_api.RED_TEAM[agent]].active
        kind = type(seen.get("action")).__name__
        if kind in actions.RED_ACTIONS and kind != "Sleep":
            # The last place is for InvalidAction, whose number is higher.
            place = min(actions.RED_ACTIONS.index(kind), actions.WITHDRAW + 1)
            facts[red_api.KIND + place] = 1
        return facts

    def _host_features(self, agent: int) -> NDArray[np.int8]:
        """Return the features `[N_FEATURES, hosts]`, without the features of sessions."""
        seen = self._seen[agent]
        interface = self._controller.agent_interfaces[red_api.RED_TEAM[agent]]
        space = interface.action_space
        names, addresses = self._names_and_addresses(agent)
        hosts = np.zeros((red_api.N_FEATURES, len(names)), np.int8)
        hosts[red_api.ADDRESS] = [bool(space.ip_address.get(address)) for address in addresses]
        hosts[red_api.NAME] = [bool(space.hostname.get(name)) for name in names]
        is_server = constants.PLACE[red_api.RED_HOSTS[agent]] >= constants.FIRST_SERVER
        hosts[red_api.SERVER] = is_server & hosts[red_api.ADDRESS]
        is_own = constants.RED_OF_ZONE[constants.ZONE[red_api.RED_HOSTS[agent]]] == agent
        hosts[red_api.OWN] = is_own & hosts[red_api.ADDRESS]
        for i, (name, address) in enumerate(zip(names, addresses, strict=True)):
            by_name, by_address = seen.get(name), seen.get(str(address))
            hosts[red_api.SHOWN, i] = isinstance(by_name, dict) or isinstance(by_address, dict)
            hosts[red_api.GAINED, i] = "Sessions" in (by_address or ())
            known = interface.agent.host_states.get(str(address))
            if known is not None:
                hosts[red_api.STATE + STATES.index(known["state"]), i] = 1
        return hosts

    def _add_sessions(self, agent: int, hosts: NDArray[np.int8]) -> None:
        """Write the features of an agent's sessions."""
        name = red_api.RED_TEAM[agent]
        sessions = self._controller.state.sessions[name]
        names, addresses = self._names_and_addresses(agent)
        for session in sessions.values():
            i = names.index(session.hostname)
            hosts[red_api.SESSION, i] = 1
            hosts[red_api.ROOT, i] |= session.username == "root"
            hosts[red_api.ABSTRACT, i] |= hasattr(session, "ports")
        acting = sessions.get(self._first_known(name))
        if acting is not None:
            hosts[red_api.ACTS_FROM, names.index(acting.hostname)] = 1
            for i, address in enumerate(addresses):
                ports = getattr(acting, "ports", {}).get(address, ())
                hosts[red_api.PORT : red_api.STATE, i] = np.isin(red_api.PORTS, ports)

    def _names_and_addresses(self, agent: int) -> tuple[list[str], list[Any]]:
        names = [HOST_NAMES[host] for host in red_api.RED_HOSTS[agent]]
        return names, [self._controller.state.hostname_ip_map.get(name) for name in names]


class SpedUpRedSide(RedSide, SpedUpNetwork):
    """See `RedSide`."""


class StockRedSide(RedSide, StockSimulator):
    """See `RedSide`."""
