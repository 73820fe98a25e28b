"""Runs that are stopped, killed or fail go on to the same weights, and leave what that takes."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
import types
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import psutil
import pytest
from click.testing import CliRunner

from tests import tiny_runs
from tests.faulty_env import FaultyEnv
from tests.patience import eventually
from tests.workflow_rl.runs.cyborg_runs import (
    config_of,
    interfered_run,
    run,
    same_weights,
    wait_for_signal,
)
from workflow_rl.cage2.env.cage2_env import Cage2Env
from workflow_rl.cage2.env.environment import Cage2
from workflow_rl.cage2.guest import Cage2Guest
from workflow_rl.collection.failures import StopRequested, TooManyFailuresError
from workflow_rl.commands.main import main
from workflow_rl.environments.env_batch import SerialEnvs
from workflow_rl.runs import learner
from workflow_rl.runs.checkpoint import load_checkpoint
from workflow_rl.runs.folder import is_finished, read_metrics
from workflow_rl.runs.loop import stopped_by_signals
from workflow_rl.runs.run_dir import NotWrittenError

ROOT = Path(__file__).resolve().parents[3]


def read_metrics_if_any(path: Path) -> list[dict[str, float]]:
    return read_metrics(path) if (path / "metrics.csv").exists() else []


@pytest.mark.parametrize(("mode", "stop_after"), [("sync", 1), ("async", 0), ("async", 3)])
def test_a_stopped_run_goes_on_to_the_same_weights(mode, stop_after, cyborg_run, tmp_path):
    config = config_of(mode, checkpoint_every=2)
    calls = []

    def stop(pool, policy, specs):
        calls.append(specs)
        if len(calls) > stop_after:
            os.kill(os.getpid(), signal.SIGINT)
            wait_for_signal(pool)

    with pytest.raises(StopRequested, match="SIGINT"):
        interfered_run(tmp_path / "run", config, stop)
    checkpoint = load_checkpoint(tmp_path / "run" / "checkpoint.safetensors")
    assert checkpoint.training.updates == stop_after
    summary = json.loads((tmp_path / "run" / "summary.json").read_text())
    assert not summary["finished"]
    assert summary["reason"] == "stopped by SIGINT"
    assert summary["updates"] == stop_after
    assert not is_finished(tmp_path / "run")
    run(tmp_path / "run", config, checkpoint)
    assert is_finished(tmp_path / "run")
    assert same_weights(tmp_path / "run", cyborg_run)
    assert [row["episodes"] for row in read_metrics(tmp_path / "run")] == [6, 12, 18, 24]


SENT = [signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2, signal.SIGXCPU]
"""What a terminal or a scheduler sends."""


@pytest.fixture
def harmless_signals() -> Iterator[None]:
    """Signals that outside of a run do nothing here."""
    before = {number: signal.signal(number, lambda *arguments: None) for number in SENT}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.usefixtures("harmless_signals")
def test_whatever_a_terminal_or_a_scheduler_sends_saves(tmp_path):
    def stop(pool, policy, specs):
        for worker in psutil.Process().children(recursive=True):
            if "forkserver" in " ".join(worker.cmdline()) and worker.ppid() != os.getpid():
                for number in SENT:
                    worker.send_signal(number)  # To all processes of a job.
        os.kill(os.getpid(), signal.SIGHUP)
        os.kill(os.getpid(), signal.SIGHUP)
        wait_for_signal(pool)

    with pytest.raises(StopRequested, match="SIGHUP"):
        interfered_run(tmp_path / "run", config_of("async", "compiled"), stop)
    checkpoint = load_checkpoint(tmp_path / "run" / "checkpoint.safetensors")
    assert checkpoint.training.workers_restarted == 0
    summary = json.loads((tmp_path / "run" / "summary.json").read_text())
    assert summary["reason"] == "stopped by SIGHUP"


@pytest.mark.usefixtures("harmless_signals")
@pytest.mark.parametrize("number", SENT)
def test_each_stops_a_run_unless_it_is_ignored_from_the_start(number):
    """As `nohup` has a run ignore SIGHUP."""
    for is_ignored in (False, True):
        if is_ignored:
            signal.signal(number, signal.SIG_IGN)
        pool = types.SimpleNamespace(stop_signal=None)
        with stopped_by_signals(pool):
            os.kill(os.getpid(), number)
        assert pool.stop_signal == (None if is_ignored else number)


def test_too_many_failures_leave_a_checkpoint_that_can_be_resumed(
    cyborg_run, tmp_path, monkeypatch
):
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
    checkpoint = load_checkpoint(tmp_path / "run" / "checkpoint.safetensors")
    assert 1 <= checkpoint.training.updates < 4
    run(tmp_path / "run", config, checkpoint)
    assert same_weights(tmp_path / "run", cyborg_run)


COMMAND_LINE = [
    *("--n-envs", "4", "--max-steps", "8", "--episodes-per-update", "6", "--total-episodes", "24"),
    *("--red-agent", "mixed", "--seed", "3", "--hidden-sizes", "16", "--minibatch-size", "40"),
    *("--epochs", "2", "--checkpoint-every", "1", "--quiet", "--simulator", "compiled"),
]


def wait_for_rows(path: Path, count: int) -> None:
    deadline = time.monotonic() + 60
    while len(read_metrics_if_any(path)) < count:
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_killed_at_a_random_moment_and_resumed(cyborg_run, tmp_path):
    path = tmp_path / "run"
    script = ROOT / "workflow_rl" / "async_train_workflow_rl.py"
    command = [sys.executable, str(script), *COMMAND_LINE, "--run-dir", str(path)]
    with subprocess.Popen(command, cwd="/", stdout=subprocess.DEVNULL) as process:
        try:
            wait_for_rows(path, 1)
            time.sleep(random.Random(0).uniform(0, 0.1))
        finally:
            process.kill()
    result = CliRunner().invoke(main, ["train-async", "--resume", str(path), "--quiet"])
    if result.exit_code == 2:  # The run was quicker than the kill.
        assert "finished" in result.output
    else:
        assert result.exit_code == 0, result.output
    assert same_weights(path, cyborg_run)


def end_by_signal() -> None:
    os.kill(os.getpid(), signal.SIGTERM)


def fill_disk() -> None:
    raise NotWrittenError("metrics.csv cannot be written: No space left on device")


@pytest.mark.parametrize(("end", "code"), [(end_by_signal, 128 + signal.SIGTERM), (fill_disk, 1)])
def test_a_command_that_is_stopped_says_how_to_go_on(end, code, tmp_path):
    path = tmp_path / "run"

    def end_third() -> None:
        if len(updates) == 3:
            end()

    options = [*COMMAND_LINE, "--total-episodes", "100000", "--checkpoint-every", "100000"]
    with tiny_runs.recorded_updates(end_third) as updates:
        result = CliRunner().invoke(main, ["train-async", *options, "--run-dir", str(path)])
    assert result.exit_code == code
    assert f"--resume {path}" in result.output
    assert "Traceback" not in result.output
    if end is end_by_signal:
        state = load_checkpoint(path / "checkpoint.safetensors").training
        assert state.updates == len(read_metrics(path)) == 3
    else:
        assert "metrics.csv cannot be written: No space left" in result.output


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
    before = (path / "checkpoint.safetensors").read_bytes()
    process.send_signal(signal.SIGTERM)
    # Two that it had not seen yet would be one.
    assert process.stderr is not None
    assert any(b"again stops at once" in line for line in process.stderr)
    process.send_signal(signal.SIGTERM)  # As `timeout` does, to the process and to its group.
    time.sleep(0.6)
    assert process.poll() is None
    process.send_signal(signal.SIGTERM)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 128 + signal.SIGTERM
    assert b"SIGTERM" in errors
    assert b"SIGINT" not in errors
    assert f"--resume {path}".encode() in errors
    assert (path / "checkpoint.safetensors").read_bytes() == before
    _, alive = psutil.wait_procs(children, timeout=30)
    assert not alive


@pytest.mark.parametrize(("cause", "lags"), [("signal", False), ("failures", True)])
def test_interrupted_in_an_evaluation_a_run_loses_nothing(cause, lags, tmp_path):
    config = config_of(
        simulator="compiled", eval_every=2, eval_episodes=3, checkpoint_every=100, async_rl=lags
    )

    def interrupt(pool, policy, specs):
        if policy.greedy and cause == "signal":
            os.kill(os.getpid(), signal.SIGTERM)
            wait_for_signal(pool)
        elif policy.greedy:
            raise TooManyFailuresError("as a worker that cannot be repaired")

    with pytest.raises((StopRequested, TooManyFailuresError)):
        interfered_run(tmp_path / "run", config, interrupt)
    checkpoint = load_checkpoint(tmp_path / "run" / "checkpoint.safetensors")
    assert checkpoint.training.updates == 2
    assert [row["update"] for row in read_metrics(tmp_path / "run")] == [1]
    run(tmp_path / "run", config, checkpoint)
    run(tmp_path / "undisturbed", config)
    assert same_weights(tmp_path / "run", tmp_path / "undisturbed")
    scores = [
        [(row["update"], row["eval_return_mean"]) for row in read_metrics(path)]
        for path in (tmp_path / "run", tmp_path / "undisturbed")
    ]
    assert np.array_equal(*scores, equal_nan=True)
    best, undisturbed = (
        load_checkpoint(path / "best.safetensors").training
        for path in (tmp_path / "run", tmp_path / "undisturbed")
    )
    assert (best.updates, best.best_score) == (undisturbed.updates, undisturbed.best_score)


def test_stopped_while_its_best_agent_is_chosen_a_run_chooses_when_it_is_resumed(
    tmp_path, monkeypatch
):
    chosen = []

    def choose_best(guest: Cage2Guest, run_path: Path, quiet: bool) -> str:
        chosen.append(run_path)
        assert not is_finished(run_path)
        if len(chosen) == 1:
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(10)
        return "the best of all"

    monkeypatch.setattr(Cage2Guest, "choose_best", choose_best)
    path = tmp_path / "run"
    first = CliRunner().invoke(main, ["train-async", *COMMAND_LINE, "--run-dir", str(path)])
    assert first.exit_code == 128 + signal.SIGINT, first.output
    assert f"--resume {path}" in first.output
    assert not is_finished(path)
    second = CliRunner().invoke(main, ["train-async", "--resume", str(path), "--quiet"])
    assert second.exit_code == 0, second.output
    assert "the best of all" in second.output
    assert is_finished(path)
    assert chosen == [path, path]


def test_a_run_killed_before_its_summary_can_be_completed(cyborg_run, tmp_path):
    path = tmp_path / "run"
    path.mkdir()
    for name in ("config.json", "metrics.csv", "checkpoint.safetensors"):
        (path / name).write_bytes((cyborg_run / name).read_bytes())
    result = CliRunner().invoke(main, ["train-async", "--resume", str(path), "--quiet"])
    assert result.exit_code == 0, result.output
    assert same_weights(path, cyborg_run)
    assert (path / "summary.json").exists()
    assert (path / "best.safetensors").exists()


def test_a_stop_while_the_last_files_are_written_stops_what_comes_after(tmp_path, monkeypatch):
    def finish(finishing):
        os.kill(os.getpid(), signal.SIGTERM)
        return whole(finishing)

    whole = learner.Learner.finish
    with monkeypatch.context() as patched:
        patched.setattr(learner.Learner, "finish", lambda one, reason: finish(one))
        with pytest.raises(StopRequested, match="SIGTERM"):
            tiny_runs.run(tmp_path, tiny_runs.config_of())
    assert not is_finished(tmp_path)
    assert tiny_runs.run(tmp_path, tiny_runs.config_of())["finished"]
