"""The champion of CAGE Challenge 4: a network on each agent's memory, with NumPy alone."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from workflow_rl.cage4.agent import memory
from workflow_rl.cage4.agent.network import SHAPES, Weights, logits
from workflow_rl.cage4.interface import SLEEP_ACTIONS
from workflow_rl.cage4.scenario4 import ACTIONS

WEIGHTS = Path(__file__).parent / "released" / "champion.npz"
NETWORKS = ("zone", "headquarters")
"""One network for agents 0 to 3, one for agent 4."""
FIRST_ACTION = np.array(
    [
        [[action.kind for action in actions].index(kind) for kind in ("Remove", "Restore")]
        for actions in ACTIONS
    ]
)
"""By agent: the first index of Remove and of Restore."""


def load_weights(path: Path = WEIGHTS) -> tuple[Weights, Weights]:
    """Return the arrays of the two networks, in the order of SHAPES."""
    with np.load(path, allow_pickle=False) as stored:
        zone, headquarters = (
            tuple(stored[f"{network}_{name}"].astype(np.float32) for name in SHAPES)
            for network in NETWORKS
        )
    return zone, headquarters


def save_weights(path: Path, weights: tuple[Weights, Weights]) -> None:
    """Write what `load_weights` reads."""
    arrays: dict[str, Any] = {
        f"{network}_{name}": array.astype(np.float16)
        for network, own in zip(NETWORKS, weights, strict=True)
        for name, array in zip(SHAPES, own, strict=True)
    }
    np.savez_compressed(path, **arrays)


class ChampionTeam:
    """It plays one episode at a time: see `scripted.ScriptedTeam`."""

    def __init__(self, weights: tuple[Weights, Weights] | None = None) -> None:
        self._weights = weights or load_weights()

    def reset(self, masks: Sequence[NDArray[np.bool_]], seed: int) -> None:
        self._memory = np.zeros(1, memory.MEMORY).view(np.recarray)[0]
        memory.begin(self._memory, np.concatenate(masks))

    def act(self, observations: Sequence[NDArray[np.int64]]) -> tuple[list[int], None]:
        memory.read(self._memory, np.concatenate(observations).tolist())
        return [self._act(agent) for agent in range(memory.N_AGENTS)], None

    def _act(self, agent: int) -> int:
        n = int(memory.ZONE_COUNT[agent]) * memory.N_HOSTS
        options = np.zeros(1 + 2 * n, np.bool_)
        if not memory.may_act(self._memory, agent) or not memory.find_options(
            self._memory, agent, options
        ):
            return SLEEP_ACTIONS[agent]
        hosts = np.zeros((n, memory.N_FEATURES), np.float32)
        context = np.zeros(memory.N_CONTEXT, np.float32)
        memory.describe(self._memory, agent, hosts, context)
        scores = logits(self._weights[agent == memory.N_AGENTS - 1], hosts, context)
        chosen = int(np.where(options, scores, -np.inf).argmax()) - 1
        if chosen < 0:
            return SLEEP_ACTIONS[agent]
        restores, host = divmod(chosen, n)
        memory.start(self._memory, agent, host, bool(restores))
        return int(FIRST_ACTION[agent, restores]) + host
