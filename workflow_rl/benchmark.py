"""How fast each way of collecting plays episodes, and how near it comes to what the machine can do.

The ceiling is measured, not assumed: one free-running process a core, each playing episodes with
the same policy and sending nothing. Variants and ceiling take turns within every round, and a
variant is compared with the ceiling of the same round, so that a machine that is slower for a
minute, or shared, does not decide the outcome.
"""

from __future__ import annotations

import dataclasses
import json
import logging
import math
import statistics
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click
from tqdm import tqdm

from workflow_rl.async_train_workflow_rl import collect_asynchronously
from workflow_rl.benchmark_report import benchmark_figure, benchmark_table
from workflow_rl.config import (
    RED_AGENT_CHOICES,
    ConfigError,
    Mode,
    TrainConfig,
    usable_cores,
)
from workflow_rl.episode import EpisodeSpec, SeedStream, episode_spec
from workflow_rl.output_files import require_writable, write_text
from workflow_rl.parallel_env_async import AsyncParallelEnv
from workflow_rl.parallel_train_workflow_rl import collect_synchronously
from workflow_rl.versions import environment
from workflow_rl.worker_pool import StopRequested, TooManyFailuresError

if TYPE_CHECKING:
    from agents.numpy_policy import NumpyPolicy
    from workflow_rl.rollout import Collect

VARIANTS = ("sync", "sync-packed", "async", "sync-training", "async-training")
CEILING = "ceiling"
SIMULATORS = {"stock": "cyborg-stock", "cyborg": "cyborg"}


class Variant(NamedTuple):
    """One bar of the chart. name: one of VARIANTS, or CEILING. simulator: a key of SIMULATORS."""

    name: str
    simulator: str
    config: TrainConfig

    @property
    def is_training(self) -> bool:
        """Whether the policy learns meanwhile."""
        return self.name.endswith("-training")


class Rate(NamedTuple):
    """What one measurement gave."""

    episodes_per_second: float
    env_steps_per_second: float
    worker_utilisation: float


def make_variants(
    simulators: Sequence[str],
    n_envs: Sequence[int],
    names: Sequence[str],
    episodes: int,
    **settings: Any,
) -> list[Variant]:
    """Every combination, and each simulator's ceiling first.

    episodes: at least so many a measurement, in whole multiples of the number of envs, so that
    synchronous collection has none idle at the end. settings: further fields of TrainConfig.
    Raises ConfigError.
    """
    cores = usable_cores()
    variants = []
    for simulator in simulators:
        settings["simulator"] = SIMULATORS[simulator]
        variants.append(Variant(CEILING, simulator, TrainConfig("async", cores, **settings)))
        for number in n_envs:
            for name in names:
                mode: Mode = "async" if name.startswith("async") else "sync"
                config = TrainConfig(
                    mode,
                    number,
                    envs_per_worker=math.ceil(number / cores) if name == "sync-packed" else None,  # type: ignore[arg-type]
                    total_episodes=math.ceil(episodes / number) * number,
                    **settings,
                )
                variants.append(Variant(name, simulator, config))
    return variants


def measure(
    variants: Sequence[Variant], rounds: int, ceiling_seconds: float, quiet: bool = True
) -> list[list[Rate]]:
    """Each variant's rates, one a round. Raises TooManyFailuresError, StopRequested.

    All workers are started before the first round and idle between their turns, but for those of
    whole training runs, which start their own, unmeasured.
    """
    from workflow_rl.training import make_pool

    rates: list[list[Rate]] = [[] for _ in variants]
    with ExitStack() as stack:
        players = []
        for variant in variants:
            if variant.is_training:
                players.append(_Trainer(variant))
            else:
                pool = stack.enter_context(make_pool(variant.config))
                policy = _initial_policy(variant.config)
                if variant.name == CEILING:
                    players.append(_FreeRunner(AsyncParallelEnv(pool), policy, ceiling_seconds))
        progress_bar = stack.enter_context(
            tqdm(total=(rounds + 1) * len(variants), unit="turn", disable=quiet)
        )
    return rates
