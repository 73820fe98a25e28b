"""The environment of both sides of CAGE Challenge 2, with PettingZoo's ParallelEnv interface."""

from collections.abc import Mapping
from typing import Any, SupportsIndex

import numpy as np
from gymnasium.spaces import Box, Discrete
from gymnasium.utils import seeding
from numpy.typing import NDArray

from workflow_rl.cage.network_batch import OneNetwork
from workflow_rl.cage.parallel_env import PlainParallelEnv, Stepped
from workflow_rl.cage2.compiled.description import tables_of
from workflow_rl.cage2.compiled.red_simulator import RedSimulator
from workflow_rl.cage2.compiled.red_steps import OUTSIDE
from workflow_rl.cage2.env import checks
from workflow_rl.cage2.scenario.loading import scenario_of
from workflow_rl.cage2.scenario.scenario import Scenario
from workflow_rl.cage2.scenario2 import SCENARIO2

AGENTS = ("Blue", "Red")
BLUE, RED = AGENTS
SLEEP = 0


class BothSides(OneNetwork[RedSimulator]):
    """One compiled network of a scenario. The caller chooses the actions of both sides."""

    def __init__(self, max_steps: int, scenario: Scenario) -> None:
        super().__init__(RedSimulator(1, max_steps, remembers=True, tables=tables_of(scenario)))
        self._max_steps = max_steps
        self._red_obs_size = scenario.red_obs_size
        self._blue, self._red = np.zeros((2, 1), np.int64)
        self.steps_left = 0

    def begin(self, seed: int) -> None:
        self.batch.reset(seed, OUTSIDE)
        self.steps_left = self._max_steps

    def play(self, blue: int, red: int) -> float:
        """Play a step with indices of both sides' actions. Return Blue's reward."""
        self._blue[0] = blue
        self._red[0] = red
        self.batch.play_both(self._blue, self._red, self.chosen)
        self.steps_left -= 1
        return self.batch.rewards.item()

    @property
    def blue_obs(self) -> NDArray[np.float32]:
        return self.batch.obs[0].astype(np.float32)

    @property
    def red_obs(self) -> NDArray[np.float32]:
        return self.batch.rows[0, : self._red_obs_size].astype(np.float32)

    @property
    def red_mask(self) -> NDArray[np.uint8]:
        """The mask of Red's possible actions. The next step overwrites this array."""
        return self.batch.rows[0, self._red_obs_size :]


class Cage2DuelEnv(PlainParallelEnv):
    """A scenario of CAGE Challenge 2 for the agents "Blue" and "Red", which act in the same step.

    Blue has the observations and actions of `Cage2Env`. Red has the observations and actions of
    `Cage2RedEnv`. The sum of the rewards is zero. In `infos`, `action_mask` is int8, `[145]` for
    Blue and `[44]` for Red in Scenario 2, with 1 for possible actions. Blue's mask is always 1.

    Episodes never terminate. They are truncated after `max_steps` steps. Then `agents` is empty,
    and the env needs a reset. The seed given to `reset` determines the episode. Without a seed, the
    env's own generator draws a seed. The simulator is "compiled".

    Args:
        max_steps: length of an episode in steps, 100 by default.
        render_mode: has to be None, because there are no pictures.
        scenario: a Scenario, scenario2, scenario1b, or the path of a scenario file.

    Raises:
        ValueError: an argument is out of range, or there is no such scenario.
        TypeError: `render_mode` is not None."""

    metadata = {"name": "CAGE2-duel-v0", "render_modes": [], "is_parallelizable": True}  # noqa: RUF012

    def __init__(
        self, max_steps: int | None = None, render_mode: None = None, scenario: Any = SCENARIO2
    ) -> None:
        checks.check_render_mode(render_mode)
        self.max_steps = checks.checked_steps(max_steps)
        network = scenario_of(scenario)
        self.possible_agents = list(AGENTS)
        self.agents = []
        self.observation_spaces = {
            BLUE: Box(0, 1, (network.obs_size,), np.float32),
            RED: Box(0, 1, (network.red_obs_size,), np.float32),
        }
        self.action_spaces = {
            BLUE: Discrete(len(network.action_names)),
            RED: Discrete(len(network.red_action_names)),
        }
        self._sides = BothSides(self.max_steps, network)
        self._generator: np.random.Generator | None = None

    def reset(
        self, seed: int | None = None, options: Mapping[str, Any] | None = None
    ) -> tuple[dict[str, Any], dict[str, dict[str, Any]]]:
        """Begin an episode. Return the observations and the infos. Options have no effect.

        Raises ValueError if the seed is not from 0 to 2**63 - 1."""
        if seed is not None:
            seed = checks.checked_seed(seed)
        if seed is not None or self._generator is None:
            self._generator = seeding.np_random(seed)[0]
        episode_seed = int(self._generator.integers(2**31)) if seed is None else seed
        self._sides.begin(episode_seed)
        self.agents = list(AGENTS)
        return self._observations(), self._infos()

    def step(self, actions: Mapping[str, SupportsIndex]) -> Stepped:
        """Play one step: Blue's action, then Red's action. An agent without an action sleeps.

        Raises:
            ValueError: an agent is unknown, or an action is invalid. Then no action is played.
            RuntimeError: the episode is over.
        """
        if not self.agents:
            raise RuntimeError("the episode is over: call reset")
        for agent in actions:
            if agent not in AGENTS:
                raise ValueError(f"actions: agent {agent!r} is unknown: choose of Blue and Red")
        blue, red = (
            checks.checked_index(actions.get(agent, SLEEP), int(space.n))
            for agent, space in self.action_spaces.items()
        )
        reward = self._sides.play(blue, red)
        is_over = self._sides.steps_left == 0
        if is_over:
            self.agents = []
        return (
            self._observations(),
            {BLUE: reward, RED: 0.0 - reward},
            dict.fromkeys(AGENTS, False),
            dict.fromkeys(AGENTS, is_over),
            self._infos(),
        )

    def _observations(self) -> dict[str, Any]:
        return {BLUE: self._sides.blue_obs, RED: self._sides.red_obs}

    def _infos(self) -> dict[str, dict[str, Any]]:
        blue = np.ones(self.action_spaces[BLUE].n, np.int8)
        red = self._sides.red_mask.astype(np.int8)
        return {BLUE: {"action_mask": blue}, RED: {"action_mask": red}}
