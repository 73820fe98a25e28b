"""Whole small runs on CybORG: the same weights whatever happens on the way."""

from __future__ import annotations

import csv
import functools
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest
import torch
from click.testing import CliRunner

from agents.ppo.agent import PPOConfig
from tests.patience import eventually
from workflow_rl.cage2.env.cage2_env import Cage2Env
from workflow_rl.cage2.env.environment import Cage2
from workflow_rl.collection.failures import StopRequested, TooManyFailuresError
from workflow_rl.collection.local_pool import LocalPool
from workflow_rl.commands.main import main
from workflow_rl.environments.env_batch import SerialEnvs
from workflow_rl.runs import learner, loop
from workflow_rl.runs.checkpoint import (
    Checkpoint,
    CheckpointError,
    TrainingState,
    load_checkpoint,
)
from workflow_rl.runs.config import TrainConfig
from workflow_rl.runs.folder import METRICS, is_finished, read_metrics
from workflow_rl.runs.loop import make_collector, train
from workflow_rl.runs.run_record import read_record

ROOT = Path(__file__).resolve().parents[3]
PPO = PPOConfig(hidden_sizes=(16,), minibatch_size=40, epochs=2)


def config_of(mode: str = "async", simulator: str = "cyborg", **changes: Any) -> TrainConfig:
    defaults: dict[str, Any] = {
        **{"n_envs": 4, "total_episodes": 24, "episodes_per_update": 6, "seed": 3},
        "env_args": {"red_agent": "mixed", "max_steps": 8, "simulator": simulator},
    }
    return TrainConfig(mode=mode, ppo=PPO, **{**defaults, **changes})  # type: ignore[arg-type]


def run(path: Path, config: TrainConfig, resumed: Checkpoint | None = None) -> dict[str, Any]:
    return train(config, path, resumed, quiet=True)


def interfered_run(path: Path, config: TrainConfig, before: Any) -> dict[str, Any]:
    """A run before whose collections something happens, stopped by signals as on the command
    line. before: called with the pool, the policy and the specs."""

    def collector_of(pool: LocalPool, config: TrainConfig) -> Any:
        return Interfered(make_collector(pool, config), functools.partial(before, pool))

    return train(config, path, quiet=True, watch=loop.stopped_by_signals, collector_of=collector_of)


def weights(path: Path) -> dict[str, torch.Tensor]:
    return dict(load_checkpoint(path / "checkpoint.pt").agent["network"])


def same_weights(one: Path, other: Path) -> bool:
    left, right = weights(one), weights(other)
    return left.keys() == right.keys() and all(torch.equal(left[k], right[k]) for k in left)


@pytest.fixture(scope="module")
def reference(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("runs") / "reference"
    run(path, config_of(n_workers=2))
    return path


@pytest.mark.parametrize(
    ("mode", "shape"),
    [
        ("async", {"n_workers": 1}),
        ("async", {"n_workers": 7, "n_envs": 7}),
        ("sync", {}),
        ("sync", {"n_workers": 2}),
    ],
)
def test_same_weights_whatever_the_workers_and_the_mode(mode, shape, reference, tmp_path):
    run(tmp_path / "run", config_of(mode, **shape))
    assert same_weights(tmp_path / "run", reference)


class Interfered:
    """A collector before whose collections something happens."""

    def __init__(self, collector, before) -> None:
        self.collector, self.before = collector, before
        self.start_unrolls = collector.start_unrolls

    def collect(self, policy, specs, *following):
        self.before(policy, specs)
        return self.collector.collect(policy, specs, *following)

    def unroll(self, policy, times=1):
        self.before(policy, None)
        return self.collector.unroll(policy, times)


@pytest.mark.parametrize("mode", ["sync", "async"])
def test_same_weights_when_workers_are_killed(mode, reference, tmp_path):
    def kill(pool, policy, specs):
        if policy.policy_version in (1, 2):
            pool._workers[policy.policy_version - 1].process.kill()

    summary = interfered_run(tmp_path / "run", config_of(mode, n_workers=2), kill)
    assert summary["workers_restarted"] == 2
    assert same_weights(tmp_path / "run", reference)


def wait_for_signal(pool) -> None:
    """Collections run in a thread; Python calls signal handlers in the main one."""
    deadline = time.monotonic() + 10
    while pool.stop_signal is None and time.monotonic() < deadline:
        time.sleep(0.01)


def read_metrics_if_any(path: Path) -> list[dict[str, float]]:
    return read_metrics(path) if (path / "metrics.csv").exists() else []


def test_same_weights_on_the_compiled_simulator(reference, tmp_path):
    run(tmp_path / "run", config_of(simulator="compiled"))
    assert same_weights(tmp_path / "run", reference)


@pytest.mark.parametrize("changes", [{}, {"async_rl": True}])
def test_a_run_ends_with_exactly_its_episodes(changes, tmp_path):
    config = config_of(simulator="compiled", total_episodes=16, **changes)
    summary = run(tmp_path / "run", config)
    assert (summary["episodes"], summary["updates"]) == (16, 3)


def test_another_seed_gives_other_weights(reference, tmp_path):
    run(tmp_path / "run", config_of(seed=4))
    assert not same_weights(tmp_path / "run", reference)


def test_training_changes_the_weights(reference):
    before = learner.make_agent(config_of()).network.state_dict()
    after = weights(reference)
    assert not any(torch.equal(before[name], after[name]) for name in after)


@pytest.mark.parametrize("mode", ["sync", "async"])
@pytest.mark.parametrize("stop_after", [0, 1, 3])
def test_a_stopped_run_goes_on_to_the_same_weights(mode, stop_after, reference, tmp_path):
    config = config_of(mode, checkpoint_every=2)
    calls = []

    def stop(pool, policy, specs):
        calls.append(specs)
        if len(calls) > stop_after:
            os.kill(os.getpid(), signal.SIGINT)
            wait_for_signal(pool)

    with pytest.raises(StopRequested, match="SIGINT"):
        interfered_run(tmp_path / "run", config, stop)
    checkpoint = load_checkpoint(tmp_path / "run" / "checkpoint.pt")
    assert checkpoint.training.updates == stop_after
    summary = json.loads((tmp_path / "run" / "summary.json").read_text())
    assert not summary["finished"]
    assert summary["reason"] == "stopped by SIGINT"
    assert summary["updates"] == stop_after
    assert not is_finished(tmp_path / "run")
    run(tmp_path / "run", config, checkpoint)
    assert is_finished(tmp_path / "run")
    assert same_weights(tmp_path / "run", reference)
    assert [row["episodes"] for row in read_metrics(tmp_path / "run")] == [6, 12, 18, 24]


def test_too_many_failures_leave_a_checkpoint_that_can_be_resumed(reference, tmp_path, monkeypatch):
    from tests.faulty_env import FaultyEnv

    def make_envs(n_envs: int) -> SerialEnvs:
        def make_env() -> FaultyEnv:
            tickets = [tmp_path / f"ticket-{number}" for number in range(50)]
            return FaultyEnv(
                lambda: Cage2Env("SleepAgent", 8, obs_dtype="uint8"),
                "exception",
                "step",
                60,
                tickets,
            )

        return SerialEnvs(make_env, n_envs, variant_option="red_agent")

    monkeypatch.setattr(Cage2, "make_envs", staticmethod(make_envs))
    config = config_of(max_worker_failures=1)
    with pytest.raises(TooManyFailuresError, match="injected fault"):
        run(tmp_path / "run", config)
    monkeypatch.undo()
    checkpoint = load_checkpoint(tmp_path / "run" / "checkpoint.pt")
    assert 1 <= checkpoint.training.updates < 4
    run(tmp_path / "run", config, checkpoint)
    assert same_weights(tmp_path / "run", reference)


COMMAND_LINE = [
    *("--n-envs", "4", "--max-steps", "8", "--episodes-per-update", "6", "--total-episodes", "24"),
    *("--red-agent", "mixed", "--seed", "3", "--hidden-sizes", "16", "--minibatch-size", "40"),
    *("--epochs", "2", "--checkpoint-every", "1", "--quiet"),
]


@pytest.fixture
def start() -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Starts a trainer; whatever becomes of the test, it does not outlive it."""
    started: list[subprocess.Popen[str]] = []

    def start(*options: str) -> subprocess.Popen[str]:
        script = ROOT / "workflow_rl" / "async_train_workflow_rl.py"
        process = subprocess.Popen(
            [sys.executable, str(script), *options],
            cwd="/",
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()


def wait_for_rows(path: Path, count: int) -> None:
    deadline = time.monotonic() + 60
    while len(read_metrics_if_any(path)) < count:
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_killed_at_a_random_moment_and_resumed(start, reference, tmp_path):
    path = tmp_path / "run"
    first = start(*COMMAND_LINE, "--run-dir", str(path))
    wait_for_rows(path, 1)
    time.sleep(random.Random(0).uniform(0, 0.1))
    first.kill()
    first.wait(10)
    second = CliRunner().invoke(main, ["train-async", "--resume", str(path), "--quiet"])
    if second.exit_code == 2:  # The run was quicker than the kill.
        assert "finished" in second.output
    else:
        assert second.exit_code == 0, second.output
    assert same_weights(path, reference)


def test_a_signal_saves_a_checkpoint_and_says_how_to_go_on(start, tmp_path):
    """SIGTERM; the next test sends SIGINT."""
    path = tmp_path / "run"
    options = [*COMMAND_LINE, "--total-episodes", "100000", "--checkpoint-every", "100000"]
    process = start(*options, "--run-dir", str(path))
    wait_for_rows(path, 2)
    process.send_signal(signal.SIGTERM)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 128 + signal.SIGTERM
    assert f"--resume {path}" in errors
    assert "Traceback" not in errors
    training_state = load_checkpoint(path / "checkpoint.pt").training
    assert training_state.updates == len(read_metrics(path)) >= 2


def test_a_second_signal_stops_at_once(tmp_path):
    """While it learns, the run cannot stop for the first signal; the second does not wait."""
    path, begun = tmp_path / "run", tmp_path / "begun"
    endless = ["--total-episodes", "4", "--episodes-per-update", "4", "--epochs", "10000000"]
    command = [sys.executable, "-m", "tests.faults.runs", str(begun), "train-async"]
    process = subprocess.Popen(
        [*command, *COMMAND_LINE, *endless, "--run-dir", str(path)],
        cwd=ROOT,
        stderr=subprocess.PIPE,
    )
    try:
        stop_twice_while_it_learns(process, path, begun)
    finally:
        process.kill()
        process.communicate()


def stop_twice_while_it_learns(process: subprocess.Popen[bytes], path: Path, begun: Path) -> None:
    eventually(lambda: begun.exists() and begun.stat().st_size)
    children = psutil.Process(process.pid).children(recursive=True)
    before = (path / "checkpoint.pt").read_bytes()
    process.send_signal(signal.SIGINT)
    # Two that it had not seen yet would be one.
    assert process.stderr is not None
    assert any(b"again stops at once" in line for line in process.stderr)
    time.sleep(0.5)
    assert process.poll() is None
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=60)
    assert process.returncode == 128 + signal.SIGINT
    assert (path / "checkpoint.pt").read_bytes() == before
    _, alive = psutil.wait_procs(children, timeout=30)
    assert not alive


@pytest.mark.parametrize("cause", ["signal", "failures"])
def test_interrupted_in_an_evaluation_a_run_loses_nothing(cause, reference, tmp_path):
    config = config_of(eval_every=2, eval_episodes=3, checkpoint_every=100)

    def interrupt(pool, policy, specs):
        if policy.greedy and cause == "signal":
            os.kill(os.getpid(), signal.SIGTERM)
            wait_for_signal(pool)
        elif policy.greedy:
            raise TooManyFailuresError

    with pytest.raises((StopRequested, TooManyFailuresError)):
        interfered_run(tmp_path / "run", config, interrupt)
    checkpoint = load_checkpoint(tmp_path / "run" / "checkpoint.pt")
    assert checkpoint.training.updates == 2
    assert [row["update"] for row in read_metrics(tmp_path / "run")] == [1]
    run(tmp_path / "run", config, checkpoint)
    assert same_weights(tmp_path / "run", reference)
    run(tmp_path / "undisturbed", config)
    scores = [
        [(row["update"], row["eval_return_mean"]) for row in read_metrics(path)]
        for path in (tmp_path / "run", tmp_path / "undisturbed")
    ]
    assert np.array_equal(*scores, equal_nan=True)
    best, undisturbed = (
        load_checkpoint(path / "best.pt").training
        for path in (tmp_path / "run", tmp_path / "undisturbed")
    )
    assert (best.updates, best.best_score) == (undisturbed.updates, undisturbed.best_score)


def test_a_run_killed_before_its_summary_can_be_completed(reference, tmp_path):
    path = tmp_path / "run"
    path.mkdir()
    for name in ("config.json", "metrics.csv", "checkpoint.pt"):
        (path / name).write_bytes((reference / name).read_bytes())
    result = CliRunner().invoke(main, ["train-async", "--resume", str(path), "--quiet"])
    assert result.exit_code == 0, result.output
    assert same_weights(path, reference)
    assert (path / "summary.json").exists()
    assert (path / "best.pt").exists()


def test_what_a_run_leaves(reference):
    names = {path.name for path in reference.iterdir()}
    assert names > {
        *("config.json", "metrics.csv", "checkpoint.pt", "best.pt"),
        *("learning_curve.png", "summary.json"),
    }
    assert any(name.startswith("events.out.tfevents") for name in names)
    with (reference / "metrics.csv").open() as file:
        rows = list(csv.DictReader(file))
    of_each = [f"return_mean_{name}" for name in ("B_lineAgent", "RedMeanderAgent", "SleepAgent")]
    assert list(rows[0]) == [*METRICS, *of_each]
    for row in rows:
        means = [float(row[name]) for name in of_each if row[name] != "nan"]
        assert len(set(means)) > 1
        assert min(means) < float(row["return_mean"]) < max(means)
    assert [row["update"] for row in rows] == ["1", "2", "3", "4"]
    for row in rows:
        assert float(row["episodes_per_second"]) == pytest.approx(6 / float(row["collect_seconds"]))
        # Unrolls a second of the whole update: here of complete episodes.
        assert float(row["eps"]) == pytest.approx(6 / float(row["seconds_per_update"]))
        assert 0 < float(row["worker_utilisation_run"]) <= 1
        assert 0 < float(row["worker_utilisation"]) <= 1
        assert float(row["policy_lag_max"]) == 0
        assert float(row["episode_length_mean"]) == 8
    # It falls linearly with the episodes before each update: 0, 6, 12, 18 of 24.
    rates = [float(row["learning_rate"]) / PPO.learning_rate for row in rows]
    assert rates == pytest.approx([1, 0.75, 0.5, 0.25])
    summary = json.loads((reference / "summary.json").read_text())
    assert summary["episodes"] == 24
    assert 0 < summary["worker_utilisation_run"] <= summary["worker_utilisation"] <= 1
    assert summary["env_steps"] == 24 * 8


def test_an_agent_that_lacks_its_network_is_no_beginning(tmp_path):
    lacking = Checkpoint({}, {}, TrainingState())
    with pytest.raises(CheckpointError, match=r"does not fit this run: it has no network$"):
        train(config_of(), tmp_path / "run", init_from=lacking, quiet=True)


def test_evaluation_during_training_does_not_change_it(reference, tmp_path):
    run(tmp_path / "run", config_of(eval_every=2, eval_episodes=3))
    assert same_weights(tmp_path / "run", reference)
    scores = [row["eval_return_mean"] for row in read_metrics(tmp_path / "run")]
    assert [score == score for score in scores] == [False, True, False, True]
    best = load_checkpoint(tmp_path / "run" / "best.pt").training
    assert best.best_score == max(scores[1], scores[3])


@pytest.mark.parametrize("mode", ["sync", "async"])
def test_default_weights_do_not_depend_on_the_number_of_envs(mode, tmp_path):
    """With more envs than an update has episodes, too."""
    weights = {}
    for n_envs in (8, 24, 100):
        config = TrainConfig(
            mode,
            n_envs=n_envs,
            env_args={"simulator": "compiled", "max_steps": 5},
            total_episodes=48,
        )
        train(config, tmp_path / str(n_envs), quiet=True)
        weights[n_envs] = read_record(tmp_path / str(n_envs) / "machine.json").weights
    assert weights[8] == weights[24] == weights[100]
    assert len(weights[8]) == 3
