"""Each preset's promises: which weights act, what is dropped, that nothing else is lost, and what a
run that is stopped or fails leaves."""

import json
import os
import signal
import time
from contextlib import suppress

import pytest

from tests.patience import eventually
from tests.tiny_envs import CountingEnv, RaisingEnv
from tests.tiny_runs import (
    assert_nothing_missing,
    config_of,
    lags,
    recorded_updates,
    run,
    same_weights,
)
from tests.workflow_rl.conftest import assert_same_trajectories
from tests.workflow_rl.runs.preset_runs import (
    MODES,
    check_books,
    check_trajectories,
    entered_schedules,
    faulty_envs,
    learned_in,
    learner_that_waits,
    preset_config,
)
from workflow_rl.agents.policies.numpy_policy import NumpyPolicy
from workflow_rl.cage2.scenario2 import RED_AGENTS
from workflow_rl.collection.assignments import first_positions
from workflow_rl.collection.messages import StopRequested, TooManyFailuresError
from workflow_rl.collection.player import player_at
from workflow_rl.environments.env_batch import SerialEnvs
from workflow_rl.environments.episode import episode_spec
from workflow_rl.errors import ConfigError
from workflow_rl.runs.config import TrainConfig
from workflow_rl.runs.folder import is_finished, read_metrics
from workflow_rl.runs.learner import make_agent
from workflow_rl.runs.newest_batches import FreeRunning
from workflow_rl.runs.presets import PRESETS, RECIPES
from workflow_rl.runs.read_checkpoint import load_checkpoint
from workflow_rl.runs.resolve import preset_named


@pytest.mark.parametrize(("mode", "name"), MODES)
@pytest.mark.parametrize("beside", ["evaluations", "killed workers"])
def test_what_is_learned_from_is_what_was_played(mode, name, beside, tmp_path):
    evaluations = {"eval_every": 2, "eval_episodes": 4}
    config = preset_config(mode, name, **(evaluations if beside == "evaluations" else {}))
    make_envs = None
    if beside == "killed workers":
        make_envs = faulty_envs(tmp_path, 3, "killed", 25)

    with recorded_updates() as updates:
        summary = run(tmp_path / "run", config, make_envs=make_envs)
    check_books(tmp_path / "run", updates)
    check_trajectories(updates, config.num_steps_per_env)
    rows = read_metrics(tmp_path / "run")
    assert max(row["queue_length"] for row in rows) <= config.num_batches_to_accumulate
    assert summary["episodes"] >= 40
    assert summary["workers_restarted"] >= 2 or beside != "killed workers"
    if beside == "evaluations":
        scored = [row["eval_return_mean"] == row["eval_return_mean"] for row in rows]
        assert scored == [row["update"] % 2 == 0 for row in rows]
    if config.when_full == "wait":
        assert summary["dropped_steps"] == 0
        assert_nothing_missing(learned_in(updates), 5)
    if not config.async_rl:
        assert all(lag == {0} for lag in lags(updates))


def test_alf_learns_from_one_workers_unroll_at_a_time(tmp_path):
    config = preset_config("async", "alf", n_envs=6)
    assert (config.envs_per_worker, config.steps_per_update) == (3, 24)
    with recorded_updates() as updates:
        run(tmp_path, config)
    for _, learned in updates:
        envs = {t.episode % 6 for t in learned}
        assert envs in ({0, 2, 4}, {1, 3, 5})
        assert sum(t.length for t in learned) == 24
        assert len({t.policy_version for t in learned}) == 1


def test_sample_factory_async_learns_from_the_unrolls_of_different_weights(tmp_path):
    def is_blocked(schedule: FreeRunning) -> bool:
        """A third batch finds no room. Of the next, one unroll may be of the weights until now."""
        return len(schedule._waiting) == 2 and bool(schedule._to_put)

    config = preset_config("async", "sample-factory-async", n_envs=4, total_episodes=80)
    with learner_that_waits(is_blocked) as updates:
        run(tmp_path, config)
    for _, learned in updates:
        assert 40 <= sum(t.length for t in learned) < 40 + 2 * 4
    assert any(len({t.policy_version for t in learned}) > 1 for _, learned in updates)


def test_rsl_batch_takes_the_same_number_of_steps_from_every_env(tmp_path):
    with recorded_updates() as updates:
        run(tmp_path, preset_config("async", "rsl-batch", steps_per_update=40))
    for _, learned in updates:
        steps = [sum(t.length for t in learned if t.episode % 5 == env) for env in range(5)]
        assert steps == [8] * 5
        assert len({t.policy_version for t in learned}) == 1


@pytest.mark.parametrize("mode", ["sync", "async"])
def test_sample_factory_sync_collects_a_dataset_and_then_learns_from_it(mode, tmp_path):
    with recorded_updates() as updates:
        run(tmp_path, preset_config(mode, "sample-factory-sync"))
    player = player_at(SerialEnvs(CountingEnv, 5), first_positions(3, RED_AGENTS, 5))
    agent = make_agent(preset_config(mode, "sample-factory-sync"))
    policy = NumpyPolicy(agent.policy_parameters())
    expected = [t for _ in range(2) for t in player.unroll(policy, 4)]
    expected.sort(key=lambda t: (t.episode, t.steps_before))
    assert_same_trajectories(updates[0][1], expected)
    assert [version for version, _ in updates] == list(range(len(updates)))


@pytest.mark.parametrize(
    ("steps", "valid"), [(2400, "2304 or 2560"), (100, "256"), (257, "256 or 512")]
)
def test_a_dataset_is_a_multiple_of_what_the_envs_collect(steps, valid):
    with pytest.raises(ConfigError) as caught:
        TrainConfig("sync", n_envs=8, num_steps_per_env=32, steps_per_update=steps)
    assert caught.value.field_name == "steps_per_update"
    assert f"{steps} is not a multiple" in str(caught.value)
    assert str(caught.value).endswith(f"8 x 32 = 256: give {valid}")
    TrainConfig("sync", n_envs=8, num_steps_per_env=32, steps_per_update=256)


@pytest.mark.parametrize("name", [*PRESETS, *RECIPES])
def test_a_preset_gives_way_to_what_is_given(name):
    given = {"n_envs": 4, "num_steps_per_env": 16, "steps_per_update": 1024}
    flat = TrainConfig("async", preset=name, **given).flat()
    expected = {**preset_named(name), **given, "preset": name}
    expected |= expected.pop("settings", {})
    assert {field: flat[field] for field in expected} == {
        field: list(value) if isinstance(value, tuple) else value
        for field, value in expected.items()
    }


@pytest.mark.system
@pytest.mark.parametrize("name", ["sample-factory-async", "alf", "rsl-batch", "continuous"])
def test_failures_without_end_reach_the_learner_and_leave_a_checkpoint(name, tmp_path):
    path, make_envs = tmp_path / "run", faulty_envs(tmp_path, 50, "exception", 30)
    config = preset_config("async", name, max_worker_failures=2, total_episodes=100_000)
    start = time.monotonic()
    with pytest.raises(TooManyFailuresError, match="ArithmeticError: the injected fault"):
        run(path, config, make_envs=make_envs)
    assert time.monotonic() - start < 60
    assert load_checkpoint(path / "checkpoint.safetensors").training.updates == len(
        read_metrics(path)
    )


@pytest.mark.system
@pytest.mark.parametrize(("mode", "name"), MODES)
def test_a_stopped_run_goes_on_and_ends(mode, name, tmp_path):
    # No end before it is stopped, however many episodes are dropped, or learned from at once.
    config = preset_config(mode, name, total_episodes=1_000_000)

    def stop() -> None:
        if len(updates) == 3:
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


@pytest.mark.system
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
    how = {"batching": batching, "when_full": when_full, "take_all": take_all}
    counts = {"total_episodes": 160 if when_full == "drop" else 80, "n_workers": 3}
    config = config_of(async_rl=True, num_batches_to_accumulate=2, **how, **counts)

    def stop() -> None:
        time.sleep(0.01)
        if len(updates) == 1 and when_full == "drop":
            eventually(lambda: schedules[-1]._dropped)
        if len(updates) % 4 == 0:
            os.kill(os.getpid(), signal.SIGTERM)
            time.sleep(0.01)

    with entered_schedules() as schedules, recorded_updates(stop) as updates:
        while not is_finished(tmp_path):
            with suppress(StopRequested):
                run(tmp_path, config)
    check_books(tmp_path, updates)
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


@pytest.mark.system
@pytest.mark.parametrize(
    ("mode", "name"),
    [
        *(("async", None), ("sync", None), ("sync", "sample-factory-sync")),
        *(("async", "rsl-batch"), ("async", "continuous"), ("async", "mbpo-batch")),
    ],
)
def test_an_episode_that_always_raises_is_left_out(mode, name, tmp_path):
    """By a run and by what goes on with it, with any number of workers; it counts as played."""
    path = tmp_path / "run"
    config = config_of(mode) if name is None else preset_config(mode, name)
    if config.batching == "first-come":
        # Of two workers that run freely one might play too little to come to the episode.
        config = preset_config(mode, name, n_workers=1)
    broken = episode_spec(config.seed, 17, RED_AGENTS)

    def make_envs(n_envs: int) -> SerialEnvs:
        return SerialEnvs(lambda: RaisingEnv(frozenset([broken.env_seed])), n_envs)

    with recorded_updates() as updates:
        summary = run(path, config, make_envs=make_envs)
    if name is None:
        run(tmp_path / "alone", config.changed(n_workers=1), make_envs=make_envs)
        assert same_weights(path, tmp_path / "alone")
    more = config.changed(total_episodes=2 * config.total_episodes)
    with recorded_updates() as later:
        run(path, more, make_envs=make_envs)
    steps = [t.steps_before + t.length for t in learned_in(updates + later) if t.episode == 17]
    assert not steps or max(steps) == 1, "it raises at its second step"
    assert load_checkpoint(path / "checkpoint.safetensors").training.skipped_episodes == [17]
    if config.batching == "exact-lag":
        assert summary["skipped_episodes"] == [17]
    assert sum(row["skipped_episodes"] for row in read_metrics(path)) == 1
    if name is None:
        played = {t.episode for t in learned_in(updates + later)}
        assert played == set(range(2 * config.total_episodes)) - {17}
