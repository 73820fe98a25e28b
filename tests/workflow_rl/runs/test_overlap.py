"""Whole runs that collect while they learn, with an exact lag: the same weights, come what may."""

from __future__ import annotations

import functools
import os
import signal
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from tests.faulty_env import FaultyEnv
from tests.patience import eventually
from tests.processes import survivors, workers_of
from tests.tiny_envs import CountingEnv
from tests.tiny_runs import (
    assert_nothing_missing,
    assert_one_episode_each,
    config_of,
    lags,
    recorded_updates,
    run,
    same_weights,
)
from workflow_rl.collection.failures import StopRequested, TooManyFailuresError
from workflow_rl.environments.env_batch import SerialEnvs
from workflow_rl.runs.checkpoint import load_checkpoint
from workflow_rl.runs.folder import read_metrics

pytestmark = pytest.mark.system

KINDS: dict[str, dict[str, Any]] = {
    "episodes-lag-1": {"async_rl": True},
    "episodes-lag-3": {"async_rl": True, "num_batches_to_accumulate": 3, "total_episodes": 60},
    "unrolls-lag-0": {"num_steps_per_env": 4, "steps_per_update": 40},
    "unrolls-lag-1": {"num_steps_per_env": 4, "steps_per_update": 40, "async_rl": True},
    "unrolls-lag-3": {
        **{"num_steps_per_env": 4, "steps_per_update": 20, "total_episodes": 20},
        **{"async_rl": True, "num_batches_to_accumulate": 3},
    },
}

ALTERNATING = list(zip(KINDS, ("sync", "async", "async", "sync", "async"), strict=True))


def lag_of(kind: str) -> int:
    return int(kind[-1])


@pytest.fixture(scope="module")
def reference(tmp_path_factory) -> Any:
    """The run of a kind that nothing happens to, with one worker."""

    @functools.cache
    def path_of(kind: str) -> Path:
        path = tmp_path_factory.mktemp("reference") / kind
        with recorded_updates() as updates:
            run(path, config_of(n_workers=1, **KINDS[kind]))
        assert lags(updates) == [{min(n, lag_of(kind))} for n in range(len(updates))]
        assert len(updates) > lag_of(kind) + 1
        for row, (version, learned) in zip(read_metrics(path), updates, strict=True):
            lag = {version - trajectory.policy_version for trajectory in learned}
            assert {row["policy_lag_min"], row["policy_lag_mean"], row["policy_lag_max"]} == lag
            assert row["dropped_steps"] == 0
            assert row["queue_length"] <= lag_of(kind)
        learned = [trajectory for _, trajectories in updates for trajectory in trajectories]
        assert_one_episode_each(learned)
        assert_nothing_missing(learned, 5)
        if KINDS[kind].get("num_steps_per_env"):
            expected = KINDS[kind]["steps_per_update"]
            assert {sum(t.length for t in some) for _, some in updates} == {expected}
        return path

    return path_of


@pytest.mark.parametrize("shape", [{"n_workers": 5}, {"mode": "sync"}])
@pytest.mark.parametrize("kind", KINDS)
def test_same_weights_whatever_the_workers_and_the_mode(kind, shape, reference, tmp_path):
    run(tmp_path, config_of(**KINDS[kind], **shape))
    assert same_weights(tmp_path, reference(kind))


@pytest.mark.parametrize("kind", ["episodes-lag-1", "unrolls-lag-1"])
def test_with_a_lag_a_run_ends_with_other_weights_than_without(kind, reference, tmp_path):
    run(tmp_path, config_of(**{**KINDS[kind], "async_rl": False}))
    assert not same_weights(tmp_path, reference(kind))


@pytest.mark.parametrize(("kind", "mode"), ALTERNATING)
def test_same_weights_when_workers_are_killed(kind, mode, reference, tmp_path):
    def kill(pool, policy, count):
        if count in (1, 3):
            pool._workers[count % 2].process.kill()
        if count == 2:
            pool._workers[0].process.kill()
            pool._workers[1].process.kill()

    run(tmp_path, config_of(mode, n_workers=2, **KINDS[kind]), kill)
    assert same_weights(tmp_path, reference(kind))


@pytest.mark.parametrize(("kind", "mode"), ALTERNATING)
def test_evaluations_do_not_change_the_weights(kind, mode, reference, tmp_path):
    run(tmp_path, config_of(mode, eval_every=2, eval_episodes=7, **KINDS[kind]))
    assert same_weights(tmp_path, reference(kind))
    scores = [row["eval_return_mean"] for row in read_metrics(tmp_path)]
    assert [score == score for score in scores[:4]] == [False, True, False, True]


def stopping_at(at: int, then: Any = None) -> Any:
    """Sends the run a signal before the collection of this number, counted from 0."""

    def stop(pool, policy, count):
        if then is not None:
            then(pool, policy, count)
        if count == at:
            os.kill(os.getpid(), signal.SIGINT)
            eventually(lambda: pool.stop_signal is not None)

    return stop


@pytest.mark.parametrize("mode", ["sync", "async"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_run_stopped_again_and_again_goes_on_to_the_same_weights(kind, mode, reference, tmp_path):
    config = config_of(mode, n_workers=2, checkpoint_every=100, **KINDS[kind])

    def kill(pool, policy, count):
        if count == 1:
            pool._workers[1].process.kill()

    # At once; right after it was resumed; in its first batches; later, with workers killed.
    for at in (0, 0, 2, 0, lag_of(kind) + 2):
        with pytest.raises(StopRequested, match="SIGINT"):
            run(tmp_path, config, stopping_at(at, kill))
    assert load_checkpoint(tmp_path / "checkpoint.safetensors").training.updates >= 2
    run(tmp_path, config)
    assert same_weights(tmp_path, reference(kind))
    updates = [row["update"] for row in read_metrics(tmp_path)]
    assert updates == list(range(1, len(updates) + 1))


@pytest.mark.parametrize("kind", ["episodes-lag-1", "unrolls-lag-3"])
def test_a_run_that_vanished_after_it_was_resumed_goes_on_to_the_same_weights(
    kind, reference, tmp_path
):
    """What it saves before its first batch has to be as good as what it was resumed from."""
    config = config_of(n_workers=2, **KINDS[kind])
    with pytest.raises(StopRequested):
        run(tmp_path, config, stopping_at(lag_of(kind) + 2))

    def vanish(pool, policy, count):
        raise SystemExit

    with pytest.raises(SystemExit):
        run(tmp_path, config, vanish)
    run(tmp_path, config)
    assert same_weights(tmp_path, reference(kind))


def faulty_envs(tickets: list[Path], fault: str, at: int) -> Any:
    def make_envs(n_envs: int) -> SerialEnvs:
        return SerialEnvs(lambda: FaultyEnv(CountingEnv, fault, "step", at, tickets), n_envs)

    return make_envs


@pytest.mark.parametrize("mode", ["sync", "async"])
@pytest.mark.parametrize("kind", ["episodes-lag-1", "unrolls-lag-3"])
def test_too_many_failures_reach_the_learner_and_leave_a_checkpoint_to_go_on_from(
    kind, mode, reference, tmp_path
):
    config = config_of(mode, n_workers=2, max_worker_failures=1, **KINDS[kind])
    tickets = [tmp_path / f"ticket-{number}" for number in range(9)]
    path = tmp_path / "run"
    with pytest.raises(TooManyFailuresError, match="ArithmeticError: the injected fault"):
        run(path, config, make_envs=faulty_envs(tickets, "exception", 18))
    assert not survivors(workers_of(), 30)
    run(path, config)
    assert same_weights(path, reference(kind))


@pytest.mark.parametrize("kind", ["episodes-lag-1", "unrolls-lag-1"])
@pytest.mark.parametrize("mode", ["sync", "async"])
def test_a_run_whose_workers_hang_is_stopped_within_seconds(kind, mode, tmp_path):
    config = config_of(mode, n_workers=2, **KINDS[kind])
    tickets = [tmp_path / f"ticket-{number}" for number in range(2)]
    stopped_at = []

    def stop_later(pool, policy, count):
        if count == 0:

            def stop() -> None:
                stopped_at.append(time.monotonic())
                os.kill(os.getpid(), signal.SIGTERM)

            threading.Timer(0.5, stop).start()

    with pytest.raises(StopRequested, match="SIGTERM"):
        run(tmp_path / "run", config, stop_later, faulty_envs(tickets, "hang", 12))
    assert time.monotonic() - stopped_at[0] < 30  # Half of what workers have for an answer.
    assert not survivors(workers_of(), 30)
    assert (tmp_path / "run" / "checkpoint.safetensors").exists()


@pytest.mark.parametrize("kind", ["episodes-lag-1", "unrolls-lag-1"])
def test_an_error_of_the_learner_ends_the_run_and_its_workers(kind, tmp_path):
    def fail() -> None:
        raise ZeroDivisionError("in the update")

    with recorded_updates(fail), pytest.raises(ZeroDivisionError, match="in the update"):
        run(tmp_path, config_of(**KINDS[kind]))
    assert not survivors(workers_of(), 30)
