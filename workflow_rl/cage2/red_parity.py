"""Red's side in lock-step: CybORG and the compiled simulator, both told what Red does."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from workflow_rl.cage2.cyborg.red_cyborg import ToldRed
from workflow_rl.cage2.env.cage2_env import Cage2Env
from workflow_rl.cage2.interface import OWN_RED
from workflow_rl.cage2.scenario.scenario import Scenario
from workflow_rl.cage2.scenario2 import RED_ACTION_NAMES

if TYPE_CHECKING:
    from workflow_rl.agents.policies.numpy_policy import NumpyPolicy
    from workflow_rl.cage2.attackers import SeenBatch

Draw: TypeAlias = "Callable[[NDArray[np.uint8], np.random.Generator], int]"


class DrawnRed:
    """Draws Red's actions by a function of the mask of those that are possible, and a generator."""

    def __init__(self, draw: Draw, n_actions: int = len(RED_ACTION_NAMES)) -> None:
        self._draw = draw
        self._n_actions = n_actions

    def reset(self, seed: int) -> None:
        """Begin an episode."""
        self._random = np.random.default_rng(seed)

    def act(self, obs: NDArray[np.uint8]) -> int:
        """Return Red's action. obs: a row, see `attackers.SeenBatch`."""
        return self._draw(obs[-self._n_actions :], self._random)


class PolicyRed:
    """A trained red agent."""

    def __init__(self, policy: NumpyPolicy) -> None:
        self._policy = policy
        self.reset = policy.reset

    def act(self, obs: NDArray[np.uint8]) -> int:
        """Return Red's action: see `DrawnRed`."""
        return int(self._policy.act(obs[None])[0][0])


OutsideRed: TypeAlias = DrawnRed | PolicyRed


def any_action(mask: NDArray[np.uint8], random: np.random.Generator) -> int:
    """Draw one of all actions."""
    return int(random.integers(len(mask)))


def possible_action(mask: NDArray[np.uint8], random: np.random.Generator) -> int:
    """Draw one of the actions that are possible."""
    return int(random.choice(np.flatnonzero(mask)))


def impossible_action(mask: NDArray[np.uint8], random: np.random.Generator) -> int:
    """Draw one of the actions that are not possible, in every second step or so."""
    impossible = np.flatnonzero(mask == 0)
    if len(impossible) and random.random() < 0.5:
        return int(random.choice(impossible))
    return possible_action(mask, random)


DRAWS: dict[str, Draw] = {
    "any-action": any_action,
    "possible-action": possible_action,
    "impossible-action": impossible_action,
}
DRAWN_REDS = {name: DrawnRed(draw) for name, draw in DRAWS.items()}
"""Red agents outside of both simulators, by name."""


class RedSides:
    """Red in an env of CybORG's and in the compiled simulator. An `attackers.AttackerBatch`."""

    def __init__(self, simulator: str, max_steps: int, scenario: Scenario) -> None:
        from workflow_rl.cage2.compiled.description import tables_of
        from workflow_rl.cage2.compiled.red_simulator import RedSimulator
        from workflow_rl.cage2.compiled.simulator import CompiledSimulator

        self.env = Cage2Env("SleepAgent", max_steps, simulator, "uint8", scenario=scenario)
        self.compiled = CompiledSimulator(max_steps, {OWN_RED: self}, tables_of(scenario))
        batch = self.compiled._simulator
        assert isinstance(batch, RedSimulator)
        self._batch = batch
        self._red = ToldRed(self.env)

    def begin(self, envs: Sequence[int], seeds: Sequence[int], generators: Sequence[Any]) -> None:
        """See `attackers.AttackerBatch`."""

    def act(self, envs: Sequence[int], seen: SeenBatch) -> NDArray[np.int64]:
        """See `attackers.AttackerBatch`."""
        return np.array([self._red.told])

    def shown(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return what Red sees in both simulators. Call it once after each step."""
        observation, row = self._batch.observation(0), self._batch.rows[0]
        seen = {"red_observation": observation, "red_row": row.tolist()}
        return self._red.shown(), seen

    def choose(self, red: OutsideRed) -> None:
        """Ask an agent for Red's next action, which both simulators will be told."""
        self._red.told = red.act(self._batch.rows[0])
