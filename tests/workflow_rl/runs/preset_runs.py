"""Small runs of presets, slow learners, and checks of what was learned from."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.faulty_env import FaultyEnv
from tests.patience import eventually
from tests.tiny_envs import CountingEnv
from tests.tiny_runs import Learned, assert_one_episode_each, config_of, lags, recorded_updates
from workflow_rl.agents.trajectory import Trajectory
from workflow_rl.environments.env_batch import SerialEnvs
from workflow_rl.runs.config import TrainConfig
from workflow_rl.runs.folder import read_metrics
from workflow_rl.runs.newest_batches import FreeRunning
from workflow_rl.runs.presets import PRESETS
from workflow_rl.runs.read_checkpoint import load_checkpoint

MBPO = {
    "batch_size": 8,
    "gradient_steps": 0.1,
    "model_members": 2,
    "model_elites": 1,
    "model_hidden_sizes": (8,),
    "model_epochs": 1,
    "warm_up_steps": 40,
}
# Small batches in the place of the presets' own sizes.
SIZES = {
    "sample-factory-sync": {"num_steps_per_env": 4, "steps_per_update": 40},
    "sample-factory-async": {"num_steps_per_env": 4, "steps_per_update": 40},
    "alf": {"num_steps_per_env": 8},
    "rsl-batch": {"num_steps_per_env": 4},
    "continuous": {"num_steps_per_env": 4},
    "mbpo-continuous": {"num_steps_per_env": 4, "settings": MBPO},
    "mbpo-batch": {"n_envs": 5, "num_steps_per_env": 4, "settings": MBPO},
}
MODES = [
    *(("async", name) for name in PRESETS),
    *(("sync", name) for name in ("sample-factory-sync", "rsl-batch")),
]


def preset_config(mode: str, name: str, **changes: Any) -> TrainConfig:
    settings = {**PRESETS[name], **SIZES[name], "total_episodes": 40, "n_workers": 2}
    if name in ("rsl-batch", "mbpo-batch"):
        settings["steps_per_update"] = 20
    of_algorithm = {**PRESETS[name].get("settings", {}), **SIZES[name].get("settings", {})}
    return config_of(mode, **{**settings, "settings": of_algorithm, **changes})


def faulty_envs(folder: Path, n_faults: int, fault: str, at: int) -> Any:
    """CountingEnvs that have so many faults in all, at their step of this number."""
    tickets = [folder / f"ticket-{number}" for number in range(n_faults)]

    def make_envs(n_envs: int) -> SerialEnvs:
        return SerialEnvs(lambda: FaultyEnv(CountingEnv, fault, "step", at, tickets), n_envs)

    return make_envs


def learned_in(updates: list[Learned]) -> list[Trajectory]:
    return [trajectory for _, trajectories in updates for trajectory in trajectories]


@contextmanager
def entered_schedules() -> Iterator[list[FreeRunning]]:
    """Those of the runs in here."""
    schedules: list[FreeRunning] = []
    enter = FreeRunning.__enter__

    def entered(schedule: FreeRunning) -> FreeRunning:
        schedules.append(schedule)
        return enter(schedule)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(FreeRunning, "__enter__", entered)
        yield schedules


@contextmanager
def learner_that_waits(until: Callable[[FreeRunning], object]) -> Iterator[list[Learned]]:
    """An update of the runs in here lasts until so much waits for the next one. Gives them all."""
    with (
        entered_schedules() as schedules,
        recorded_updates(lambda: eventually(lambda: until(schedules[-1]))) as updates,
    ):
        yield updates


def check_books(path: Path, updates: list[Learned]) -> None:
    """What is logged is what was learned from, and what was not."""
    rows = read_metrics(path)
    assert len(rows) == len(updates)
    collected = 0
    for row, (version, learned), lag in zip(rows, updates, lags(updates), strict=True):
        steps = [t.length for t in learned]
        collected += sum(steps) + int(row["dropped_steps"])
        assert row["env_steps"] == collected
        assert (row["policy_lag_min"], row["policy_lag_max"]) == (min(lag), max(lag))
        mean = np.average([version - t.policy_version for t in learned], weights=steps)
        assert row["policy_lag_mean"] == pytest.approx(mean)
        assert min(lag) >= 0
    training = load_checkpoint(path / "checkpoint.safetensors").training
    assert training.env_steps == collected
    assert training.dropped_steps == sum(row["dropped_steps"] for row in rows)
    if all(row["dropped_steps"] == 0 for row in rows):
        assert training.episodes == sum(t.ended for t in learned_in(updates))


def check_trajectories(updates: list[Learned], n_steps: int) -> None:
    learned = learned_in(updates)
    assert_one_episode_each(learned)
    pieces = [(t.episode, t.steps_before) for t in learned]
    assert len(set(pieces)) == len(pieces), "a sample is learned from twice"
    for _, trajectories in updates:
        assert sum(t.length for t in trajectories) % n_steps == 0
