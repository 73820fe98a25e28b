"""Red's side in lock-step: CybORG and the compiled simulator, both told what Red does."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from workflow_rl.cage2.agent.scripted import ScriptedAgent
from workflow_rl.cage2.cyborg.red_side import ToldRed
from workflow_rl.cage2.env.cage2_env import Cage2Env
from workflow_rl.cage2.interface import OWN_RED
from workflow_rl.cage2.scenario2 import RED_ACTION_NAMES, RED_OBS_SIZE

if TYPE_CHECKING:
    from workflow_rl.cage2.attackers import SeenBatch

Draw: TypeAlias = "Callable[[NDArray[np.uint8], np.random.Generator], int]"


class DrawnRed:
    """Draws Red's actions from a function of what Red sees, and a generator."""

    def __init__(self, draw: Draw) -> None:
        self._draw = draw

    def reset(self, seed: int) -> None:
        """Begin an episode."""
        self._random = np.random.default_rng(seed)

    def act(self, obs: NDArray[np.uint8], info: Any = None) -> int:
        """Return Red's action. obs: a row, see `attackers.SeenBatch`."""
        return self._draw(obs, self._random)


def any_action(row: NDArray[np.uint8], random: np.random.Generator) -> int:
    """Draw one of all actions."""
    return int(random.integers(len(RED_ACTION_NAMES)))


def possible_action(row: NDArray[np.uint8], random: np.random.Generator) -> int:
    """Draw one of the actions that are possible."""
    return int(random.choice(np.flatnonzero(row[RED_OBS_SIZE:])))


def impossible_action(row: NDArray[np.uint8], random: np.random.Generator) -> int:
    """Draw one of the actions that are not possible, in every second step or so."""
    impossible = np.flatnonzero(row[RED_OBS_SIZE:] == 0)
    if len(impossible) and random.random() < 0.5:
        return int(random.choice(impossible))
    return possible_action(row, random)


DRAWN_REDS = {
    "any-action": DrawnRed(any_action),
    "possible-action": DrawnRed(possible_action),
    "impossible-action": DrawnRed(impossible_action),
}
"""Red agents outside of both simulators, by name."""


class RedSides:
    """Red in an env of CybORG's and in the compiled simulator. An `attackers.AttackerBatch`."""

    def __init__(self, simulator: str, max_steps: int) -> None:
        from workflow_rl.cage2.compiled.red_simulator import RedSimulator
        from workflow_rl.cage2.compiled.simulator import CompiledSimulator

        self.env = Cage2Env(simulator=simulator, max_steps=max_steps, obs_dtype="uint8")
        self.compiled = CompiledSimulator(max_steps, {OWN_RED: self})
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

    def choose(self, red: ScriptedAgent) -> None:
        """Ask an agent for Red's next action, which both simulators will be told."""
        self._red.told = red.act(self._batch.rows[0])
