"""CAGE Challenge 4 with PettingZoo's ParallelEnv interface, on every simulator."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from gymnasium.spaces import Box, Discrete, MultiDiscrete, Space
from numpy.typing import NDArray

from workflow_rl.cage.attackers import Attacker, AttackerError, Attackers
from workflow_rl.cage.parallel_env import PlainParallelEnv, Stepped
from workflow_rl.cage4.agent.views import SLEEP, VIEWS
from workflow_rl.cage4.cyborg.simulators import make_simulator
from workflow_rl.cage4.env.raw_space import RawSpace
from workflow_rl.cage4.red.roster import REDS, found_reds
from workflow_rl.cage4.scenario import scenario4
from workflow_rl.cage4.scenario.costs import COSTS
from workflow_rl.cage4.scenario.simulator_protocol import Simulator, checked_action, seed_or_none

_VIEWS = {name: view for name, view in VIEWS.items() if view.reads_raw}
OBSERVATIONS = ("flat", "raw", *_VIEWS)


class Cage4ParallelEnv(PlainParallelEnv):
    """CAGE Challenge 4 from the blue side: five agents that act at once and share a reward.

    The argument `observation` chooses what an agent observes:
    - "flat": int64 `[92]`, or `[210]` for `blue_agent_4`. The first entry is the phase, 0 to 2. The
      other entries are 0 or 1. Each own zone has 9 bits for its name, 9 for the zones that it
      blocks, and 9 for the zones that it should block. 16 bits show which hosts have events of
      processes, and 16 bits which hosts have events of connections. The last 32 bits are messages.
    - "raw": the dictionary that CybORG gives an agent, with plain values: see
      `simulator_protocol.Simulator.raw_observations`. It also has the addresses, ports and PIDs of
      events, the files that Analyse finds, and the outcome of the action.
    - "belief": float32, what the agent knows from its raw observations since the reset, and 32 bits
      of messages: see `agent.views.BeliefView`.
    - "hidden": as "belief", with one more number for each host: see `agent.views.HiddenView`.

    An action is an index into the 82 or 242 actions of `scenario4.ACTIONS`. An action takes one to
    five steps. A busy agent's action is not played, but its cost counts. All agents get the team's
    reward, which is zero or less.

    Episodes are truncated after step `max_steps - 1`, as in the challenge, and never terminate.
    Then `agents` is empty, and the env must be reset. The seed given to `reset` determines the
    whole episode. Without a seed, the next episode of the env's stream is drawn.

    An env of the compiled simulator can be copied or pickled. The copy continues exactly as the env
    would, but has its own network. Envs of CybORG raise TypeError instead.

    The attribute `red_agent` names the red agents of this episode.

    Each agent's `infos` have these entries:
    - `action_mask`: int8 `[82]` or `[242]`, 1 if the action is possible in this episode. Actions on
      hosts that do not exist do nothing.
    - `phase`: the phase of the last step, an index into `scenario4.MISSION_PHASES`.
    - `busy_steps`: for how many more steps the agent is busy. The agent acts at 0.
    - `costs`, with `measures`: the costs of the step by name, counted from the true state: see
      `scenario.costs`. The infos of a reset have no costs.

    Args:
        simulator: "compiled" is this package's own simulator. "cyborg" is the official CybORG 4
            with speed-ups that change no bit. CybORG needs the user's checkout: see
            `cyborg.checkout`. Both simulators play equal episodes.
        max_steps: length of an episode in steps.
        red_agent: one of `scenario4.RED_AGENTS`, an attacker of your own ("module:Class", a class
            or an object, see `cage4.attackers`), or the folder or policy file of a trained red
            team. From several with weights, such as "FiniteStateRedAgent=3,runs/red=1", the seed of
            each episode draws one, or the env draws one if there is no seed.
            `reset(options={"red_agent": ...})` changes the red agent for the following episodes.
            Other options are ignored.
        render_mode: only None, because there are no pictures.
        observation: "flat", "raw", "belief" or "hidden".
        measures: whether infos have `costs`.
        scenario: fields of `scenario4.Scenario`, such as `phishing_rate=0.75`.

    Raises:
        ValueError: an argument is out of range.
        CheckoutError: CybORG 4 is needed, but the checkout is missing or is another commit.
    """

    metadata = {"name": "CAGE4-v0", "render_modes": [], "is_parallelizable": True}  # noqa: RUF012
    shared_reward = True
    red_agent: str
    _simulator: Simulator

    def __init__(
        self,
        simulator: str = "compiled",
        max_steps: int = scenario4.MAX_STEPS,
        red_agent: Any = scenario4.RED_AGENTS[0],
        render_mode: None = None,
        observation: str = OBSERVATIONS[0],
        measures: bool = False,
        **scenario: Any,
    ) -> None:
        if observation not in OBSERVATIONS:
            raise ValueError(f"observation={observation!r}: choose {', '.join(OBSERVATIONS)}")
        if render_mode is not None:
            raise ValueError(f"render_mode={render_mode!r}: there are no pictures, choose None")
        self.simulator = simulator
        self.scenario = scenario4.Scenario(**scenario)
        self._reds = REDS.checked(red_agent)
        self.max_steps = max_steps
        self.measures = measures
        self._made: dict[str, Simulator] = {}
        self._play_against(self._reds.members[0], self._reds)
        self._seeds = np.random.default_rng()
        self.possible_agents = list(scenario4.AGENTS)
        self.agents: list[str] = []
        self.observation = observation
        view = _VIEWS.get(observation)
        self._view = None if view is None else view(1, listens=True)
        self.observation_spaces = dict(zip(scenario4.AGENTS, _spaces(observation), strict=True))
        self.action_spaces = {
            agent: Discrete(n)
            for agent, n in zip(scenario4.AGENTS, scenario4.N_ACTIONS, strict=True)
        }

    def _play_against(self, red: Attacker, reds: Attackers) -> None:
        """Let `red`, one of `reds`, play. If its simulator cannot be made, change nothing."""
        made = self._made if reds == self._reds else {self.red_agent: self._simulator}
        if red.name not in made:
            try:
                is_official = red.name in scenario4.RED_AGENTS
                team = red.name if is_official else found_reds(red, self.simulator)
            except AttackerError as error:
                raise ValueError(f"red_agent: {error}") from None
            simulator = make_simulator(
                self.simulator, team, self.max_steps, self.scenario, self.measures
            )
            made = {**made, red.name: simulator}
        self._reds = reds
        self._made = made
        self.red_agent = red.name
        self._simulator = made[red.name]

    def reset(
        self, seed: int | None = None, options: Mapping[str, Any] | None = None
    ) -> tuple[dict[str, Any], dict[str, dict[str, Any]]]:
        """Begin an episode. Return the observations and the infos.

        Raises ValueError if the seed is not a whole number from 0 up, or the red agent is unknown.
        """
        reds = self._reds
        if options and "red_agent" in options:
            reds = REDS.checked(options["red_agent"])
        seed = seed_or_none(seed)
        if seed is not None:
            self._seeds = np.random.default_rng(seed)
        elif len(reds.members) > 1:
            seed = int(self._seeds.integers(2**63))
        self._play_against(reds.drawn(seed or 0), reds)
        vectors = self._simulator.reset(seed)
        self.agents = list(scenario4.AGENTS)
        self._masks = [mask.astype(np.int8) for mask in self._simulator.masks]
        return self._observations(vectors, None), self._infos()

    def step(
        self, actions: Mapping[str, int], messages: Mapping[str, Any] | None = None
    ) -> Stepped:
        """Play one step.

        Args:
            actions: by agent. An agent without an entry sleeps.
            messages: by agent, 8 zeros and ones, which the other agents read in this step's
                observations. An agent without an entry sends zeros.

        Raises:
            ValueError: an agent is unknown, an action is not a whole number or is out of range, or
                a message is not 8 zeros and ones. The step is not played then.
            RuntimeError: the episode is over.
        """
        if not self.agents:
            raise RuntimeError("the episode is over: call reset")
        indices = _indices(actions)
        is_played = self._simulator.busy_steps == 0
        is_played &= [mask[i] > 0 for mask, i in zip(self._masks, indices, strict=True)]
        result = self._simulator.step(indices, _bits(messages or {}))
        if result.done:
            self.agents = []
        costs: dict[str, Any] = {}
        if self.measures:
            costs = {"costs": dict(zip(COSTS, self._simulator.costs.tolist(), strict=False))}
        return (
            self._observations(result.observations, np.where(is_played, indices, SLEEP)),
            dict.fromkeys(scenario4.AGENTS, float(result.reward)),
            dict.fromkeys(scenario4.AGENTS, False),
            dict.fromkeys(scenario4.AGENTS, result.done),
            self._infos(**costs),
        )

    def _observations(
        self, vectors: tuple[NDArray[np.int64], ...], taken: NDArray[np.int64] | None
    ) -> dict[str, Any]:
        """Return what the agents see. taken: the played actions `[5]`, or None after a reset."""
        shown: Sequence[Any] = vectors
        if self.observation == "raw":
            shown = self._simulator.raw_observations()
        elif self._view is not None:
            obs = np.concatenate(vectors)[None].astype(np.int8)
            raw = self._simulator.raw_arrays()
            if taken is None:
                masks = np.concatenate(self._simulator.masks)[None]
                (seen,) = self._view.begin([0], obs, masks, raw)
            else:
                (seen,) = self._view.after([0], taken[None], obs, raw)
            shown = np.split(seen, np.cumsum(self._view.obs_sizes(listens=True))[:-1])
        return dict(zip(scenario4.AGENTS, shown, strict=True))

    def _infos(self, **costs: Any) -> dict[str, dict[str, Any]]:
        phase = self._simulator.phase
        busy = self._simulator.busy_steps.tolist()
        infos: dict[str, dict[str, Any]] = {}
        for agent, mask, steps in zip(scenario4.AGENTS, self._masks, busy, strict=True):
            infos[agent] = {"action_mask": mask, "phase": phase, "busy_steps": steps, **costs}
        return infos


def _spaces(observation: str) -> list[Space[Any]]:
    if observation == "raw":
        return [RawSpace() for _ in scenario4.AGENTS]
    if observation in _VIEWS:
        sizes = _VIEWS[observation].obs_sizes(listens=True)
        return [Box(0, np.inf, (size,), np.float32) for size in sizes]
    phases = len(scenario4.MISSION_PHASES)
    return [MultiDiscrete([phases] + [2] * (size - 1)) for size in scenario4.OBS_SIZES]


def _indices(actions: Mapping[str, int]) -> list[int]:
    _check_agents("actions", actions)
    return [
        checked_action(f"actions[{agent!r}]", i, actions.get(agent, scenario4.SLEEP_ACTIONS[i]))
        for i, agent in enumerate(scenario4.AGENTS)
    ]


def _bits(messages: Mapping[str, Any]) -> NDArray[np.bool_]:
    _check_agents("messages", messages)
    bits = np.zeros((len(scenario4.AGENTS), scenario4.MESSAGE_BITS), np.bool_)
    for i, agent in enumerate(scenario4.AGENTS):
        if agent not in messages:
            continue
        message = np.asarray(messages[agent])
        if message.shape != (scenario4.MESSAGE_BITS,) or not np.isin(message, (0, 1)).all():
            raise ValueError(
                f"messages[{agent!r}]={message}: give {scenario4.MESSAGE_BITS} zeros and ones"
            )
        bits[i] = message
    return bits


def _check_agents(name: str, values: Mapping[str, Any]) -> None:
    for agent in values:
        if agent not in scenario4.AGENTS:
            raise ValueError(
                f"{name}: agent {agent!r} is unknown, choose from {', '.join(scenario4.AGENTS)}"
            )
