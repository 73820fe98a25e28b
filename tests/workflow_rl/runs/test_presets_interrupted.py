"""Runs of presets that are stopped, fail, or leave out an episode that raises."""

from __future__ import annotations

import json
import os
import signal
import time
from contextlib import suppress

import pytest

from tests.faulty_env import FaultyEnv
from tests.patience import eventually
from tests.tiny_envs import CountingEnv, RaisingEnv
from tests.tiny_runs import assert_nothing_missing, config_of, recorded_updates, run
from tests.workflow_rl.runs.preset_runs import (
    MODES,
    check_books,
    check_trajectories,
    entered_schedules,
    learned_in,
    preset_config,
)
from workflow_rl.cage2.scenario2 import RED_AGENTS
from workflow_rl.collection.failures import StopRequested, TooManyFailuresError
from workflow_rl.environments.env_batch import SerialEnvs
from workflow_rl.environments.episode import episode_spec
from workflow_rl.runs.checkpoint import load_checkpoint
from workflow_rl.runs.folder import is_finished, read_metrics

pytestmark = pytest.mark.system


@pytest.mark.parametrize("name", ["sample-factory-async", "alf", "rsl-batch", "continuous"])
def test_failures_without_end_reach_the_learner_and_leave_a_checkpoint(name, tmp_path):
    tickets = [tmp_path / f"ticket-{number}" for number in range(50)]

    def make_envs(n_envs: int) -> SerialEnvs:
        return SerialEnvs(lambda: FaultyEnv(CountingEnv, "exception", "step", 30, tickets), n_envs)

    path = tmp_path / "run"
    config = preset_config("async", name, max_worker_failures=2, total_episodes=100_000)
    start = time.monotonic()
    with pytest.raises(TooManyFailuresError, match="ArithmeticError: the injected fault"):
        run(path, config, make_envs=make_envs)
    assert time.monotonic() - start < 60
    assert load_checkpoint(path / "checkpoint.safetensors").training.updates == len(
        read_metrics(path)
    )


@pytest.mark.parametrize(("mode", "name"), MODES)
def test_a_stopped_run_goes_on_and_ends(mode, name, tmp_path):
    # No end before it is stopped, however many episodes are dropped, or learned from at once.
    config = preset_config(mode, name, total_episodes=1_000_000)
    n_updates = 0

    def stop() -> None:
        nonlocal n_updates
        n_updates += 1
        if n_updates == 3:
            os.kill(os.getpid(), signal.SIGTERM)
            time.sleep(0.01)

    with recorded_updates(stop) as updates, pytest.raises(StopRequested, match="SIGTERM"):
        run(tmp_path, config)
    check_books(tmp_path, updates)
    assert len(updates) == 3
    episodes = load_checkpoint(tmp_path / "checkpoint.safetensors").training.episodes
    config = config.changed(total_episodes=episodes + 60)
    with recorded_updates() as more:
        summary = run(tmp_path, config)
    assert [version for version, _ in updates + more] == list(range(summary["updates"]))
    check_books(tmp_path, updates + more)
    check_trajectories(updates + more, config.num_steps_per_env)
    if not summary["dropped_steps"]:
        assert_nothing_missing(learned_in(updates + more), 5)
    assert json.loads((tmp_path / "summary.json").read_text())["episodes"] >= config.total_episodes


@pytest.mark.parametrize(
    ("batching", "when_full", "take_all"),
    [
        ("whole-batches", "wait", False),
        ("whole-batches", "drop", True),
        ("first-come", "wait", True),
        ("first-come", "drop", False),
    ],
)
def test_complete_episodes_are_learned_once_through_every_stop(
    batching, when_full, take_all, tmp_path
):
    """Stopped after every fourth update, while workers are in the middle of others."""
    config = config_of(
        "async",
        async_rl=True,
        num_batches_to_accumulate=2,
        total_episodes=160 if when_full == "drop" else 80,
        n_workers=3,
        **{"batching": batching, "when_full": when_full, "take_all": take_all},
    )
    n_updates = 0

    def stop() -> None:
        nonlocal n_updates
        n_updates += 1
        time.sleep(0.01)
        if n_updates == 1 and when_full == "drop":
            eventually(lambda: schedules[-1]._dropped)
        if n_updates % 4 == 0:
            os.kill(os.getpid(), signal.SIGTERM)
            time.sleep(0.01)

    with entered_schedules() as schedules, recorded_updates(stop) as updates:
        while not is_finished(tmp_path):
            with suppress(StopRequested):
                run(tmp_path, config)
    numbers = [t.episode for t in learned_in(updates)]
    assert len(set(numbers)) == len(numbers), "an episode is learned from twice"
    assert all(len(learned) >= config.episodes_per_update for _, learned in updates)
    training = load_checkpoint(tmp_path / "checkpoint.safetensors").training
    if when_full == "wait":
        assert training.dropped_steps == 0
        finished = set(range(training.episodes + len(training.unfinished)))
        assert set(numbers) == finished - set(training.unfinished)
    else:
        assert training.episodes > len(numbers)


@pytest.mark.parametrize(
    ("mode", "name"),
    [
        *(("async", None), ("sync", None), ("sync", "sample-factory-sync")),
        *(("async", "rsl-batch"), ("async", "continuous"), ("async", "mbpo-batch")),
    ],
)
def test_an_episode_that_always_raises_is_left_out(mode, name, tmp_path):
    """By a run and by what goes on with it; it counts as played."""
    config = config_of(mode) if name is None else preset_config(mode, name)
    if config.batching == "first-come":
        # Of two workers that run freely one might play too little to come to the episode.
        config = preset_config(mode, name, n_workers=1)
    broken = episode_spec(config.seed, 17, RED_AGENTS)

    def make_envs(n_envs: int) -> SerialEnvs:
        return SerialEnvs(lambda: RaisingEnv(frozenset([broken.env_seed])), n_envs)

    with recorded_updates() as updates:
        summary = run(tmp_path, config, make_envs=make_envs)
    more = config.changed(total_episodes=2 * config.total_episodes)
    with recorded_updates() as later:
        run(tmp_path, more, make_envs=make_envs)
    steps = [t.steps_before + t.length for t in learned_in(updates + later) if t.episode == 17]
    assert not steps or max(steps) == 1, "it raises at its second step"
    assert load_checkpoint(tmp_path / "checkpoint.safetensors").training.skipped_episodes == [17]
    if config.batching == "exact-lag":
        assert summary["skipped_episodes"] == [17]
    assert sum(row["skipped_episodes"] for row in read_metrics(tmp_path)) == 1
    if name is None:
        played = {t.episode for t in learned_in(updates + later)}
        assert played == set(range(2 * config.total_episodes)) - {17}
