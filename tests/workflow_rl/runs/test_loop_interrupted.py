"""Runs that are stopped, killed or fail leave what it takes to go on, and say so."""

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

import psutil
import pytest

from tests import tiny_runs
from tests.cli import call, output_of
from tests.faults.checks import assert_same_history
from tests.patience import eventually
from tests.tiny_runs import run, same_weights
from tests.workflow_rl.runs.small_runs import COMPILED, config_of
from workflow_rl.cage2.guest import Cage2Guest
from workflow_rl.collection.messages import StopRequested, TooManyFailuresError
from workflow_rl.runs import learner
from workflow_rl.runs.folder import is_finished, read_metrics
from workflow_rl.runs.loop import stopped_by_signals
from workflow_rl.runs.read_checkpoint import load_checkpoint

ROOT = Path(__file__).resolve().parents[3]


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
    def stop(pool, policy, count):
        for worker in psutil.Process().children(recursive=True):
            if "forkserver" in " ".join(worker.cmdline()) and worker.ppid() != os.getpid():
                for number in SENT:
                    worker.send_signal(number)  # To all processes of a job.
        os.kill(os.getpid(), signal.SIGHUP)
        os.kill(os.getpid(), signal.SIGHUP)
        # Collections run in a thread; Python calls signal handlers in the main one.
        eventually(lambda: pool.stop_signal is not None)

    with pytest.raises(StopRequested, match="SIGHUP"):
        run(tmp_path / "run", config_of("CAGE-2", env_args=COMPILED), stop)
    checkpoint = load_checkpoint(tmp_path / "run" / "checkpoint.safetensors")
    assert (checkpoint.training.workers_restarted, checkpoint.training.updates) == (0, 0)
    summary = json.loads((tmp_path / "run" / "summary.json").read_text())
    assert (summary["finished"], summary["reason"]) == (False, "stopped by SIGHUP")
    assert (summary["updates"], is_finished(tmp_path / "run")) == (0, False)


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


COMMAND_LINE = [
    *("--n-envs", "4", "--max-steps", "8", "--episodes-per-update", "6", "--total-episodes", "24"),
    *("--red-agent", "mixed", "--seed", "3", "--hidden-sizes", "16", "--minibatch-size", "40"),
    *("--epochs", "2", "--checkpoint-every", "1", "--quiet", "--simulator", "compiled"),
]


def test_killed_at_a_random_moment_and_resumed(undisturbed, tmp_path):
    path = tmp_path / "run"
    script = ROOT / "workflow_rl" / "async_train_workflow_rl.py"
    command = [sys.executable, str(script), *COMMAND_LINE, "--run-dir", str(path)]
    with subprocess.Popen(command, cwd="/", stdout=subprocess.DEVNULL) as process:
        try:
            eventually(lambda: (path / "metrics.csv").exists() and read_metrics(path))
            time.sleep(random.Random(0).uniform(0, 0.1))
        finally:
            process.kill()
    result = call("train-async --quiet --resume", path)
    if result.exit_code == 2:  # The run was quicker than the kill.
        assert "finished" in result.output
    else:
        assert result.exit_code == 0, result.output
    assert same_weights(path, undisturbed("CAGE-2"))


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
    evaluated = {"eval_every": 2, "eval_episodes": 3, "checkpoint_every": 100}
    config = config_of("CAGE-2", env_args=COMPILED, async_rl=lags, **evaluated)

    def interrupt(pool, policy, count):
        if policy.greedy and cause == "signal":
            os.kill(os.getpid(), signal.SIGTERM)
            eventually(lambda: pool.stop_signal is not None)
        elif policy.greedy:
            raise TooManyFailuresError("as a worker that cannot be repaired")

    with pytest.raises((StopRequested, TooManyFailuresError)):
        run(tmp_path / "run", config, interrupt)
    checkpoint = load_checkpoint(tmp_path / "run" / "checkpoint.safetensors")
    assert checkpoint.training.updates == 2
    assert [row["update"] for row in read_metrics(tmp_path / "run")] == [1]
    run(tmp_path / "run", config)
    run(tmp_path / "undisturbed", config)
    assert same_weights(tmp_path / "run", tmp_path / "undisturbed")
    assert_same_history(tmp_path / "run", tmp_path / "undisturbed")


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
    stopped = 128 + signal.SIGINT
    first = output_of("train-async", *COMMAND_LINE, "--run-dir", path, code=stopped)
    assert f"--resume {path}" in first
    assert not is_finished(path)
    assert "the best of all" in output_of("train-async", "--resume", str(path), "--quiet")
    assert is_finished(path)
    assert chosen == [path, path]


def test_a_run_killed_before_its_summary_can_be_completed(undisturbed, tmp_path):
    path = tmp_path / "run"
    path.mkdir()
    for name in ("config.json", "metrics.csv", "checkpoint.safetensors"):
        (path / name).write_bytes((undisturbed("CAGE-2") / name).read_bytes())
    output_of("train-async", "--resume", str(path), "--quiet")
    assert same_weights(path, undisturbed("CAGE-2"))
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
            run(tmp_path, tiny_runs.config_of())
    assert not is_finished(tmp_path)
    assert run(tmp_path, tiny_runs.config_of())["finished"]
