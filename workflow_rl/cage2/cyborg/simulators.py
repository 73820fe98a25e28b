"""The simulators of CAGE Challenge 2 (Scenario 2) behind one interface.

Only this module and `private_cyborg` import CybORG, and neither ever imports torch, so that worker
processes stay small. A simulator is imported when it is made.
"""

from __future__ import annotations

import importlib
import random
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from workflow_rl.cage2.cyborg.pickles import dumps, loads
from workflow_rl.cage2.cyborg.private_cyborg import no_stable_baselines3
from workflow_rl.cage2.scenario2 import (
    ACTION_NAMES,
    HOSTS,
    RED_ACTIONS,
    RED_AGENTS,
    RED_TARGETS,
    SUCCESSES,
    scenario2,
)

SIMULATORS = ("cyborg", "cyborg-stock", "cyborg-upstream", "compiled")
OWN_RED = "own"
"""What a simulator calls the red agent whose class it was given."""
UPSTREAM_COMMIT = "26ce1c1"
_RED_ACTION_INDEX = {name: index for index, name in enumerate(RED_ACTIONS)}
_RED_TARGET_INDEX = {name: index for index, name in enumerate(RED_TARGETS)}


class Simulator(Protocol):
    """One simulated network that plays episodes. Copies and pickles go on as the original would.

    An observation is an array of 52 zeros and ones (any integer dtype), which the next call may
    overwrite. Successes are indices into `SUCCESSES`, Red's action and target into `RED_ACTIONS`
    and `RED_TARGETS` (-1: none). Texts are CybORG's. No call changes the caller's `random` state.
    """

    def reset(self, seed: int, red_agent: str) -> NDArray[Any]: ...

    def step(self, action: int) -> tuple[NDArray[Any], float]: ...

    @property
    def blue_success(self) -> int: ...

    @property
    def blue_text(self) -> str: ...

    @property
    def red_action(self) -> int: ...

    @property
    def red_target(self) -> int: ...

    @property
    def red_success(self) -> int: ...

    @property
    def red_text(self) -> str: ...

    @property
    def suspicious_hosts(self) -> NDArray[np.bool_]:
        """Mask of hosts `[13]`, a copy."""

    def save(self) -> Any:
        """Return a snapshot of all that the next steps follow from."""

    def load(self, snapshot: Any) -> None:
        """Go on from a snapshot."""


def red_action_index(action: Any) -> int:
    """Return the index of a CybORG action in RED_ACTIONS; -1 for any that no red agent takes."""
    return _RED_ACTION_INDEX.get(type(action).__name__, -1)


def red_target_index(action: Any, state: Any) -> int:
    """Return the index in RED_TARGETS of the host or subnet that a CybORG action names."""
    facts = vars(action)
    if "hostname" in facts:
        return _RED_TARGET_INDEX[facts["hostname"]]
    if "ip_address" in facts:
        return _RED_TARGET_INDEX[state.ip_addresses[facts["ip_address"]]]
    if "subnet" in facts:
        return _RED_TARGET_INDEX[state.subnets[facts["subnet"]].name]
    return -1


class ChallengeSimulator:
    """An unmodified CybORG behind its own `ChallengeWrapper`.

    Args:
        cyborg_class: CybORG's main class.
        scenario: the scenario, as that class takes it.
        agents: the module of the red agents.
        challenge_wrapper: the class of the wrapper.
    """

    def __init__(self, cyborg_class: Any, scenario: Any, agents: Any, challenge_wrapper: Any):
        self._random_state = _RandomState()
        with self._random_state:
            cyborg = cyborg_class(scenario, "sim", agents={"Red": agents.SleepAgent})
            self._wrapper = challenge_wrapper(env=cyborg, agent_name="Blue")
        names = tuple(map(str, self._wrapper.possible_actions))
        if names != ACTION_NAMES:
            raise RuntimeError(
                f"the simulator offers Blue {len(names)} actions instead of CAGE-2's "
                f"{len(ACTION_NAMES)}: install the challenge's commit {UPSTREAM_COMMIT}"
            )
        self._controller = cyborg.environment_controller
        self._red_agents = {name: getattr(agents, name)() for name in RED_AGENTS}
        self._blue_table = self._wrapper.env.env.env

    def play_against(self, own_red: type) -> None:
        """Make an agent of this class, the only red agent from then on."""
        interface = self._controller.agent_interfaces["Red"]
        agent = own_red()
        agent.set_initial_values(
            action_space=interface.action_space.get_max_action_space(),
            observation=type(self._controller.observation["Red"])().data,
        )
        self._red_agents = {OWN_RED: agent}

    def reset(self, seed: int, red_agent: str) -> NDArray[Any]:
        self._controller.agent_interfaces["Red"].agent = self._red_agents[red_agent]
        with self._random_state:
            random.seed(seed)
            result = self._wrapper.reset()
        # Gymnasium's (obs, info) in csle-cyborg, Gym's obs upstream.
        return result[0] if isinstance(result, tuple) else result

    def step(self, action: int) -> tuple[NDArray[Any], float]:
        with self._random_state:
            obs, reward, *_ = self._wrapper.step(action)
        return obs, float(reward)

    @property
    def blue_success(self) -> int:
        # The wrapper takes the success out of Blue's observation.
        return SUCCESSES.index(str(self._blue_table.success))

    @property
    def blue_text(self) -> str:
        return str(self._controller.action["Blue"])

    @property
    def red_action(self) -> int:
        return red_action_index(self._controller.action["Red"])

    @property
    def red_target(self) -> int:
        return red_target_index(self._controller.action["Red"], self._controller.state)

    @property
    def red_success(self) -> int:
        return SUCCESSES.index(str(self._controller.observation["Red"].data["success"]))

    @property
    def red_text(self) -> str:
        return str(self._controller.action["Red"])

    @property
    def suspicious_hosts(self) -> NDArray[np.bool_]:
        seen = self._controller.observation["Blue"].data
        # A decoy that Blue has just set up is listed with a PID too, but without connections.
        return np.array(
            [
                any(
                    "PID" in process and "Connections" in process
                    for process in seen.get(host, {}).get("Processes", ())
                )
                for host in HOSTS
            ]
        )

    def save(self) -> bytes:
        """See Simulator."""
        return dumps(vars(self), {})

    def load(self, snapshot: bytes) -> None:
        """See Simulator."""
        with no_stable_baselines3():  # In a new process this imports CybORG.
            vars(self).update(loads(snapshot, {}))

    def __reduce__(self) -> tuple[Any, ...]:
        return _copied, (self.save(),)


def _copied(snapshot: bytes) -> ChallengeSimulator:
    simulator = object.__new__(ChallengeSimulator)
    simulator.load(snapshot)
    return simulator


class _RandomState:
    """Python's global `random` as one simulator sees it. On leaving, the caller's state returns."""

    def __init__(self) -> None:
        self._state = random.Random(0).getstate()

    def __enter__(self) -> None:
        self._outer = random.getstate()
        random.setstate(self._state)

    def __exit__(self, *error: object) -> None:
        self._state = random.getstate()
        random.setstate(self._outer)


def make_simulator(name: str, max_steps: int, own_red: type | None = None) -> Simulator:
    """Return one of SIMULATORS, for episodes of at most max_steps steps.

    own_red: a CybORG agent's class, which is then the only red agent, OWN_RED. Raises ValueError.
    """
    if name not in SIMULATORS:
        raise ValueError(f"simulator={name!r}: choose one of {', '.join(SIMULATORS)}")
    if own_red is not None:
        return _simulator_with(own_red, name)
    if name == "cyborg-upstream":
        return _upstream_simulator()
    if name == "cyborg-stock":
        return _stock_simulator()
    if name == "compiled":
        compiled = importlib.import_module("workflow_rl.cage2.compiled.simulator")
        simulator: Simulator = compiled.CompiledSimulator(max_steps)
        return simulator
    speedups = importlib.import_module("workflow_rl.cage2.cyborg.speedups")
    sped_up: Simulator = speedups.SpedUpSimulator()
    return sped_up


def _simulator_with(own_red: type, name: str) -> Simulator:
    if name == "compiled":
        raise ValueError(
            f"red_agent={own_red.__name__}: the simulator compiled plays its own red agents alone; "
            "give simulator='cyborg'"
        )
    if name == "cyborg":
        module = importlib.import_module("workflow_rl.cage2.cyborg.own_red")
        sped_up: Simulator = module.OwnRedSimulator(own_red)
        return sped_up
    simulator = _upstream_simulator() if name == "cyborg-upstream" else _stock_simulator()
    simulator.play_against(own_red)
    return simulator


def _stock_simulator() -> ChallengeSimulator:
    with no_stable_baselines3():
        agents = importlib.import_module("csle_cyborg.agents")
        main = importlib.import_module("csle_cyborg.main")
        wrapper = importlib.import_module("csle_cyborg.agents.wrappers.challenge_wrapper")
    return ChallengeSimulator(main.Main, scenario2(), agents, wrapper.ChallengeWrapper)


def _upstream_simulator() -> ChallengeSimulator:
    try:
        with no_stable_baselines3():
            package = importlib.import_module("CybORG")
            agents = importlib.import_module("CybORG.Agents")
            wrapper = importlib.import_module("CybORG.Agents.Wrappers.ChallengeWrapper")
    except ModuleNotFoundError as error:
        if error.name != "CybORG":
            raise
        raise ModuleNotFoundError(
            "simulator='cyborg-upstream' needs the package CybORG, which is not installed: clone "
            f"github.com/cage-challenge/cage-challenge-2 at {UPSTREAM_COMMIT} and "
            "`pip install -e` its CybORG folder, or use simulator='cyborg'",
            name="CybORG",
        ) from error
    assert package.__file__ is not None
    scenario = Path(package.__file__).parent / "Shared" / "Scenarios" / "Scenario2.yaml"
    return ChallengeSimulator(package.CybORG, str(scenario), agents, wrapper.ChallengeWrapper)
