"""CybORG 4 whose red agents do what they are told, and what CybORG shows those agents."""

from __future__ import annotations

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
from workflow_rl.cage4.red.red_api import (
    FIRST_KNOWN,
    RED_CHOICES,
    RED_HOSTS,
    RED_TEAM,
    RED_ZONES,
    checked_red_choices,
    checked_red_sessions,
)
from workflow_rl.cage4.scenario.scenario4 import HOST_NAMES, ZONES
from workflow_rl.cage4.scenario.simulator_protocol import StepResult

NOWHERE = "0.0.0.0"
"""The address of a host that this network does not have. No agent knows it."""


class RedSide(CyborgSimulator):
    """See `simulator_protocol.RedSideSimulator`. To be mixed into a simulator of CybORG."""

    def reset(self, seed: int | None = None) -> tuple[NDArray[np.int64], ...]:
        observations = super().reset(seed)
        self.choose([0] * constants.N_RED, [FIRST_KNOWN] * constants.N_RED)
        for agent, name in enumerate(RED_TEAM):
            puppet = self._controller.agent_interfaces[name].agent
            puppet.told = functools.partial(self._told, agent)
        self._remember()
        self._done = False
        return observations

    def choose(self, choices: Sequence[int], sessions: Sequence[int]) -> None:
        self._choices = checked_red_choices(choices).tolist()
        self._sessions = checked_red_sessions(sessions).tolist()

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
        choice, name, state = self._choices[agent], RED_TEAM[agent], self._controller.state
        action = RED_CHOICES[agent][choice]
        space = self._controller.agent_interfaces[name].action_space
        classes = {action_class.__name__: action_class for action_class in space.actions}
        if action.kind == "Sleep":
            return classes["Sleep"]()
        session = self._sessions[agent]
        if session == FIRST_KNOWN:
            session = self._first_known(name)
        parameters = {
            "session": session,
            "agent": name,
            "subnet": state.subnet_name_to_cidr.get(action.target),
            "hostname": action.target,
            "ip_address": state.hostname_ip_map.get(action.target, NOWHERE),
        }
        wanted = space.action_params[classes[action.kind]]
        return classes[action.kind](**{key: parameters[key] for key in wanted})

    def _first_known(self, name: str) -> int:
        for ident, session in self._controller.state.sessions[name].items():
            if hasattr(session, "ports"):  # A RedAbstractSession.
                return int(ident)
        return next(iter(self._known_ids(name)), 0)

    def _known_ids(self, name: str) -> list[int]:
        sessions = self._controller.agent_interfaces[name].action_space.server_session
        return [ident for ident, is_known in sessions.items() if is_known]

    def red_sessions(self) -> list[list[int]]:
        return [self._known_ids(name) for name in RED_TEAM]

    def _remember(self) -> None:
        """Let the active agents remember the last step, as they do when they choose. CybORG
        combines the parts of an observation in place."""
        self._seen = [
            self._controller.observation[name].get_combined_observation().data for name in RED_TEAM
        ]
        for name, seen in zip(RED_TEAM, self._seen, strict=True):
            interface = self._controller.agent_interfaces[name]
            if interface.active:
                interface.agent.remember(dict(seen))

    def red_row(self) -> NDArray[np.uint8]:
        observations, status, masks = zip(*map(self._seen_by, range(constants.N_RED)), strict=True)
        return np.concatenate([*observations, status, *masks], dtype=np.uint8, casting="unsafe")

    def _seen_by(self, agent: int) -> tuple[NDArray[np.int8], int, NDArray[np.bool_]]:
        """Return an agent's observation, status and mask."""
        name, seen, state = RED_TEAM[agent], self._seen[agent], self._controller.state
        interface = self._controller.agent_interfaces[name]
        space = interface.action_space
        names = [HOST_NAMES[host] for host in RED_HOSTS[agent]]
        addresses = [state.hostname_ip_map.get(host) for host in names]
        hosts = np.zeros((red_api.N_FEATURES, len(names)), np.int8)
        hosts[red_api.ADDRESS] = [bool(space.ip_address.get(at)) for at in addresses]
        hosts[red_api.NAME] = [bool(space.hostname.get(host)) for host in names]
        is_server = constants.PLACE[RED_HOSTS[agent]] >= constants.FIRST_SERVER
        hosts[red_api.SERVER] = is_server & hosts[red_api.ADDRESS]
        is_own = constants.RED_OF_ZONE[constants.ZONE[RED_HOSTS[agent]]] == agent
        hosts[red_api.OWN] = is_own & hosts[red_api.ADDRESS]
        for place, (host, at) in enumerate(zip(names, addresses, strict=True)):
            shown = [seen.get(key) for key in (host, str(at)) if isinstance(seen.get(key), dict)]
            hosts[red_api.SHOWN, place] = bool(shown)
            hosts[red_api.GAINED, place] = "Sessions" in (seen.get(str(at)) or ())
            known = interface.agent.host_states.get(str(at))
            if known is not None:
                hosts[red_api.STATE + STATES.index(known["state"]), place] = 1
        of_agent, acts_with = state.sessions[name], self._first_known(name)
        for session in of_agent.values():
            place = names.index(session.hostname)
            hosts[red_api.SESSION, place] = 1
            hosts[red_api.ROOT, place] |= session.username == "root"
            hosts[red_api.ABSTRACT, place] |= hasattr(session, "ports")
        if acts_with in of_agent:
            acting = of_agent[acts_with]
            hosts[red_api.ACTS_FROM, names.index(acting.hostname)] = 1
            for place, at in enumerate(addresses):
                ports = getattr(acting, "ports", {}).get(at, ())
                hosts[red_api.PORT : red_api.STATE, place] = np.isin(red_api.PORTS, ports)
        zones = [
            bool(space.subnet.get(state.subnet_name_to_cidr[ZONES[zone]]))
            for zone in RED_ZONES[agent]
        ]
        facts = np.zeros(red_api.KNOWN_ZONES, np.int8)
        facts[self.phase] = 1
        facts[red_api.SUCCESS + seen["success"].value - 1] = 1
        facts[red_api.ACTIVE] = interface.active
        kind = type(seen.get("action")).__name__
        if kind in actions.RED_ACTIONS and kind != "Sleep":
            facts[red_api.KIND + min(actions.RED_ACTIONS.index(kind), actions.WITHDRAW + 1)] = 1
        is_free = interface.active and not self._controller.actions_in_progress.get(name)
        addresses, names = hosts[[red_api.ADDRESS, red_api.NAME]].astype(np.bool_)
        mask = red_api.known_choices(agent, addresses, names, np.array(zones))
        mask[1:] &= bool(is_free)
        status = CUT_OFF if self._done else ACTS if is_free else BUSY
        obs = np.concatenate([facts, zones, hosts.ravel()], dtype=np.int8, casting="unsafe")
        return obs, status, mask


class SpedUpRedSide(RedSide, SpedUpNetwork):
    """See `RedSide`."""


class StockRedSide(RedSide, StockSimulator):
    """See `RedSide`."""
