"""Red in CybORG, told what to do by index, and what CybORG shows it, in plain values."""

from __future__ import annotations

import importlib
from enum import Enum
from ipaddress import IPv4Address, IPv4Network
from typing import Any

import numpy as np

from workflow_rl.cage2.cyborg.network import address_in, network_parts
from workflow_rl.cage2.cyborg.speedups import CYBORG, SpedUpSimulator
from workflow_rl.cage2.env.cage2_env import Cage2Env
from workflow_rl.cage2.reds import REDS

NO_SESSION, USER, ROOT = range(3)


class ShownRed:
    """What Red has been shown in an env of CybORG's, action after action."""

    def __init__(self, env: Cage2Env) -> None:
        self._env = env
        self.forget()

    def forget(self) -> None:
        """Begin an episode, in which Red has a privileged session where it begins."""
        scenario = self._env.scenario
        self._session = np.full(len(scenario.hosts), NO_SESSION)
        self._session[scenario.hosts.index(scenario.red_host)] = ROOT

    def after(self, action: str) -> dict[str, Any]:
        """Return what Red is shown now, and what `Cage2RedEnv` makes of it.

        Call it once after each step: it follows Red's sessions. action: Red's, by its name in
        `Scenario.red_action_names`.
        """
        observation = in_plain_values(network_parts(self._env)[2])
        succeeded = None if action == "Sleep" else observation["success"]
        self._conclude(action, succeeded)
        state, known, _ = network_parts(self._env)
        scanned = state.sessions["Red"][0].ports
        facts = {
            f"{subnet} subnet": state.subnet_name_to_cidr[subnet]
            for subnet in self._env.scenario.subnets
        }
        is_known = {name: known["subnet"].get(cidr, False) for name, cidr in facts.items()}
        for name, session in zip(self._env.scenario.hosts, self._session.tolist(), strict=True):
            address = address_in(state, name)
            is_known |= {
                f"{name} address": known["ip_address"].get(address, False),
                f"{name} name": known["hostname"].get(name, False),
                f"{name} ports": address in scanned,
                f"{name} user": session >= USER,
                f"{name} root": session == ROOT,
            }
        numbers = [*is_known.values(), succeeded is True, succeeded is False]
        needed = {"DiscoverRemoteSystems": "subnet", "DiscoverNetworkServices": "address"}
        needed["ExploitRemoteService"] = "ports"
        for name in self._env.scenario.red_action_names:
            kind, _, target = name.partition(" ")
            numbers.append(not target or is_known[f"{target} {needed.get(kind, 'name')}"])
        return {"red_observation": observation, "red_row": [int(number) for number in numbers]}

    def _conclude(self, action: str, succeeded: bool | None) -> None:
        """Update what Red thinks of its sessions, from the outcome of an action on a host."""
        kind, _, target = action.partition(" ")
        if kind == "ExploitRemoteService" and succeeded:
            host = self._env.scenario.hosts.index(target)
            self._session[host] = max(self._session[host], USER)
        elif kind in ("PrivilegeEscalate", "Impact"):
            self._session[self._env.scenario.hosts.index(target)] = (
                ROOT if succeeded else NO_SESSION
            )


class ToldRed:
    """A red agent of an env of CybORG's, which does what it is told.

    CybORG's actions on a host name its address or, if a session on the host is needed, its name.

    Attributes:
        told: the next action, an index into `Scenario.red_action_names`.
    """

    def __init__(self, env: Cage2Env) -> None:
        simulator: Any = env._simulator
        self._env = env
        self._seen = ShownRed(env)
        is_sped_up = isinstance(simulator, SpedUpSimulator)
        module = "shared.actions"
        published = importlib.import_module(f"csle_cyborg.{module}")
        self._actions = CYBORG[module] if is_sped_up else published
        # The env plays against this agent alone.
        name = REDS.member(ToldRed).name
        simulator._red_agents[name] = self
        env._simulators[name] = simulator
        env.red_agent = ToldRed
        self.end_episode()

    def end_episode(self) -> None:
        """Forget the episode."""
        self.told = 0
        self._seen.forget()

    def train(self, results: Any) -> None:
        """Learn nothing."""

    def get_action(self, observation: Any, action_space: Any) -> Any:
        """Return the action that it was told."""
        kind, _, target = self._env.scenario.red_action_names[self.told].partition(" ")
        make, state = getattr(self._actions, kind), network_parts(self._env)[0]
        if not target:
            return make()
        facts: dict[str, Any] = {"session": 0, "agent": "Red"}
        if target in self._env.scenario.subnets:
            return make(**facts, subnet=state.subnet_name_to_cidr[target])
        if kind in ("PrivilegeEscalate", "Impact"):
            return make(**facts, hostname=target)
        return make(**facts, ip_address=address_in(state, target))

    def shown(self) -> dict[str, Any]:
        """Return what Red is shown: see `ShownRed.after`."""
        return self._seen.after(self._env.scenario.red_action_names[self.told])


def in_plain_values(value: Any) -> Any:
    """Return what CybORG shows an agent in plain values: see `attackers.Seen`."""
    if isinstance(value, dict):
        return {name: in_plain_values(shown) for name, shown in value.items()}
    if isinstance(value, list):
        return [in_plain_values(shown) for shown in value]
    if isinstance(value, Enum):
        if type(value).__name__ == "TrinaryEnum":
            return {"TRUE": True, "FALSE": False}.get(value.name)
        return value.name
    return str(value) if isinstance(value, IPv4Address | IPv4Network) else value
