"""The Gymnasium environment of CAGE Challenge 2, for all simulators."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn, SupportsIndex

import gymnasium
import numpy as np
from numpy.typing import NDArray

from workflow_rl.cage.attackers import Attacker, AttackerError
from workflow_rl.cage2.agent.network_facts import BlueDecoys, untold_facts
from workflow_rl.cage2.compiled.description import tables_of
from workflow_rl.cage2.costs import costs_of_step, evaluated_costs
from workflow_rl.cage2.cyborg.simulators import make_simulator
from workflow_rl.cage2.env import checks
from workflow_rl.cage2.red.roster import REDS, checked_reds
from workflow_rl.cage2.scenario.loading import scenario_of
from workflow_rl.cage2.scenario.simulator_protocol import Facts, Simulator
from workflow_rl.cage2.scenario2 import RED_AGENTS, SCENARIO2, SUCCESSES
from workflow_rl.environments.gymnasium_versions import AutoresetMode

if TYPE_CHECKING:
    from workflow_rl.cage2.env.vector_env import CompiledVectorEnv

UNKNOWN = SUCCESSES.index("UNKNOWN")
NOBODY = NOTHING = -1
NUMBERS = [*np.arange(1000), np.int64(-1)]
"""The integers of `info`: NUMBERS[i] is i, from -1 up. TorchRL needs NumPy's integers. A look-up in
this list is faster than a conversion."""


class Snapshot(NamedTuple):
    """`Cage2Env.save_state` returns this, for `load_state` and `fork`.

    made_for: simulator, scenario and length of episodes. red: the name of the user's own red agent,
    or None. network: the simulator's snapshot. episode: the red agent's index, the number of steps
    left, and Blue's last action. bits: Blue's observation. decoys: `BlueDecoys.masks`. generator:
    the state of `np_random`, or None if there is no generator, and its seed."""

    made_for: tuple[str, str, int]
    red: str | None
    network: Any
    episode: tuple[int, int, int]
    bits: NDArray[Any]
    decoys: NDArray[np.int64]
    generator: tuple[Mapping[str, Any] | None, int | None]


class Cage2Env(checks.TellsItsLength, gymnasium.Env[NDArray[Any], np.int64]):
    """CAGE Challenge 2 from Blue's side: Scenario 2 or another scenario, against one red agent.

    The sizes here are Scenario 2's. An observation is float32 `[52]`, zeros and ones: four bits for
    each of the 13 hosts of `scenario.hosts`. Two bits show activity (00 none, 10 scan, 11 exploit).
    Two bits show compromise (00 no, 10 unknown, 01 user, 11 privileged). An action is an index into
    the 145 `scenario.action_names`. The reward equals CybORG's reward, and is never positive.

    Episodes never terminate. They are truncated after `max_steps` steps, and the env then needs a
    reset. The seed given to `reset` determines the whole episode. The state of Python's global
    `random`, from which CybORG draws, stays as it is. After a step and after a reset, `info` holds
    these int64 numbers, which are equal in all simulators:

    - `red_agent`: index into `scenario2.RED_AGENTS` of the episode's red agent, or -1 for a red
      agent of your own,
    - `blue_action`: index into `scenario.action_names`, or -1 after a reset,
    - `red_action`, `red_target`: indices into `actions.RED_ACTIONS` and `scenario.red_targets`, or
      -1 if there is none,
    - `blue_success`, `red_success`: indices into `scenario2.SUCCESSES`,
    - `suspicious_hosts`: bool `[13]`, the hosts on which monitoring noticed a process and its PID.
      CybORG's react agents use these hosts. The observation does not tell which hosts these are: it
      also shows the guessing of SSH passwords as an exploit.

    Blue does not see Red's part of `info`, which is true. This part is for analyses only.
    `describe()` says in words what Blue saw, and with `truth=True` also what Red did. A deep copy
    or a pickle of an env goes on exactly as the env would. Play all envs of CybORG's simulators in
    one thread of a process, because they share one random generator. `save_state` and `load_state`
    bring one env back to an earlier state, in microseconds with the compiled simulator.

    Args:
        red_agent: one of `scenario2.RED_AGENTS`, "mixed", "attackers", or several with weights,
            such as "B_lineAgent=2,my_red:MyRed=1" or `{"B_lineAgent": 2, MyRed: 1}`. Each episode's
            seed draws one red agent. A red agent of your own is "module:Class", the class, or an
            object of the class. A class that derives from csle-cyborg's `BaseAgent` has to draw
            from Python's `random`, always plays in "cyborg", and its `train` is never called.
            `reset(options={"red_agent": ...})` chooses another red agent for one episode.
        max_steps: length of an episode in steps, 100 by default.
        simulator: "compiled" is this package's simulator, which plays the same episodes as CybORG.
            "cyborg" is csle-cyborg, sped up with equal results. In scenario1b, "cyborg" is CAGE-1's
            package CybORG, which has to be installed.
        obs_dtype: "float32", or "uint8" for a quarter of the memory.
        render_mode: has to be None, because there are no pictures.
        scenario: "scenario2", the path of a scenario file, or a `Scenario`.
        measures: whether `info["costs"]` holds the costs of the last step by name, floats from the
            true state: see `costs.evaluated_costs`.

    Raises:
        ValueError: an argument is out of range, the scenario is wrong, or a red agent cannot play
            in the scenario.
        TypeError: `render_mode` is not None."""

    metadata = {"render_modes": []}  # noqa: RUF012 (Gymnasium's own declaration)
    _np_random_seed = None  # Gymnasium has had this attribute since version 1.0.

    def __init__(
        self,
        red_agent: Any = "B_lineAgent",
        max_steps: int | None = None,
        simulator: str = "compiled",
        obs_dtype: str = "float32",
        render_mode: str | None = None,
        scenario: Any = SCENARIO2,
        measures: bool = False,
    ) -> None:
        checks.check_render_mode(render_mode)
        self.max_steps = checks.checked_steps(max_steps)
        self.scenario = scenario_of(scenario)
        self._n_actions = len(self.scenario.action_names)
        self.observation_space = checks.observation_space(obs_dtype, self.scenario.obs_size)
        self.action_space = gymnasium.spaces.Discrete(self._n_actions)
        self.red_agent = red_agent
        self.simulator = simulator
        self.measures = measures
        self._cost_names = evaluated_costs([self.scenario]) if measures else ()
        self._dtype = self.observation_space.dtype
        # The simulator for each red agent of the user's own. None is the key of the simulator for
        # CAGE-2's three red agents.
        self._simulators: dict[str | None, Simulator] = {}
        for attacker in checked_reds(self.scenario, red_agent).members:
            self._choose(attacker)
        self._episode_red_agent = NOBODY
        self._last_action = NOTHING
        # Blue's observation after the last step.
        self._bits: NDArray[Any] = np.zeros(self.scenario.obs_size, np.uint8)
        # Blue's decoys before `_new_actions`, or None until they are first needed.
        self._decoys: BlueDecoys | None = None
        self._new_actions: list[int] = []
        self._steps_left = 0

    __copy__ = copy.deepcopy

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[NDArray[Any], dict[str, Any]]:
        """Start an episode. Without a seed, `np_random` draws the seed.

        Raises:
            ValueError: the seed is not from 0 to 2**63 - 1, or an option is wrong.
        """
        checks.check_options(options, ("red_agent",))
        reds = checked_reds(self.scenario, (options or {}).get("red_agent", self.red_agent))
        if seed is not None:
            seed = checks.checked_seed(seed)
        super().reset(seed=seed)
        episode_seed = int(self.np_random.integers(2**31)) if seed is None else seed
        attacker = reds.drawn(episode_seed)
        self._choose(attacker)
        self._steps_left = self.max_steps
        self._last_action = NOTHING
        if self._decoys is not None:
            self._decoys.begin([0])
        self._new_actions.clear()
        obs = self._simulator.reset(episode_seed, attacker.name)
        nobody = np.zeros(len(self.scenario.hosts), np.bool_)
        info = self._info((UNKNOWN, NOTHING, NOTHING, UNKNOWN, nobody))
        return obs.astype(self._dtype), info

    def _choose(self, attacker: Attacker) -> None:
        """Switch to the simulator that plays a red agent. Make this simulator if it does not exist.

        Raises ValueError."""
        is_known = attacker.name in RED_AGENTS
        red = None if is_known else attacker.name
        if red not in self._simulators:
            foreign = None if is_known else attacker
            try:
                self._simulators[red] = make_simulator(
                    self.simulator, self.max_steps, foreign, self.scenario
                )
            except AttackerError as error:
                raise ValueError(f"red_agent: {error}") from error
        self._red = red
        self._simulator = self._simulators[red]
        self._episode_red_agent = RED_AGENTS.index(attacker.name) if is_known else NOBODY

    def step(self, action: SupportsIndex) -> tuple[NDArray[Any], float, bool, bool, dict[str, Any]]:
        """Play one step: Blue's action, Green's action, Red's action, then Blue's monitoring.

        Raises:
            ValueError: the action is no index into `scenario.action_names`.
            gymnasium.error.ResetNeeded: the episode has been truncated or never started.
        """
        if type(action) is int and 0 <= action < self._n_actions:
            index = action
        else:
            index = checks.checked_index(action, self._n_actions)
        if self._steps_left == 0:
            raise gymnasium.error.ResetNeeded("call reset() first: no episode is in progress")
        held_before = self._simulator.held[0] if self.measures else 0
        self._bits, reward = self._simulator.step(index)
        self._steps_left -= 1
        self._last_action = index
        self._new_actions.append(index)
        facts = self._simulator.facts
        info = self._info(facts)
        if self.measures:
            info["costs"] = costs_of_step(
                self._simulator, tables_of(self.scenario), index, held_before, self._cost_names
            )
        return self._bits.astype(self._dtype), reward, False, self._steps_left == 0, info

    def _info(self, facts: Facts) -> dict[str, Any]:
        blue_success, red_action, red_target, red_success, suspicious_hosts = facts
        return {
            "red_agent": NUMBERS[self._episode_red_agent],
            "blue_action": NUMBERS[self._last_action],
            "blue_success": NUMBERS[blue_success],
            "red_action": NUMBERS[red_action],
            "red_target": NUMBERS[red_target],
            "red_success": NUMBERS[red_success],
            "suspicious_hosts": suspicious_hosts,
        }

    def render(self) -> NoReturn:
        """Raise NotImplementedError, which names the alternatives."""
        raise NotImplementedError(checks.NO_PICTURES)

    def describe(self, truth: bool = False) -> dict[str, Any]:
        """Return the last step in words, as Blue saw it: Blue's action and its success, the
        suspicious hosts, and each host's activity and compromise as observed.

        truth: whether to add what Blue does not see: the red agent, Red's action and its success.

        Raises:
            gymnasium.error.ResetNeeded: there has been no step in this episode.
        """
        if self._last_action == NOTHING:
            raise gymnasium.error.ResetNeeded("call step() first: there has been no step")
        blue_success, _, _, red_success, caught = self._simulator.facts
        seen = self.scenario.seen_of_step(self._last_action, blue_success, caught, self._bits)
        if not truth:
            return seen
        return seen | {
            "red_agent": self._red or RED_AGENTS[self._episode_red_agent],
            "red_action": self._simulator.texts[1],
            "red_success": SUCCESSES[red_success],
        }

    def action_masks(self) -> NDArray[np.bool_]:
        """Return the mask of useful actions, `[145]`, for sb3-contrib's MaskablePPO: see
        `BlueDecoys.useful_actions`."""
        masks: NDArray[np.bool_] = self._decoys_now().useful_actions([0])[0]
        return masks

    def _decoys_now(self) -> BlueDecoys:
        # The decoys are computed only when they are needed. Most envs do not need them, and the
        # tables take 0.1 s.
        if self._decoys is None:
            self._decoys = BlueDecoys(untold_facts(self.scenario))
            self._decoys.begin([0])
        for action in self._new_actions:
            self._decoys.after([0], np.array([action]))
        self._new_actions.clear()
        return self._decoys

    def save_state(self) -> Snapshot:
        """Return everything that determines the rest of the episode and the seeds of later ones."""
        generator = None if self._np_random is None else self._np_random.bit_generator.state
        return Snapshot(
            self._made_for,
            self._red,
            self._simulator.save(),
            (self._episode_red_agent, self._steps_left, self._last_action),
            self._bits.copy(),
            self._decoys_now().masks.copy(),
            (generator, self._np_random_seed),
        )

    @property
    def _made_for(self) -> tuple[str, str, int]:
        return self.simulator, self.scenario.digest, self.max_steps

    def load_state(self, snapshot: Snapshot) -> None:
        """Go on from a state of this env, or of another env with the same arguments.

        Raises:
            ValueError: the saved env had another simulator or scenario, episodes of another
                length, or a red agent of your own that this env has not played.
            TypeError: the snapshot is not from `Cage2Env`.
        """
        if not isinstance(snapshot, Snapshot):
            raise TypeError("a snapshot made by Cage2Env.save_state is needed")
        if snapshot.made_for != self._made_for:
            simulator, scenario, max_steps = snapshot.made_for
            raise ValueError(
                f"the snapshot is of simulator={simulator!r}, max_steps={max_steps} and the "
                f"scenario {scenario}, not of {self.simulator!r}, {self.max_steps} and "
                f"{self.scenario.digest}"
            )
        if snapshot.red not in self._simulators:
            red = snapshot.red or "one of CAGE-2's own"
            raise ValueError(f"the snapshot's red agent is {red}, which this env has not played")
        self._red = snapshot.red
        self._simulator = self._simulators[self._red]
        self._simulator.load(snapshot.network)
        self._episode_red_agent, self._steps_left, self._last_action = snapshot.episode
        self._bits = snapshot.bits
        self._new_actions.clear()
        self._decoys_now().masks[:] = snapshot.decoys
        generator, seed = snapshot.generator
        if generator is None:
            self._np_random = None
        else:
            # The property `np_random` makes a generator if the env has none.
            self.np_random.bit_generator.state = generator
        self._np_random_seed = seed

    def fork(
        self,
        n: int,
        seed: int | None = None,
        autoreset_mode: AutoresetMode | str = AutoresetMode.DISABLED,
    ) -> CompiledVectorEnv:
        """Return a vector env of n envs that go on from this state, each with other random events.

        Do not reset the vector env first. Env i draws its events from seed + i. Without a seed,
        each call draws a new seed. This env does not change. The vector env cannot play red agents
        of your own: if `red_agent` names any, all its episodes have this episode's red agent.

        Raises:
            ValueError: the simulator is not "compiled", a red agent of your own plays this episode,
                or an argument is out of range.
            gymnasium.error.ResetNeeded: no episode is in progress.
        """
        if self.simulator != "compiled":
            raise ValueError(
                f"simulator={self.simulator!r}: only envs of 'compiled' fork; this one can be "
                "copied with copy.deepcopy"
            )
        if self._steps_left == 0:
            raise gymnasium.error.ResetNeeded("call reset() first: no episode is in progress")
        n = checks.checked_count("n", n)
        if seed is None:
            seed = int(np.random.SeedSequence().generate_state(1)[0])
        seeds = checks.checked_seeds(seed, n)
        if self._red is not None:
            raise ValueError(
                f"red_agent: {self._red}: episodes of a red agent of your own cannot be forked; "
                "this env can be copied with copy.deepcopy"
            )
        red_agent = self.red_agent
        if REDS.checked(red_agent).foreign:  # The vector env cannot play them.
            red_agent = RED_AGENTS[self._episode_red_agent]
        from workflow_rl.cage2.env.vector_env import CompiledVectorEnv

        envs = CompiledVectorEnv(
            n,
            red_agent,
            self.max_steps,
            autoreset_mode,
            obs_dtype=str(self._dtype),
            scenario=self.scenario,
            measures=self.measures,
        )
        envs.go_on_from(self.save_state(), seeds)
        return envs


class CostsInOrder(gymnasium.Wrapper[NDArray[Any], np.int64, NDArray[Any], np.int64]):
    """A Cage2Env with measures, whose `info["costs"]` is a list of the costs with given names."""

    def __init__(self, env: Cage2Env, names: Sequence[str]) -> None:
        super().__init__(env)
        self._names = tuple(names)

    def step(self, action: Any) -> tuple[NDArray[Any], Any, bool, bool, dict[str, Any]]:
        obs, reward, terminated, truncated, info = super().step(action)
        info["costs"] = [info["costs"][name] for name in self._names]
        return obs, reward, terminated, truncated, info
