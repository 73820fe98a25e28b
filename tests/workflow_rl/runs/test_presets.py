"""Each preset's promises: which weights act, what is dropped, and that nothing else is lost."""

from __future__ import annotations

import ast
import json
import os
import signal
from typing import Any

import pytest
from click.testing import CliRunner

from tests.faulty_env import FaultyEnv
from tests.patience import eventually
from tests.tiny_envs import CountingEnv
from tests.tiny_runs import assert_nothing_missing, lags, recorded_updates, run
from tests.workflow_rl.conftest import assert_same_trajectories
from tests.workflow_rl.runs.preset_runs import (
    MODES,
    check_books,
    check_trajectories,
    entered_schedules,
    learned_in,
    learner_that_waits,
    preset_config,
)
from workflow_rl.agents.policies.numpy_policy import NumpyPolicy
from workflow_rl.cage2.scenario2 import RED_AGENTS
from workflow_rl.collection.env_positions import first_positions
from workflow_rl.collection.failures import StopRequested
from workflow_rl.collection.free_running import FreeRunning
from workflow_rl.collection.player import player_at
from workflow_rl.commands.main import main
from workflow_rl.environments.env_batch import SerialEnvs
from workflow_rl.errors import ConfigError
from workflow_rl.runs.config import TrainConfig
from workflow_rl.runs.folder import read_metrics
from workflow_rl.runs.learner import make_agent
from workflow_rl.runs.presets import KNOWN, PRESETS, RECIPES


@pytest.mark.parametrize(("mode", "name"), MODES)
@pytest.mark.parametrize("beside", ["evaluations", "killed workers"])
def test_what_is_learned_from_is_what_was_played(mode, name, beside, tmp_path):
    config = preset_config(mode, name)
    make_envs: Any = None
    if beside == "evaluations":
        config = preset_config(mode, name, eval_every=2, eval_episodes=4)
    else:
        tickets = [tmp_path / f"ticket-{number}" for number in range(3)]

        def make_envs(n_envs: int) -> SerialEnvs:
            return SerialEnvs(lambda: FaultyEnv(CountingEnv, "killed", "step", 25, tickets), n_envs)

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


@pytest.mark.parametrize("name", ["rsl-batch", "sample-factory-async", "continuous"])
def test_a_slow_learner_and_what_waits_for_it(name, tmp_path):
    capacity = 2
    drops = PRESETS[name].get("when_full") == "drop"
    changes = {
        "num_batches_to_accumulate": capacity,
        "take_all": False,
        # Episodes that are dropped count, and while the learner waits hundreds may be: the run is
        # stopped.
        "total_episodes": 1_000_000,
        # Of several, one that got no core for a while brings what is older still.
        "n_workers": 1,
    }

    def enough(schedule: FreeRunning) -> bool:
        return len(schedule._waiting) == capacity and bool(schedule._dropped or not drops)

    def wait_and_in_the_end_stop() -> None:
        eventually(lambda: enough(schedules[-1]))
        if len(updates) == 12:
            os.kill(os.getpid(), signal.SIGTERM)

    with (
        entered_schedules() as schedules,
        recorded_updates(wait_and_in_the_end_stop) as updates,
        pytest.raises(StopRequested),
    ):
        run(tmp_path, preset_config("async", name, **changes))
    summary = json.loads((tmp_path / "summary.json").read_text())
    check_books(tmp_path, updates)
    check_trajectories(updates, 4)
    rows = read_metrics(tmp_path)
    assert max(row["queue_length"] for row in rows) <= capacity
    assert max(row["queue_length"] for row in rows[2:]) >= capacity - 1
    # Not older than those that may wait, the one that finds no room, and what is in the making.
    assert max(max(lag) for lag in lags(updates)) <= capacity + 2
    if drops:
        assert summary["dropped_steps"] > 0
        steps = sum(t.length for t in learned_in(updates))
        assert summary["env_steps"] == steps + summary["dropped_steps"]
    else:
        assert summary["dropped_steps"] == 0
        assert_nothing_missing(learned_in(updates), 5)


def test_continuous_learns_from_all_that_waits(tmp_path):
    changes = {"num_batches_to_accumulate": 10_000, "total_episodes": 100}
    with learner_that_waits(lambda schedule: len(schedule._waiting) >= 4) as updates:
        summary = run(tmp_path, preset_config("async", "continuous", **changes))
    assert summary["dropped_steps"] == 0
    assert all(row["queue_length"] == 0 for row in read_metrics(tmp_path))
    smallest = 2 * 4  # The unroll of the worker with two of the five envs.
    assert all(sum(t.length for t in learned) >= 4 * smallest for _, learned in updates[1:])
    assert_nothing_missing(learned_in(updates), 5)


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
    result = CliRunner().invoke(
        main,
        ["train-sync", "--preset", "sample-factory-sync", "--steps-per-update", str(steps)],
    )
    assert result.exit_code == 2
    assert "--steps-per-update" in result.output
    assert f"give {valid}" in result.output.replace("\n", " ")
    TrainConfig("sync", n_envs=8, num_steps_per_env=32, steps_per_update=256)


@pytest.mark.parametrize("name", [*PRESETS, *RECIPES])
def test_a_preset_gives_way_to_the_command_line(name):
    given = ["--num-steps-per-env", "16", "--steps-per-update", "1024", "--n-envs", "4"]
    result = CliRunner().invoke(main, ["train-async", "--preset", name, *given, "--dry-run"])
    assert result.exit_code == 0, result.output
    lines = [line.rpartition("  # ")[0] for line in result.output.splitlines()]
    shown = dict(line.split(": ", 1) for line in lines)
    expected = {**KNOWN[name], "n_envs": 4, "num_steps_per_env": 16, "steps_per_update": 1024}
    expected["preset"] = name
    expected |= expected.pop("settings", {})
    assert {field: value_of(shown[field]) for field in expected} == {
        field: list(value) if isinstance(value, tuple) else value
        for field, value in expected.items()
    }


def value_of(shown: str) -> Any:
    """The value that --dry-run shows."""
    try:
        return ast.literal_eval(shown)
    except (SyntaxError, ValueError):
        return shown
