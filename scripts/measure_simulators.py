"""Measure the simulators of CAGE-2 beside each other: what `benchmark_simulator` prints and draws.

Every variant has a turn in every round and is compared with stock csle-cyborg in the same round.
Envs play on in worker processes, one a core: threads in one process are as fast with 10,000 envs
and more, and with fewer envs they wait for each other between steps.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import multiprocessing
import signal
import statistics
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from workflow_rl.agents.policies.numpy_policy import FloatArray, NumpyPolicy, PolicyParameters
from workflow_rl.agents.ppo.config import PPOConfig
from workflow_rl.cage2.compiled.simulator import BatchedSimulator
from workflow_rl.cage2.env.cage2_env import Cage2Env
from workflow_rl.cage2.scenario2 import ACTION_NAMES, OBS_SIZE
from workflow_rl.cage2.simulator_speed import (
    COMPILED,
    CYBORGS,
    MAX_STEPS,
    STOCK,
    StaggeredEnvs,
    play_compiled,
    play_cyborg,
    random_actions,
)
from workflow_rl.collection.local_pool import SAFE_PATH, variables_set
from workflow_rl.measuring.turns import in_turns, median_ratio
from workflow_rl.runs.machine import environment, package_version

POLICIES = ("random", "network")


class SpeedVariant(NamedTuple):
    """What a row measures. simulator: a key of CYBORGS, or COMPILED. policy: one of POLICIES."""

    simulator: str
    red_agent: str
    policy: str = "random"
    n_envs: int = 1
    n_workers: int = 1

    @property
    def shares(self) -> list[int]:
        """The number of envs of each worker."""
        return [(self.n_envs + i) // self.n_workers for i in range(self.n_workers)]


Play: TypeAlias = Callable[[float], float]
"""Plays on for the given seconds, and returns steps per second."""


def speed_variants(
    red_agent: str, n_envs: Sequence[int], policies: Sequence[str], n_workers: Sequence[int]
) -> list[SpeedVariant]:
    """Return CybORG's two variants, stock first, and every combination for the compiled simulator.

    No worker is without an env, and no combination occurs twice.
    """
    cyborgs = [SpeedVariant(name, red_agent) for name in CYBORGS]
    compiled = [
        SpeedVariant(COMPILED, red_agent, policy, envs, min(workers, envs))
        for workers in n_workers
        for policy in policies
        for envs in n_envs
    ]
    return list(dict.fromkeys(cyborgs + compiled))


def measured_speeds(
    variants: Sequence[SpeedVariant], rounds: int, seconds: float, seed: int
) -> list[list[float]]:
    """Return each variant's steps per second, one a round. seconds: length of a turn.

    Before the first round, workers start, and envs come to the middle of their episodes. Raises
    BrokenProcessPool where a worker dies, MemoryError where envs do not fit.
    """
    # Compile once, in this process, and not in all workers at the same time.
    StaggeredEnvs("B_lineAgent", 1, seed)
    with contextlib.ExitStack() as stack, variables_set(SAFE_PATH):
        workers = [
            stack.enter_context(
                ProcessPoolExecutor(
                    1,
                    multiprocessing.get_context("spawn"),
                    initializer=signal.signal,
                    initargs=(signal.SIGINT, signal.SIG_IGN),
                )
            )
            for _ in range(max(variant.n_workers for variant in variants))
        ]
        for variant in variants:
            _take_turn(workers, variant, 0.0, seed, 0)
        turns = {
            variant: functools.partial(_take_turn, workers, variant, seconds, seed)
            for variant in variants
        }
        rates = in_turns(turns, rounds, quiet=False)
    return [rates[variant] for variant in variants]


def _take_turn(
    workers: Sequence[ProcessPoolExecutor], variant: SpeedVariant, seconds: float, seed: int, _: int
) -> float:
    turns = [
        workers[i].submit(_play, variant, share, seconds, seed + i)
        for i, share in enumerate(variant.shares)
    ]
    return sum(turn.result() for turn in turns)


def _play(variant: SpeedVariant, n_envs: int, seconds: float, seed: int) -> float:
    """Take a turn, in a worker."""
    return _make_play(variant, n_envs, seed)(seconds)


@functools.cache
def _make_play(variant: SpeedVariant, n_envs: int, seed: int) -> Play:
    """Make what a worker keeps from turn to turn: envs in their episodes, and what acts in them."""
    if variant.simulator != COMPILED:
        env = Cage2Env(variant.red_agent, MAX_STEPS, CYBORGS[variant.simulator])
        return functools.partial(play_cyborg, env, random_actions(1, seed))
    envs = _make_envs(variant.red_agent, n_envs, seed)
    if variant.policy == "random":
        return functools.partial(play_compiled, envs, random_actions(n_envs, seed))
    parameters = untrained_parameters(seed)

    def play_with_network(seconds: float) -> float:
        # A policy for each turn, as after an update: a new policy remembers no observation.
        policy = NumpyPolicy(parameters)
        return play_compiled(envs, network_actions(envs.simulator, policy, seed), seconds)

    return play_with_network


# All policies act in the same envs: 100,000 envs take 0.8 GB.
_make_envs = functools.cache(StaggeredEnvs)


def network_actions(
    simulator: BatchedSimulator, policy: NumpyPolicy, seed: int
) -> Iterator[NDArray[np.int64]]:
    """Yield actions [N] for step after step, sampled for the step's observations."""
    randoms = [np.random.default_rng(seed)] * len(simulator.states)
    while True:
        actions, _ = policy.act_batch(simulator.obs, randoms)
        yield actions


def untrained_parameters(seed: int) -> PolicyParameters:
    """Return an actor of the default size that prefers no action, as a training begins with."""
    config = PPOConfig()
    random = np.random.default_rng(seed)
    sizes = (OBS_SIZE, *config.hidden_sizes, len(ACTION_NAMES))
    weights: list[FloatArray] = [
        random.normal(0, n_in**-0.5, (n_in, n_out)).astype(np.float32)
        for n_in, n_out in itertools.pairwise(sizes)
    ]
    weights[-1] *= np.float32(0.01)
    biases = tuple(np.zeros(n_out, np.float32) for n_out in sizes[1:])
    return PolicyParameters(tuple(weights), biases, config.activation)


def bytes_per_env(simulator: BatchedSimulator) -> int:
    """Return the size of what the simulator keeps for one env: a state and a row of every array."""
    arrays = [array for array in vars(simulator).values() if isinstance(array, np.ndarray)]
    # A view counts with the array that it shows.
    return sum(array.nbytes for array in arrays if array.base is None) // len(simulator.states)


def speed_rows(
    variants: Sequence[SpeedVariant], rates: Sequence[Sequence[float]]
) -> list[dict[str, Any]]:
    """Return a row for each variant, as the JSON file has them: medians over the rounds.

    variants: of one red agent, as from `make_variants`.
    ratio_to_stock, ratio_to_best: medians of the ratios within each round. The best is the batch
    size whose median is highest with the same simulator and policy, on one core or on several.
    bytes_per_env: None for CybORG, whose envs have no fixed size.
    """
    stock = rates[[variant.simulator for variant in variants].index(STOCK)]
    best: dict[tuple[str, str, bool], Sequence[float]] = {}
    for variant, rounds in zip(variants, rates, strict=True):
        best[_line(variant)] = max(best.get(_line(variant), rounds), rounds, key=statistics.median)
    made_with = environment() | {"numba": package_version("numba")}
    made_with["usable_cores"] = made_with.pop("cores")
    size = bytes_per_env(BatchedSimulator(1))
    return [
        {
            "simulator": variant.simulator,
            "red_agent": variant.red_agent,
            "policy": variant.policy,
            "n_envs": variant.n_envs,
            "n_workers": variant.n_workers,
            "cores": variant.n_workers,
            "steps_per_second": statistics.median(rounds),
            "env_steps_per_second": statistics.median(rounds),
            "ratio_to_stock": median_ratio(rounds, stock),
            "ratio_to_best": median_ratio(rounds, best[_line(variant)]),
            "bytes_per_env": size if variant.simulator == COMPILED else None,
            "rounds": list(rounds),
            "max_steps": MAX_STEPS,
            **made_with,
        }
        for variant, rounds in zip(variants, rates, strict=True)
    ]


def _line(variant: SpeedVariant) -> tuple[str, str, bool]:
    return variant.simulator, variant.policy, variant.n_workers > 1
