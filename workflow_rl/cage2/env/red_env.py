"""The Gymnasium environment of CAGE Challenge 2 from Red's side, for training an attacker."""

import copy
from typing import Any, Protocol, SupportsIndex

import gymnasium
import numpy as np
from numpy.typing import NDArray

from workflow_rl.cage.checks import checked_whole
from workflow_rl.cage2.compiled.cyborg_words import red_action_of
from workflow_rl.cage2.env import checks
from workflow_rl.cage2.env.duel_env import SLEEP, BothSides
from workflow_rl.cage2.scenario.loading import scenario_of
from workflow_rl.cage2.scenario2 import SCENARIO2, SUCCESSES


class Defender(Protocol):
    """A defender. `load_agent` returns such an object."""

    def reset(self, seed: int) -> Any:
        """Begin an episode. The seed determines the defender's random choices."""

    def act(self, obs: NDArray[Any]) -> SupportsIndex:
        """Return an index into `Scenario.action_names` for an observation, `[52]` in Scenario 2."""


class Cage2RedEnv(gymnasium.Env[NDArray[np.float32], np.int64]):
    """CAGE Challenge 2 from Red's side: a scenario against one fixed Blue.

    An action is an index into `Scenario.red_action_names`, A names, which are 44 in Scenario 2. An
    action on a target that Red does not know yet does nothing. `info["action_mask"]`, bool `[A]`,
    is the mask of possible actions. The reward is Blue's reward times -1, so it is never negative.

    An observation is float32 `[Scenario.red_obs_size]`, zeros and ones. Each subnet has one bit,
    which tells whether Red knows the subnet. Each host has the bits `scenario2.FACTS_OF_A_HOST`.
    Two last bits tell whether Red's last action succeeded, and whether it failed. Red does not see
    when Blue removes a session. The session's bit stays until Red's action on this host fails.

    In each step, Blue acts first, on its observation of the step before. Episodes never terminate.
    They are truncated after `max_steps` steps. The seed given to `reset` determines the episode
    with Blue's choices. The simulator is "compiled", which plays the same episodes as csle-cyborg.

    Args:
        blue: a `Defender`, or None if Blue only sleeps.
        max_steps: length of an episode in steps, 100 by default.
        render_mode: has to be None, because there are no pictures.
        scenario: a Scenario, scenario2, scenario1b, or the path of a scenario file.

    Raises:
        ValueError: an argument is out of range, or there is no such scenario.
        TypeError: `render_mode` is not None."""

    metadata = {"render_modes": []}  # noqa: RUF012 (Gymnasium's own declaration)

    def __init__(
        self,
        blue: Defender | None = None,
        max_steps: int | None = None,
        render_mode: str | None = None,
        scenario: Any = SCENARIO2,
    ) -> None:
        checks.check_render_mode(render_mode)
        self.max_steps = checks.checked_steps(max_steps)
        self.scenario = scenario_of(scenario)
        self._n_actions = len(self.scenario.red_action_names)
        self.blue = blue
        self.observation_space = gymnasium.spaces.Box(
            0, 1, (self.scenario.red_obs_size,), np.float32
        )
        self.action_space = gymnasium.spaces.Discrete(self._n_actions)
        self._sides = BothSides(self.max_steps, self.scenario)
        self._blue_action: int | None = None

    __copy__ = copy.deepcopy

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[NDArray[np.float32], dict[str, Any]]:
        """Start an episode. Without a seed, `np_random` draws the seed.

        Raises:
            ValueError: the seed is not from 0 to 2**63 - 1, or there are options.
        """
        checks.check_options(options, ())
        if seed is not None:
            seed = checks.checked_seed(seed)
        super().reset(seed=seed)
        episode_seed = int(self.np_random.integers(2**31)) if seed is None else seed
        self._sides.begin(episode_seed)
        if self.blue is not None:
            self.blue.reset(episode_seed)
        self._blue_action = None
        return self._sides.red_obs, self._info()

    def step(
        self, action: SupportsIndex
    ) -> tuple[NDArray[np.float32], float, bool, bool, dict[str, Any]]:
        """Play one step: Blue's action, then Red's action.

        Raises:
            ValueError: the action is no index into `Scenario.red_action_names`, or Blue's action is
                no index into `Scenario.action_names`.
            gymnasium.error.ResetNeeded: the episode has been truncated or never started.
        """
        index = checks.checked_index(action, self._n_actions)
        if self._sides.steps_left == 0:
            raise gymnasium.error.ResetNeeded("call reset() first: no episode is in progress")
        blue_action = SLEEP if self.blue is None else self._choice_of(self.blue)
        reward = 0.0 - self._sides.play(blue_action, index)  # A minus sign would give -0.0.
        self._blue_action = blue_action
        info = self._info() | {"blue_action": np.int64(blue_action)}
        return self._sides.red_obs, reward, False, self._sides.steps_left == 0, info

    def _choice_of(self, blue: Defender) -> int:
        choice = checked_whole("the action of blue", blue.act(self._sides.blue_obs))
        n = len(self.scenario.action_names)
        if not 0 <= choice < n:
            raise ValueError(f"the action of blue={choice}: it is no index from 0 to {n - 1}")
        return choice

    def render(self) -> None:
        """Raise NotImplementedError, which names the alternatives."""
        raise NotImplementedError(checks.NO_PICTURES)

    def describe(self, truth: bool = False) -> dict[str, Any]:
        """Return Red's last action in CybORG's words, and whether it succeeded.

        truth: whether to add Blue's action, which Red does not see.

        Raises:
            gymnasium.error.ResetNeeded: there has been no step in this episode.
        """
        if self._blue_action is None:
            raise gymnasium.error.ResetNeeded("call step() first: there has been no step")
        batch = self._sides.batch
        _, _, _, red_success, _ = batch.facts[0].tolist()
        seen: dict[str, Any] = {
            "red_action": red_action_of(batch.states[0], batch.tables),
            "red_success": {"TRUE": True, "FALSE": False}.get(SUCCESSES[red_success]),
        }
        if not truth:
            return seen
        return seen | {"blue_action": self.scenario.action_names[self._blue_action]}

    def red_observation(self) -> dict[str, Any]:
        """Return what CybORG shows Red after the last action, in plain values: see
        `attackers.Seen`."""
        return self._sides.batch.observation(0)

    def _info(self) -> dict[str, Any]:
        return {"action_mask": self._sides.red_mask.astype(np.bool_)}
