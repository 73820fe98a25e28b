"""The published CybORG, unmodified, with the challenge's own wrapper."""

import copy
import importlib
import random
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import cloudpickle
import numpy as np
from numpy.typing import NDArray

from workflow_rl.cage.attackers import AttackerError
from workflow_rl.cage2.compiled.tables import PRIVILEGED_USERS
from workflow_rl.cage2.cyborg.imports import no_stable_baselines3
from workflow_rl.cage2.scenario.actions import RED_ACTIONS
from workflow_rl.cage2.scenario.scenario import Scenario
from workflow_rl.cage2.scenario.simulator_protocol import Facts
from workflow_rl.cage2.scenario2 import RED_AGENTS, SUCCESSES

CAGE1_COMMIT, CAGE2_COMMIT = "6d5d9fd", "26ce1c1"
_RED_ACTION_INDEX = {name: index for index, name in enumerate(RED_ACTIONS)}


def red_action_index(action: Any) -> int:
    """Return the index of a CybORG action in RED_ACTIONS, or -1 if the action is not among them."""
    return _RED_ACTION_INDEX.get(type(action).__name__, -1)


def red_target_index(action: Any, state: Any, indices: Mapping[str, int]) -> int:
    """Return the index of the host or subnet that a CybORG action names, or -1.

    indices: the index of each name of `Scenario.red_targets`."""
    facts = vars(action)
    if "hostname" in facts:
        return indices[facts["hostname"]]
    if "ip_address" in facts:
        return indices[state.ip_addresses[facts["ip_address"]]]
    if "subnet" in facts:
        return indices[state.subnets[facts["subnet"]].name]
    return -1


def hosts_held(state: Any, hosts: Sequence[str]) -> tuple[int, int]:
    """Return `Simulator.held`, read from CybORG's state."""
    held = owned = 0
    for ident, session in state.sessions["Red"].items():
        if ident != 0:  # Session 0 is Red's foothold, which nothing ends and no cost counts.
            bit = 1 << hosts.index(session.host)
            held |= bit
            if session.username in PRIVILEGED_USERS:
                owned |= bit
    return held, owned


class ChallengeSimulator:
    """An unmodified CybORG with its `ChallengeWrapper`.

    Args:
        cyborg_class: CybORG's main class.
        given: the scenario in the form that `cyborg_class` needs.
        challenge_wrapper: the class of the wrapper."""

    def __init__(
        self, cyborg_class: Any, scenario: Scenario, given: Any, agents: Any, challenge_wrapper: Any
    ) -> None:
        self._hosts = scenario.hosts
        self._red_target_index = {name: index for index, name in enumerate(scenario.red_targets)}
        self._random_state = _RandomState()
        with self._random_state:
            cyborg = cyborg_class(given, "sim", agents={"Red": agents.SleepAgent})
            self._wrapper = challenge_wrapper(env=cyborg, agent_name="Blue")
        names = tuple(map(str, self._wrapper.get_attr("possible_actions")))
        if names != scenario.action_names:
            raise RuntimeError(
                f"the CybORG that is installed offers Blue {len(names)} actions, and {scenario} "
                f"has {len(scenario.action_names)}: it is another challenge's"
            )
        self._controller = cyborg.environment_controller
        self._red_agents = {name: getattr(agents, name)() for name in RED_AGENTS}
        self._blue_table = self._wrapper.env.env.env

    def play_against(self, name: str, red: Any) -> None:
        """Make a user's red agent the only red agent from now on. Raises AttackerError.

        name: the agent's name for `reset`. red: the agent's class, or an object, which is copied.
        """
        kinds = type(self._red_agents["B_lineAgent"]).__mro__
        base = next(kind for kind in kinds if kind.__name__ == "BaseAgent")
        interface = self._controller.agent_interfaces["Red"]
        with self._random_state:
            agent = made_red(name, red, base, copy.deepcopy)
            agent.set_initial_values(
                action_space=interface.action_space.get_max_action_space(),
                observation=type(self._controller.observation["Red"])().data,
            )
        self._red_agents = {name: agent}

    def reset(self, seed: int, red_agent: str) -> NDArray[Any]:
        self._controller.agent_interfaces["Red"].agent = self._red_agents[red_agent]
        with self._random_state:
            random.seed(seed)
            result = self._wrapper.reset()
        # csle-cyborg returns (obs, info), and CAGE-1's CybORG returns obs.
        return result[0] if isinstance(result, tuple) else result

    def step(self, action: int) -> tuple[NDArray[Any], float]:
        with self._random_state:
            obs, reward, *_ = self._wrapper.step(action)
        return obs, float(reward)

    @property
    def facts(self) -> Facts:
        controller = self._controller
        red = controller.action["Red"]
        seen = controller.observation["Blue"].data
        caught = []
        for host in self._hosts:
            processes = seen.get(host, {}).get("Processes", ())
            # Blue's observation also lists a new decoy with a PID, but without connections.
            caught.append(
                any("PID" in process and "Connections" in process for process in processes)
            )
        # CAGE-2's wrapper removes the success from Blue's observation. CAGE-1's wrapper keeps it.
        success = seen.get("success", getattr(self._blue_table, "success", None))
        return (
            SUCCESSES.index(str(success)),
            red_action_index(red),
            red_target_index(red, controller.state, self._red_target_index),
            SUCCESSES.index(str(controller.observation["Red"].data["success"])),
            np.array(caught),
        )

    @property
    def held(self) -> tuple[int, int]:
        return hosts_held(self._controller.state, self._hosts)

    @property
    def texts(self) -> tuple[str, str]:
        return str(self._controller.action["Blue"]), str(self._controller.action["Red"])

    def save(self) -> bytes:
        return bytes(cloudpickle.dumps(vars(self)))

    def load(self, snapshot: bytes) -> None:
        vars(self).update(cloudpickle.loads(snapshot))

    def __reduce__(self) -> tuple[Any, ...]:
        return _copied, (self.save(),)


def _copied(snapshot: bytes) -> ChallengeSimulator:
    simulator = object.__new__(ChallengeSimulator)
    simulator.load(snapshot)
    return simulator


class _RandomState:
    """In this context, Python's global `random` has one simulator's state. At the end, `random`
    gets the caller's state again."""

    def __init__(self) -> None:
        self._state = random.Random(0).getstate()

    def __enter__(self) -> None:
        self._outer = random.getstate()
        random.setstate(self._state)

    def __exit__(self, *error: object) -> None:
        self._state = random.getstate()
        random.setstate(self._outer)


def made_red(name: str, red: Any, base: type, copied: Callable[[Any], Any]) -> Any:
    """Return a user's red agent: a new object of its class, or a copy of its object.

    base: `BaseAgent` of the CybORG that plays. copied: copies a class or an object. Raises
    AttackerError."""
    red_class = red if isinstance(red, type) else type(red)
    if not issubclass(red_class, base):
        raise AttackerError(
            f"{name} does not derive from BaseAgent of {base.__module__}, the CybORG that plays: "
            "it takes the actions of another CybORG for invalid ones"
        )
    agent = copied(red)
    return agent() if isinstance(agent, type) else agent


def stock_simulator(scenario: Scenario) -> ChallengeSimulator:
    agents = importlib.import_module("csle_cyborg.agents")
    main = importlib.import_module("csle_cyborg.main")
    wrapper = importlib.import_module("csle_cyborg.agents.wrappers.challenge_wrapper")
    described = scenario.description()
    return ChallengeSimulator(main.Main, scenario, described, agents, wrapper.ChallengeWrapper)


def cage1_simulator(scenario: Scenario) -> ChallengeSimulator:
    """Return CAGE Challenge 1's own simulator. Raises ModuleNotFoundError without a package CybORG,
    and RuntimeError if the installed package CybORG belongs to another challenge."""
    repository = f"github.com/cage-challenge/cage-challenge-1 at {CAGE1_COMMIT}"
    try:
        with no_stable_baselines3():
            package = importlib.import_module("CybORG")
            agents = importlib.import_module("CybORG.Agents")
            wrapper = importlib.import_module("CybORG.Agents.Wrappers.ChallengeWrapper")
    except ModuleNotFoundError as error:
        if not (error.name or "").startswith("CybORG"):
            raise
        raise ModuleNotFoundError(
            "CAGE-1's package CybORG is not installed: simulator='compiled' plays without it, or "
            f"clone {repository} and `pip install -e` its CybORG folder",
            name="CybORG",
        ) from None
    assert package.__file__ is not None
    path = Path(package.__file__).parent / "Shared" / "Scenarios" / "Scenario2.yaml"
    if path.exists():
        raise RuntimeError(
            f"the CybORG that is installed is another challenge's: {scenario} needs {repository}"
        )
    from unittest import mock  # Imported here, because the import takes 30 ms.

    # CybORG would read the images of a scenario file from its own folder only. So a function that
    # returns the parsed scenario replaces CybORG's parser.
    controller = importlib.import_module("CybORG.Simulator.SimulationController")
    parsed = mock.patch.object(
        controller.SimulationController, "_parse_scenario", return_value=scenario.description()
    )
    with parsed:
        return ChallengeSimulator(
            package.CybORG, scenario, str(path), agents, wrapper.ChallengeWrapper
        )
