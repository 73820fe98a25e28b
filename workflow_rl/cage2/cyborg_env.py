"""The Gymnasium environment over CybORG, the simulator of CAGE Challenge 2 (Scenario 2).

Only this module and `private_cyborg` import CybORG, and neither ever imports torch, so that worker
processes stay small.
"""

from __future__ import annotations

import importlib
import operator
import random
from pathlib import Path
from typing import Any, Protocol, SupportsIndex

import gymnasium
import numpy as np
from numpy.typing import NDArray

from workflow_rl.cage2.cyborg_speedups import SpedUpSimulator
from workflow_rl.cage2.environment import SIMULATORS
from workflow_rl.cage2.private_cyborg import no_stable_baselines3
from workflow_rl.cage2.scenario2 import ACTION_NAMES, HOSTS, RED_AGENTS, scenario2

OBS_SIZE = 4 * len(HOSTS)
UPSTREAM_COMMIT = "26ce1c1"


class Simulator(Protocol):
    """One simulated network that plays episodes, whichever CybORG is behind it.

    `obs` is an array of 52 zeros and ones (any integer dtype). The successes are CybORG's: "TRUE",
    "FALSE" or "UNKNOWN". Neither call changes the caller's `random` state.
    """

    def reset(self, seed: int, red_agent: str) -> NDArray[Any]: ...

    def step(self, action: int) -> tuple[NDArray[Any], float]: ...

    @property
    def blue_action(self) -> str: ...

    @property
    def blue_success(self) -> str: ...

    @property
    def red_action(self) -> str: ...

    @property
    def red_success(self) -> str: ...

    @property
    def suspicious_hosts(self) -> tuple[int, ...]: ...


class CyborgEnv(gymnasium.Env[NDArray[np.uint8], np.int64]):
    """CAGE Challenge 2 from Blue's side: Scenario 2 against one red agent.

    An observation is uint8 `[52]`: for each of the 13 hosts of `scenario2.HOSTS` two bits of
    activity (00 none, 10 scan, 11 exploit) and two of compromise (00 no, 10 unknown, 01 user,
    11 privileged). An action is an index into the 145 `scenario2.ACTION_NAMES`. The reward is
    CybORG's, never positive.

    Episodes never terminate: they are truncated after `max_steps` steps, and must then be reset.
    The seed given to `reset` determines the whole episode, and no env touches Python's global
    `random`, from which CybORG draws. After a step `info` holds

    - `red_agent`: name of the red agent of this episode (also after `reset`),
    - `blue_action`, `red_action`: what each did, as CybORG prints it,
    - `blue_success`, `red_success`: "TRUE", "FALSE" or "UNKNOWN", as CybORG reports it,
    - `suspicious_hosts`: indices into `scenario2.HOSTS` of the hosts on which monitoring caught a
      process with its PID (also after `reset`, empty). CybORG's own react agents act on it; the
      observation does not hold it, for it also shows the guessing of SSH passwords as exploit.

    Args:
        red_agent: one of `scenario2.RED_AGENTS`; `reset(options={"red_agent": name})` chooses
            another for one episode.
        max_steps: length of an episode in steps.
        simulator: "cyborg" is csle-cyborg sped up without changing one bit of a trace;
            "cyborg-stock" is csle-cyborg as published; "cyborg-upstream" is the challenge's own
            `CybORG` package, which has to be installed separately; "compiled" is this package's
            own, which plays the same episodes without CybORG.
    """

    metadata = {"render_modes": []}  # noqa: RUF012 (Gymnasium's own declaration)

    def __init__(
        self, red_agent: str = "B_lineAgent", max_steps: int = 100, simulator: str = "cyborg"
    ) -> None:
        _check_red_agent(red_agent)
        if max_steps < 1:
            raise ValueError(f"max_steps={max_steps}: an episode has at least 1 step")
        if simulator not in SIMULATORS:
            raise ValueError(f"simulator={simulator!r}: choose one of {', '.join(SIMULATORS)}")
        self.observation_space = gymnasium.spaces.Box(0, 1, (OBS_SIZE,), np.uint8)
        self.action_space = gymnasium.spaces.Discrete(len(ACTION_NAMES))
        self.red_agent = red_agent
        self.max_steps = max_steps
        self._simulator = _make_simulator(simulator, max_steps)
        self._episode_red_agent = red_agent
        self._steps_left = 0

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[NDArray[np.uint8], dict[str, Any]]:
        """Start an episode. Without a seed, the next one is drawn from `np_random`."""
        red_agent = (options or {}).get("red_agent", self.red_agent)
        _check_red_agent(red_agent)
        super().reset(seed=seed)
        episode_seed = int(self.np_random.integers(2**31)) if seed is None else seed
        self._episode_red_agent = red_agent
        self._steps_left = self.max_steps
        obs = self._simulator.reset(episode_seed, red_agent)
        info = {"red_agent": red_agent, "suspicious_hosts": ()}
        return np.asarray(obs, dtype=np.uint8), info

    def step(
        self, action: SupportsIndex
    ) -> tuple[NDArray[np.uint8], float, bool, bool, dict[str, Any]]:
        """Play one step: Blue's action, Green's, Red's, then what Blue's monitoring shows.

        Raises:
            ValueError: the action is no index into `ACTION_NAMES`.
            gymnasium.error.ResetNeeded: the episode has been truncated or never started.
        """
        index = operator.index(action)
        if not 0 <= index < len(ACTION_NAMES):
            raise ValueError(f"action={action}: choose an index from 0 to {len(ACTION_NAMES) - 1}")
        if self._steps_left == 0:
            raise gymnasium.error.ResetNeeded("call reset() first: no episode is in progress")
        simulator = self._simulator
        obs, reward = simulator.step(index)
        self._steps_left -= 1
        info = {
            "red_agent": self._episode_red_agent,
            "blue_action": simulator.blue_action,
            "blue_success": simulator.blue_success,
            "red_action": simulator.red_action,
            "red_success": simulator.red_success,
            "suspicious_hosts": simulator.suspicious_hosts,
        }
        return np.asarray(obs, dtype=np.uint8), reward, False, self._steps_left == 0, info


class ChallengeSimulator:
    """An unmodified CybORG behind its own `ChallengeWrapper`.

    Args:
        cyborg_class: CybORG's main class.
        scenario: what that class takes for a scenario.
        agents: the module that has the red agents.
        challenge_wrapper: the wrapper's class.
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
    def blue_action(self) -> str:
        return str(self._controller.action["Blue"])

    @property
    def blue_success(self) -> str:
        # Taken from Blue's observation by the wrapper that turns it into a table.
        return str(self._blue_table.success)

    @property
    def red_action(self) -> str:
        return str(self._controller.action["Red"])

    @property
    def red_success(self) -> str:
        return str(self._controller.observation["Red"].data["success"])

    @property
    def suspicious_hosts(self) -> tuple[int, ...]:
        seen = self._controller.observation["Blue"].data
        # A decoy that Blue has just set up is listed with its PID as well, but unconnected.
        return tuple(
            index
            for index, host in enumerate(HOSTS)
            for process in seen.get(host, {}).get("Processes", ())
            if "PID" in process and "Connections" in process
        )


class _RandomState:
    """Python's global `random` as one simulator sees it; on leaving, the caller's is put back."""

    def __init__(self) -> None:
        self._state = random.Random(0).getstate()

    def __enter__(self) -> None:
        self._outer = random.getstate()
        random.setstate(self._state)

    def __exit__(self, *error: object) -> None:
        self._state = random.getstate()
        random.setstate(self._outer)


def _check_red_agent(name: str) -> None:
    if name not in RED_AGENTS:
        raise ValueError(f"red_agent={name!r}: choose one of {', '.join(RED_AGENTS)}")


def _make_simulator(name: str, max_steps: int) -> Simulator:
    if name == "cyborg-upstream":
        return _upstream_simulator()
    if name == "cyborg-stock":
        return _stock_simulator()
    if name == "compiled":
        compiled = importlib.import_module("workflow_rl.cage2.compiled.simulator")
        simulator: Simulator = compiled.CompiledSimulator(max_steps)
        return simulator
    return SpedUpSimulator()


def _stock_simulator() -> Simulator:
    with no_stable_baselines3():
        agents = importlib.import_module("csle_cyborg.agents")
        main = importlib.import_module("csle_cyborg.main")
        wrapper = importlib.import_module("csle_cyborg.agents.wrappers.challenge_wrapper")
    return ChallengeSimulator(main.Main, scenario2(), agents, wrapper.ChallengeWrapper)


def _upstream_simulator() -> Simulator:
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
