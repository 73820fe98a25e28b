"""A gridworld whose agent visits five sites in the order that it is told.

cd examples
workflow-rl train-async --env ordered_visits:make --total-steps 400000 --run-dir ../runs/visits
workflow-rl search-workflow ../runs/visits --episodes 2 --output ../runs/visits-orders
python ordered_visits.py ../runs/visits-orders/workflow.json  # How many orders were played at best?
"""

from __future__ import annotations

import json
import sys
from collections import deque
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np

from workflow_rl.workflows.envs import OrderedEnv

SIZE, MOST_STEPS = 6, 60
START = (2, 2)
SITES = {"depot": (0, 0), "gate": (0, 4), "lab": (5, 5), "mast": (3, 4), "pier": (5, 1)}
MOVES = ((-1, 0), (1, 0), (0, -1), (0, 1))
VISIT = 10.0
"""The reward of a site. Every step costs 1."""


class Visits(gymnasium.Env[np.ndarray, Any]):
    """An observation is uint8: the agent's cell, one-hot, and which sites have been visited."""

    observation_space = gymnasium.spaces.MultiBinary(SIZE * SIZE + len(SITES))
    action_space = gymnasium.spaces.Discrete(len(MOVES))

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        super().reset(seed=seed)
        self._at, self._visited, self._steps = START, [False] * len(SITES), 0
        return self._seen(), {}

    def step(self, action: Any) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        self._at, self._steps, reward = moved(self._at, int(action)), self._steps + 1, -1.0
        for n, site in enumerate(SITES.values()):
            if self._at == site and not self._visited[n]:
                self._visited[n], reward = True, reward + VISIT
        return self._seen(), reward, all(self._visited), self._steps == MOST_STEPS, {}

    def _seen(self) -> np.ndarray:
        cell = np.zeros(SIZE * SIZE, np.int8)
        cell[self._at[0] * SIZE + self._at[1]] = 1
        return np.concatenate([cell, np.array(self._visited, np.int8)])


def moved(at: tuple[int, int], action: int) -> tuple[int, int]:
    """Return where a move leads; the edge stops it."""
    row, column = at[0] + MOVES[action][0], at[1] + MOVES[action][1]
    return min(max(row, 0), SIZE - 1), min(max(column, 0), SIZE - 1)


def needs(obs: np.ndarray) -> np.ndarray:
    """Return which sites are still to be visited."""
    return obs[SIZE * SIZE :] == 0


def fixes(obs: np.ndarray) -> list[int]:
    """Return the site that each move would visit now, or -1."""
    at = divmod(int(obs[: SIZE * SIZE].argmax()), SIZE)
    sites, needed = list(SITES.values()), needs(obs)
    places = [moved(at, action) for action in range(len(MOVES))]
    return [sites.index(p) if p in sites and needed[sites.index(p)] else -1 for p in places]


def make(order: str = "", obedience: str = "mask", penalty: float = 0.0) -> OrderedEnv:
    """Return the environment. order: such as "depot,gate,lab,mast,pier"."""
    return OrderedEnv(Visits(), list(SITES), needs, fixes, order, obedience, penalty)


def best_return(order: Sequence[str]) -> float:
    """Return what an order yields at best, by breadth-first search."""
    at, steps = START, 0
    for n, name in enumerate(order):
        closed = {SITES[other] for other in order[n + 1 :]}
        reached, queue = {at: 0}, deque([at])
        while SITES[name] not in reached:
            here = queue.popleft()
            for action in range(len(MOVES)):
                there = moved(here, action)
                if there not in reached and there not in closed:
                    reached[there] = reached[here] + 1
                    queue.append(there)
        at, steps = SITES[name], steps + reached[SITES[name]]
    return VISIT * len(order) - steps


if __name__ == "__main__":
    orders = json.loads(Path(sys.argv[1]).read_text())["orders"]
    best = [best_return(row["order"].split(",")) for row in orders]
    n_at_best = sum(row["mean"] == most for row, most in zip(orders, best, strict=True))
    n_ended = sum(row["mean"] > 0 for row in orders)
    print(f"{n_at_best} of {len(best)} orders were played at best, ", end="")
    print(f"{n_ended} to the end; the best order yields {max(best):.0f}")
