"""The sped-up csle-cyborg with a red agent of the user's own. Episodes equal csle-cyborg's.

The user's class derives from csle-cyborg's `BaseAgent`. Its code imports actions, enums and the
random generator from the published csle-cyborg, but the simulator has a private copy of these. So
this module copies the class by value. The copied class uses the private copy of csle-cyborg."""

import importlib
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import cloudpickle

from workflow_rl.cage.attackers import AttackerError
from workflow_rl.cage2.cyborg.imports import no_stable_baselines3
from workflow_rl.cage2.cyborg.private_cyborg import PACKAGE
from workflow_rl.cage2.cyborg.speedups import CYBORG, SpedUpSimulator
from workflow_rl.cage2.cyborg.stock import made_red
from workflow_rl.cage2.scenario.scenario import Scenario

ALL_OF_A_HOST = {
    "System info": "All",
    "Sessions": "All",
    "Interfaces": "All",
    "User info": "All",
    "Processes": ["All"],
}


class OwnRedSimulator(SpedUpSimulator):
    """A network that a user's own red agent attacks. `reset` takes only this agent's name.

    The agent sees what csle-cyborg shows an agent: the whole observation, and the whole action
    space. The simulator never calls the agent's `train`. The agent must draw all random numbers
    from Python's `random`, so that the episode's seed determines them.

    red: the agent's class, or an object of the class, which is copied."""

    def __init__(self, name: str, red: Any, scenario: Scenario | None = None) -> None:
        super().__init__(scenario)
        with no_stable_baselines3():
            published = importlib.import_module("csle_cyborg.agents.simple_agents.base_agent")
        agent = made_red(name, red, published.BaseAgent, privately)
        facts = self._state.scenario.get_agent_info("Red")
        self._space = CYBORG["shared.action_space"].ActionSpace(None, "Red", facts.allowed_subnets)
        # The constructor would take the actions from the published csle-cyborg.
        actions = CYBORG["shared.actions"]
        self._space.actions = {getattr(actions, name): True for name in facts.actions}
        self._space.create_action_params()
        self._action_type = CYBORG["shared.actions.action"].Action
        agent.set_initial_values(
            action_space=self._space.get_max_action_space(),
            observation=CYBORG["shared.observation"].Observation().data,
        )
        self._red_agents = {name: agent}

    def _begin_red(self) -> dict[str, Any]:
        """Follow `AgentInterface.reset` and `set_init_obs`."""
        self._space.reset("Red")
        everything = self._state.get_true_state(dict.fromkeys(self._state.hosts, ALL_OF_A_HOST))
        self._space.update(self._filtered(everything, list(self._state.subnets)), False)
        return self._space.get_action_space()

    def _show_red(self, obs: Any) -> None:
        allowed = self._state.scenario.get_agent_info("Red").allowed_subnets
        cidrs = [self._state.subnet_name_to_cidr[name] for name in allowed]
        self._red_obs = self._filtered(obs, cidrs)
        self._space.update(self._red_obs)

    def _filtered(self, obs: Any, cidrs: Any) -> Any:
        """Follow `_filter_obs`."""
        obs.filter_addresses(ips=self._state.ip_addresses, cidrs=cidrs, include_localhost=False)
        return obs.data

    def _is_valid_for_red(self, action: Any) -> bool:
        """Follow `test_valid_action`."""
        if not isinstance(action, self._action_type):
            (name,) = self._red_agents
            raise TypeError(
                f"red_agent: {name} chose {action!r}, which is not an action of {PACKAGE}: import "
                f"the actions from {PACKAGE}.shared.actions"
            )
        space = self._red_knows
        if not space["action"].get(type(action), False):
            return False
        return all(
            space[name].get(value, False)
            for name, value in action.get_params().items()
            if name in space
        )


def privately(red: Any) -> Any:
    """Return a copy of a class or object. The copy uses the private copy of csle-cyborg.

    This also copies functions and classes of the same package. Raises AttackerError if a function
    or class cannot be copied."""
    kind = red if isinstance(red, type) else type(red)
    with _by_value(kind.__module__.partition(".")[0]):
        try:
            return CYBORG.loads(CYBORG.dumps(red))
        except Exception as error:
            raise AttackerError(f"{kind.__qualname__} cannot be copied: {error}") from error


@contextmanager
def _by_value(package: str) -> Iterator[None]:
    module = sys.modules.get(package)
    if module is None or package in ("__main__", PACKAGE):  # cloudpickle copies these by itself.
        yield
        return
    cloudpickle.register_pickle_by_value(module)
    try:
        yield
    finally:
        cloudpickle.unregister_pickle_by_value(module)
