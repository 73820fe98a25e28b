"""CAGE Challenge 2 from Red's side: an environment in which an attacker is trained against Blue."""

from __future__ import annotations

import copy
from typing import Any, Protocol, SupportsIndex

import gymnasium
import numpy as np
from numpy.typing import NDArray

from workflow_rl.cage.checks import checked_whole
from workflow_rl.cage2.compiled.description import tables_of
from workflow_rl.cage2.compiled.network import red_action_of
from workflow_rl.cage2.compiled.red_simulator import RedSimulator
from workflow_rl.cage2.compiled.red_steps import OUTSIDE
from workflow_rl.cage2.env import checks
from workflow_rl.cage2.scenario.loading import scenario_of
from workflow_rl.cage2.scenario2 import SCENARIO2, SUCCESSES

SLEEP = 0


class Defender(Protocol):
    """A defender, such as what `load_agent` returns."""

    def reset(self, seed: int) -> Any:
        """Begin an episode, whose random choices follow from `seed`."""

    def act(self, obs: NDArray[Any]) -> SupportsIndex:
        """Return an index into `Scenario.action_names` for an observation, `[52]` in Scenario 2."""


class Cage2RedEnv(gymnasium.Env[NDArray[np.float32], np.int64]):
    """CAGE Challenge 2 from Red's side: a scenario against one fixed Blue.

    An action is an index into the A `Scenario.red_action_names`, 44 in Scenario 2. An action on
    what Red does not know yet does nothing; `info["action_mask"]`, bool `[A]`, tells which actions
    are possible. The reward is the negative of Blue's: never negative, best for Red when it is
    large.

    An observation is float32 `[Scenario.red_obs_size]`, zeros and ones, what Red was shown: for
    each of the subnets whether Red knows it; for each of the hosts the
    `scenario2.FACTS_OF_A_HOST`; whether the last action succeeded, and whether it failed. Red is
    not told when Blue removes a session: a session counts until an action on its host fails.

    In each step Blue acts first, on what it saw of the step before. Episodes never terminate: they
    are truncated after `max_steps`. The seed of `reset` determines the episode, Blue's choices
    included. The simulator is the compiled one, which plays as csle-cyborg does.

    Args:
        blue: a `Defender`; None is a Blue that sleeps.
        max_steps: length of an episode in steps, 100 unless given.
        render_mode: None: there are no pictures.
        scenario: what is played: a Scenario, scenario2, scenario1b, or the path of a file.

    Raises:
        ValueError: an argument is out of range, or there is no such scenario.
        TypeError: `render_mode` is not None.
    """

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
        self._n_seen = self.scenario.red_obs_size
        self._n_actions = len(self.scenario.red_action_names)
        self.blue = blue
        self.observation_space = gymnasium.spaces.Box(0, 1, (self._n_seen,), np.float32)
        self.action_space = gymnasium.spaces.Discrete(self._n_actions)
        self._simulator = RedSimulator(
            1, self.max_steps, remembers=True, tables=tables_of(self.scenario)
        )
        self._blue, self._red = np.zeros((2, 1), np.int64)
        self._chosen = np.ones(1, np.bool_)
        self._steps_left = 0
        self._has_stepped = False

    __copy__ = copy.deepcopy

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[NDArray[np.float32], dict[str, Any]]:
        """Start an episode. Without a seed, the next one is drawn from `np_random`.

        Raises:
            ValueError: the seed is not from 0 to 2**63 - 1, or there are options.
        """
        checks.check_options(options, ())
        if seed is not None:
            seed = checks.checked_seed(seed)
        super().reset(seed=seed)
        episode_seed = int(self.np_random.integers(2**31)) if seed is None else seed
        self._simulator.reset(episode_seed, OUTSIDE)
        if self.blue is not None:
            self.blue.reset(episode_seed)
        self._steps_left = self.max_steps
        self._has_stepped = False
        return self._observation(), self._info()

    def step(
        self, action: SupportsIndex
    ) -> tuple[NDArray[np.float32], float, bool, bool, dict[str, Any]]:
        """Play one step: Blue's action, then Red's.

        Raises:
            ValueError: the action is no index into `Scenario.red_action_names`, or Blue's is none
                into `Scenario.action_names`.
            gymnasium.error.ResetNeeded: the episode has been truncated or never started.
        """
        index = checks.checked_index(action, self._n_actions)
        if self._steps_left == 0:
            raise gymnasium.error.ResetNeeded("call reset() first: no episode is in progress")
        blue = SLEEP
        if self.blue is not None:
            seen = self._simulator.obs[0].astype(np.float32)
            blue = checked_whole("the action of blue", self.blue.act(seen))
            n = len(self.scenario.action_names)
            if not 0 <= blue < n:
                raise ValueError(f"the action of blue={blue}: it is no index from 0 to {n - 1}")
        self._blue[0], self._red[0] = blue, index
        self._simulator.play_both(self._blue, self._red, self._chosen)
        self._steps_left -= 1
        self._has_stepped = True
        reward = 0.0 - self._simulator.rewards.item()  # Never -0.0.
        info = self._info() | {"blue_action": np.int64(blue)}
        return self._observation(), reward, False, self._steps_left == 0, info

    def render(self) -> None:
        """Raise NotImplementedError, which names the alternatives."""
        raise NotImplementedError(checks.NO_PICTURES)

    def describe(self, truth: bool = False) -> dict[str, Any]:
        """Return Red's last action in CybORG's words, and whether it succeeded.

        truth: also tell what Blue did, which Red does not see.

        Raises:
            gymnasium.error.ResetNeeded: there has been no step in this episode.
        """
        if not self._has_stepped:
            raise gymnasium.error.ResetNeeded("call step() first: there has been no step")
        success = SUCCESSES[self._simulator.facts[0, 3]]
        seen: dict[str, Any] = {
            "red_action": red_action_of(self._simulator.states[0]),
            "red_success": {"TRUE": True, "FALSE": False}.get(success),
        }
        if not truth:
            return seen
        return seen | {"blue_action": self.scenario.action_names[self._blue[0]]}

    def red_observation(self) -> dict[str, Any]:
        """Return what CybORG shows Red after the last action, in plain values: see
        `attackers.Seen`."""
        return self._simulator.observation(0)

    def _info(self) -> dict[str, Any]:
        return {"action_mask": self._simulator.rows[0, self._n_seen :].astype(np.bool_)}

    def _observation(self) -> NDArray[np.float32]:
        return self._simulator.rows[0, : self._n_seen].astype(np.float32)
