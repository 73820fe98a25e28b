"""Small runs of several policies on CountingEnv, and of populations whose members meet."""

from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from tests import tiny_runs
from tests.tiny_runs import Interfered, on_counting_envs, same_weights
from workflow_rl.runs import loop
from workflow_rl.runs.config import POPULATION_FILE, TrainConfig
from workflow_rl.runs.folder import runs_in
from workflow_rl.runs.learner import Learner
from workflow_rl.runs.on_update import OnUpdate
from workflow_rl.runs.read_checkpoint import load_checkpoint
from workflow_rl.runs.several_policies import (
    ExchangeConfig,
    PopulationRecord,
    begin_population,
    policy_folder,
    read_population,
)
from workflow_rl.studies.population import Population, drawn

N_POLICIES = 4
EXCHANGE = ExchangeConfig(
    ranges={"learning_rate": (1e-4, 1e-1), "discount": (0.9, 0.99)},
    period=12,
    replace_fraction=0.3,
    replace_gap=0.0,
    mutation_rate=0.8,
)


def slow(value: Any) -> Any:
    """One more moment of many, among the long checks."""
    return pytest.param(value, marks=pytest.mark.slow)


def configs_of(
    n_policies: int, exchange: ExchangeConfig | None = None, **changes: Any
) -> list[TrainConfig]:
    configs = [tiny_runs.config_of(**{"seed": 3 + n, **changes}) for n in range(n_policies)]
    if exchange is None:
        return configs
    return [
        one.changed(settings=one.settings.changed(**drawn(exchange.ranges, one.seed)))
        for one in configs
    ]


def run(
    path: Path,
    configs: list[TrainConfig],
    exchange: ExchangeConfig | None = None,
    before: Any = None,
    on_update: OnUpdate | None = None,
) -> list[dict[str, Any]]:
    if not (path / POPULATION_FILE).exists():
        settings = None if exchange is None else exchange.to_dict()
        begin_population(path, PopulationRecord([one.to_dict() for one in configs], settings))
    record = read_population(path)
    learners = []
    for number, config in enumerate(configs):
        folder = policy_folder(path, number)
        resumed = None
        if (folder / "checkpoint.safetensors").exists():
            resumed = load_checkpoint(folder / "checkpoint.safetensors")
            changes = {"n_workers": config.n_workers, "envs_per_worker": config.envs_per_worker}
            config = TrainConfig.from_dict(resumed.config).changed(**changes)
        learners.append(Learner(config, folder, resumed, on_update=on_update))

    make_collector = loop.make_collector

    def interfered(pool: Any, config: TrainConfig) -> Any:
        collector = make_collector(pool, config)
        return collector if before is None else Interfered(collector, pool, before)

    def begin() -> loop.Meetings:
        return loop.Meetings() if exchange is None else Population(path, record, learners)

    with on_counting_envs(), patch.object(loop, "make_collector", interfered):
        return loop.train_together(learners, quiet=True, watch=loop.stopped_by_signals, begin=begin)


def same_population(one: Path, other: Path) -> bool:
    left, right = read_population(one), read_population(other)
    return left.meetings == right.meetings and all(
        same_weights(*folders) for folders in zip(runs_in(one), runs_in(other), strict=True)
    )


SHORT = "--env CartPole-v1 --total-steps 900 --steps-per-update 150"
