"""The champion of CAGE Challenge 4: a network on each agent's memory, with NumPy alone."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from workflow_rl.agents.policies.archive import read_archive
from workflow_rl.cage4.agent import memory
from workflow_rl.cage4.agent.champion_network import SHAPES, Weights, logits
from workflow_rl.cage4.scenario4 import FIRST_OF_KIND, SLEEP_ACTIONS

AGENT_FILE = "champion.npz"
WEIGHTS = Path(__file__).parent / "released" / AGENT_FILE
TeamWeights: TypeAlias = tuple[Weights, Weights]
NETWORKS = ("zone", "headquarters")
"""One network for agents 0 to 3, one for agent 4."""
FIRST_ACTION = np.stack([FIRST_OF_KIND["Remove"], FIRST_OF_KIND["Restore"]], axis=1)
"""By agent: the first index of Remove and of Restore."""


def load_weights(path: Path = WEIGHTS, content: bytes | None = None) -> TeamWeights:
    """Return the arrays of the two networks, in the order of SHAPES.

    content: what the file holds, if it was read already. The file may be a stranger's. Raises
    OSError, and ValueError for another file.
    """
    try:
        with np.load(io.BytesIO(read_archive(path, content)), allow_pickle=False) as stored:
            names = {f"{network}_{name}" for network in NETWORKS for name in SHAPES}
            if set(stored.files) != names:
                raise ValueError("it holds no networks of a champion")
            zone, headquarters = (
                tuple(_checked(stored[f"{network}_{name}"], SHAPES[name]) for name in SHAPES)
                for network in NETWORKS
            )
    except (OSError, ValueError):
        raise
    except Exception as error:  # A damaged file can raise anything.
        raise ValueError("it holds no networks of a champion") from error
    return zone, headquarters


def _checked(array: NDArray[Any], shape: tuple[int, ...]) -> NDArray[np.float32]:
    if array.shape != shape or array.dtype != np.float16 or not np.isfinite(array).all():
        raise ValueError("it holds other arrays than a champion's networks")
    return array.astype(np.float32)


def save_weights(file: Path | IO[bytes], weights: TeamWeights) -> None:
    """Write what `load_weights` reads."""
    arrays: dict[str, Any] = {
        f"{network}_{name}": array.astype(np.float16)
        for network, arrays in zip(NETWORKS, weights, strict=True)
        for name, array in zip(SHAPES, arrays, strict=True)
    }
    np.savez(file, **arrays)


def made_at(path: Path) -> Path | None:
    """Return the champion's file at a path, which may be the folder of its run; None if there is
    none."""
    if path.is_dir():
        # A run of CAGE-2's champion holds a file of this name, and checkpoints.
        path = path if (path / "checkpoint.pt").exists() else path / AGENT_FILE
    try:
        load_weights(path)
    except (OSError, ValueError):
        return None
    return path


class Memory:
    """The fields of MEMORY as arrays of their own: NumPy reads fields of records slowly."""

    def __init__(self) -> None:
        for name in memory.MEMORY.names or ():
            kind = memory.MEMORY[name]
            setattr(self, name, np.zeros(kind.shape, kind.base) if kind.shape else 0)


class ChampionTeam:
    """It plays one episode at a time: see `scripted.ScriptedTeam`."""

    def __init__(self, weights: TeamWeights | None = None) -> None:
        self._weights = weights or load_weights()

    def reset(self, masks: Sequence[NDArray[np.bool_]], seed: int) -> None:
        self._memory = Memory()
        memory.begin(self._memory, np.concatenate(masks))

    def act(self, observations: Sequence[NDArray[np.int64]]) -> tuple[list[int], None]:
        memory.read_observations(self._memory, np.concatenate(observations).tolist())
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
