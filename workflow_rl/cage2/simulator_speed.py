"""Steps per second of csle-cyborg, as published and sped up, and of the compiled simulator."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from workflow_rl.cage2.compiled.simulator import BatchedSimulator
from workflow_rl.cage2.env.cage2_env import Cage2Env
from workflow_rl.cage2.scenario2 import ACTION_NAMES, RED_AGENTS

STOCK, COMPILED = "stock", "compiled"
CYBORGS = {STOCK: "cyborg-stock", "cyborg": "cyborg"}
MAX_STEPS = 100
N_GROUPS = 10


def play_cyborg(env: Cage2Env, actions: Iterator[NDArray[np.int64]], seconds: float) -> float:
    """Play whole episodes of one env for some seconds. Return steps per second."""
    n_steps = 0
    start = time.perf_counter()
    while (passed := time.perf_counter() - start) < seconds or n_steps == 0:
        env.reset()
        for _ in range(MAX_STEPS):
            env.step(int(next(actions)[0]))
        n_steps += MAX_STEPS
    return n_steps / passed


def play_compiled(
    envs: StaggeredEnvs, actions: Iterator[NDArray[np.int64]], seconds: float
) -> float:
    """Play all envs for some seconds. Return steps per second."""
    n_steps = 0
    start = time.perf_counter()
    while (passed := time.perf_counter() - start) < seconds or n_steps == 0:
        envs.step(next(actions))
        n_steps += envs.n_envs
    return n_steps / passed


class StaggeredEnvs:
    """Compiled envs, of which every tenth step a tenth begins an episode.

    So a turn of any length has its share of resets, and of early and late steps.
    """

    def __init__(self, red_agent: str, n_envs: int, seed: int) -> None:
        self.n_envs = n_envs
        self.simulator = BatchedSimulator(n_envs)
        self._red_agent = RED_AGENTS.index(red_agent)
        self._random = np.random.default_rng(seed)
        groups = np.arange(n_envs) * N_GROUPS // n_envs
        self._groups = [groups == group for group in range(N_GROUPS)]
        self._n_steps = 0
        self._reset(np.ones(n_envs, np.bool_))
        for actions in itertools.islice(random_actions(n_envs, seed), MAX_STEPS):
            self.step(actions)

    def step(self, actions: NDArray[np.int64]) -> None:
        """Begin the episodes that are due, then play one step. actions: [N]."""
        group, steps_since = divmod(self._n_steps % MAX_STEPS, MAX_STEPS // N_GROUPS)
        if steps_since == 0 and self._groups[group].any():
            self._reset(self._groups[group])
        self.simulator.step(actions)
        self._n_steps += 1

    def _reset(self, chosen: NDArray[np.bool_]) -> None:
        seeds = self._random.integers(2**31, size=self.n_envs)
        self.simulator.reset(seeds, self._red_agent, chosen)


def random_actions(n_envs: int, seed: int) -> Iterator[NDArray[np.int64]]:
    """Yield actions [N] for step after step, all equally likely.

    About 10,000 actions are drawn at a time: for few envs, a call for each step would take as long
    as the step.
    """
    random = np.random.default_rng(seed)
    n_steps = max(1, 10_000 // n_envs)
    while True:
        yield from random.integers(len(ACTION_NAMES), size=(n_steps, n_envs))
