"""A red agent of CybORG whose actions a caller chooses, and Red's observations in plain values."""

import importlib
from enum import Enum
from ipaddress import IPv4Address, IPv4Network
from typing import Any

from workflow_rl.cage2.cyborg.cyborg_state import address_in, network_parts
from workflow_rl.cage2.cyborg.speedups import CYBORG, SpedUpSimulator
from workflow_rl.cage2.env.cage2_env import Cage2Env
from workflow_rl.cage2.red.knowledge import RedKnowledge
from workflow_rl.cage2.red.roster import REDS


class ShownRed:
    """Collects what CybORG shows Red in an env, action after action."""

    def __init__(self, env: Cage2Env) -> None:
        self._env = env
        self._knowledge = RedKnowledge(env.scenario)
        self.forget = self._knowledge.forget

    def after(self, action: str) -> dict[str, Any]:
        """Return Red's observation, and the row that `Cage2RedEnv` would show.

        Call this once after each step. action: Red's action, one of `Scenario.red_action_names`."""
        state, known, shown = network_parts(self._env)
        observation = in_plain_values(shown)
        succeeded = None if action == "Sleep" else observation["success"]
        scanned = state.sessions["Red"][0].ports
        facts = {
            f"{subnet} subnet": known["subnet"].get(state.subnet_name_to_cidr[subnet], False)
            for subnet in self._env.scenario.subnets
        }
        for name in self._env.scenario.hosts:
            address = address_in(state, name)
            facts |= {
                f"{name} address": known["ip_address"].get(address, False),
                f"{name} name": known["hostname"].get(name, False),
                f"{name} ports": address in scanned,
            }
        row = self._knowledge.after(action, succeeded, facts)
        return {"red_observation": observation, "red_row": row.tolist()}


class ToldRed:
    """A red agent of an env of CybORG, whose actions a caller chooses.

    An action of CybORG that needs a session on a host names the host. Other actions on a host name
    the host's address.

    Attributes:
        told: the next action, an index into `Scenario.red_action_names`."""

    def __init__(self, env: Cage2Env) -> None:
        simulator: Any = env._simulator
        self._env = env
        self._seen = ShownRed(env)
        is_sped_up = isinstance(simulator, SpedUpSimulator)
        module = "shared.actions"
        published = importlib.import_module(f"csle_cyborg.{module}")
        self._actions = CYBORG[module] if is_sped_up else published
        # From now on, the env plays only against this agent.
        name = REDS.member(ToldRed).name
        simulator._red_agents[name] = self
        env._simulators[name] = simulator
        env.red_agent = ToldRed
        self.end_episode()

    def end_episode(self) -> None:
        self.told = 0
        self._seen.forget()

    def train(self, results: Any) -> None:
        """Learn nothing."""

    def get_action(self, observation: Any, action_space: Any) -> Any:
        kind, _, target = self._env.scenario.red_action_names[self.told].partition(" ")
        make = getattr(self._actions, kind)
        state, *_ = network_parts(self._env)
        if not target:
            return make()
        facts: dict[str, Any] = {"session": 0, "agent": "Red"}
        if target in self._env.scenario.subnets:
            return make(**facts, subnet=state.subnet_name_to_cidr[target])
        if kind in ("PrivilegeEscalate", "Impact"):
            return make(**facts, hostname=target)
        return make(**facts, ip_address=address_in(state, target))

    def shown(self) -> dict[str, Any]:
        """Return what CybORG shows Red: see `ShownRed.after`."""
        return self._seen.after(self._env.scenario.red_action_names[self.told])


def in_plain_values(value: Any) -> Any:
    """Return an observation of CybORG in plain values: see `attackers.Seen.observation`."""
    if isinstance(value, dict):
        return {name: in_plain_values(shown) for name, shown in value.items()}
    if isinstance(value, list):
        return [in_plain_values(shown) for shown in value]
    if isinstance(value, Enum):
        if type(value).__name__ == "TrinaryEnum":
            return {"TRUE": True, "FALSE": False}.get(value.name)
        return value.name
    return str(value) if isinstance(value, IPv4Address | IPv4Network) else value
