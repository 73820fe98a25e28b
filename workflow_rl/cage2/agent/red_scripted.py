"""Red agents that draw actions at random outside the simulators, to test rare states."""

from collections.abc import Callable, Sequence
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from workflow_rl.agents.policies.distributions import Choice
from workflow_rl.cage2.scenario2 import RED_ACTION_NAMES

Draw: TypeAlias = Callable[[NDArray[np.uint8], np.random.Generator], int]


class DrawnRed:
    """An Actor of one env. Its log-probabilities are NaN. draw: takes the mask of possible actions
    and a generator, and returns an action."""

    policy_version = 0

    def __init__(self, draw: Draw, n_actions: int = len(RED_ACTION_NAMES)) -> None:
        self._draw = draw
        self._n_actions = n_actions

    def reset(self, seed: int, env: int = 0, n_acted: int = 0) -> None:
        self._random = np.random.default_rng(seed)

    def act(self, obs: NDArray[np.uint8], envs: Sequence[int] = (0,)) -> Choice:
        """Return Red's action. obs: a row `[1, O + A]` of `attackers.SeenBatch`."""
        action = self._draw(obs[0, -self._n_actions :], self._random)
        return np.array([action]), np.full(1, np.nan, np.float32)


def any_action(mask: NDArray[np.uint8], random: np.random.Generator) -> int:
    return int(random.integers(len(mask)))


def possible_action(mask: NDArray[np.uint8], random: np.random.Generator) -> int:
    return int(random.choice(np.flatnonzero(mask)))


def impossible_action(mask: NDArray[np.uint8], random: np.random.Generator) -> int:
    """Draw an impossible action with probability 0.5, or else a possible action."""
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
