"""The simulators of CAGE Challenge 2 (Scenario 2) behind one interface.

Only this module and `private_cyborg` import CybORG, and neither ever imports torch, so that worker
processes stay small. A simulator is imported when it is made.
"""

from __future__ import annotations

import importlib.util
import random
import subprocess
from pathlib import Path
from typing import Any, NamedTuple, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from workflow_rl.cage2 import scenario2
from workflow_rl.cage2.cyborg.imports import no_stable_baselines3
from workflow_rl.cage2.cyborg.pickles import dumps, loads
from workflow_rl.runs.machine import package_version

SIMULATORS = ("cyborg", "cyborg-stock", "cyborg-upstream", "compiled")
OWN_RED = "own"
"""What a simulator calls the red agent whose class it was given."""
UPSTREAM_COMMIT = "26ce1c1"
_RED_ACTION_INDEX = {name: index for index, name in enumerate(scenario2.RED_ACTIONS)}
_RED_TARGET_INDEX = {name: index for index, name in enumerate(scenario2.RED_TARGETS)}


Facts: TypeAlias = tuple[int, int, int, int, NDArray[np.bool_]]
"""What happened in a step: Blue's success, Red's action, target and success, and the mask of hosts
`[13]` on which a process was caught, a copy. Successes are indices into `SUCCESSES`, Red's action
and target into `RED_ACTIONS` and `RED_TARGETS` (-1: none). It is a plain tuple, because making a
named one takes a tenth of a step."""


class Simulator(Protocol):
    """One simulated network that plays episodes. Copies and pickles go on as the original would.

    An observation is an array of 52 zeros and ones (any integer dtype), which the next call may
    overwrite. No call changes the caller's `random` state.
    """

    def reset(self, seed: int, red_agent: str) -> NDArray[Any]: ...

    def step(self, action: int) -> tuple[NDArray[Any], float]: ...

    @property
    def facts(self) -> Facts:
        """Facts about the last step."""

    @property
    def texts(self) -> tuple[str, str]:
        """Blue's and Red's last action, as CybORG prints them."""

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
        if names != scenario2.ACTION_NAMES:
            raise RuntimeError(
                f"the simulator offers Blue {len(names)} actions instead of CAGE-2's "
                f"{len(scenario2.ACTION_NAMES)}: install the challenge's commit {UPSTREAM_COMMIT}"
            )
        self._controller = cyborg.environment_controller
        self._red_agents = {name: getattr(agents, name)() for name in scenario2.RED_AGENTS}
        self._blue_table = self._wrapper.env.env.env

    def play_against(self, own_red: type) -> None:
        """Make an agent of this class, the only red agent from then on. Raises ValueError."""
        kinds = type(self._red_agents["B_lineAgent"]).__mro__
        require_red_agent(own_red, next(kind for kind in kinds if kind.__name__ == "BaseAgent"))
        interface = self._controller.agent_interfaces["Red"]
        with self._random_state:
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
    def facts(self) -> Facts:
        controller = self._controller
        red, seen = controller.action["Red"], controller.observation["Blue"].data
        # A decoy that Blue has just set up is listed with a PID too, but without connections.
        caught = [
            any(
                "PID" in process and "Connections" in process
                for process in seen.get(host, {}).get("Processes", ())
            )
            for host in scenario2.HOSTS
        ]
        return (
            # The wrapper takes the success out of Blue's observation.
            scenario2.SUCCESSES.index(str(self._blue_table.success)),
            red_action_index(red),
            red_target_index(red, controller.state),
            scenario2.SUCCESSES.index(str(controller.observation["Red"].data["success"])),
            np.array(caught),
        )

    @property
    def texts(self) -> tuple[str, str]:
        return str(self._controller.action["Blue"]), str(self._controller.action["Red"])

    def save(self) -> bytes:
        return dumps(vars(self), {})

    def load(self, snapshot: bytes) -> None:
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


def require_red_agent(own_red: type, base: type) -> None:
    """Raise ValueError unless a class is a red agent of this CybORG, with its BaseAgent."""
    if not issubclass(own_red, base):
        raise ValueError(
            f"red_agent={own_red.__name__}: the class has to derive from BaseAgent of "
            f"{base.__module__}. A CybORG takes the actions of another CybORG for invalid ones"
        )


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
        from workflow_rl.cage2.compiled.simulator import CompiledSimulator

        return CompiledSimulator(max_steps)
    from workflow_rl.cage2.cyborg.speedups import SpedUpSimulator

    return SpedUpSimulator()


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
    agents = importlib.import_module("csle_cyborg.agents")
    main = importlib.import_module("csle_cyborg.main")
    wrapper = importlib.import_module("csle_cyborg.agents.wrappers.challenge_wrapper")
    return ChallengeSimulator(main.Main, scenario2.scenario2(), agents, wrapper.ChallengeWrapper)


def _upstream_simulator() -> ChallengeSimulator:
    try:
        with no_stable_baselines3():
            package = importlib.import_module("CybORG")
            agents = importlib.import_module("CybORG.Agents")
            wrapper = importlib.import_module("CybORG.Agents.Wrappers.ChallengeWrapper")
    except ModuleNotFoundError as error:
        if not (error.name or "").startswith("CybORG"):
            raise
        raise ModuleNotFoundError(
            "simulator='cyborg-upstream' needs CAGE-2's package CybORG, which is not installed: "
            f"clone github.com/cage-challenge/cage-challenge-2 at {UPSTREAM_COMMIT} and "
            "`pip install -e` its CybORG folder, or use simulator='cyborg'",
            name="CybORG",
        ) from error
    assert package.__file__ is not None
    scenario = Path(package.__file__).parent / "Shared" / "Scenarios" / "Scenario2.yaml"
    return ChallengeSimulator(package.CybORG, str(scenario), agents, wrapper.ChallengeWrapper)


class SimulatorVersion(NamedTuple):
    """Name and version of a CybORG package, and the commit of the challenge's repository.

    Scores on different commits cannot be compared. csle-cyborg 0.0.3 plays exactly like 26ce1c1.
    """

    name: str
    version: str
    commit: str

    def __str__(self) -> str:
        return f"{self.name} {self.version} (commit {self.commit})"


def simulator_version(simulator: str) -> SimulatorVersion:
    """Return the package behind one of `simulators.SIMULATORS`; "unknown" for what is unknown."""
    if simulator != "cyborg-upstream":
        return SimulatorVersion("csle-cyborg", package_version("csle-cyborg"), UPSTREAM_COMMIT)
    spec = importlib.util.find_spec("CybORG")
    commit = "unknown"
    if spec is not None and spec.origin is not None:
        answer = subprocess.run(
            ["git", "-C", str(Path(spec.origin).parent), "rev-parse", "--short=7", "HEAD"],
            capture_output=True,
            text=True,
            check=False,
        )
        commit = answer.stdout.strip() or "unknown"
    return SimulatorVersion("CybORG", package_version("CybORG"), commit)
