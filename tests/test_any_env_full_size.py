"""Gymnasium's own environments through the trainers' commands: the same weights, come what may."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.processes import workers_of
from tests.tiny_runs import same_weights
from workflow_rl.runs.folder import read_metrics

ROOT = Path(__file__).resolve().parents[1]
ENVS = ("CartPole-v1", "LunarLander-v3", "Hopper-v5")
OPTIONS = ("--total-steps", "20000", "--n-envs", "10", "--seed", "4", "--checkpoint-every", "2")
WAYS = {
    "episodes": (),
    "unrolls": ("--num-steps-per-env", "64"),
    "overlapped": ("--async-rl",),
}

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]


def start(mode: str, path: Path, *options: str) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "workflow_rl", f"train-{mode}", *options]
    return subprocess.Popen([*command, "--run-dir", str(path), "--quiet"], cwd=ROOT)


def finish(mode: str, path: Path, *options: str) -> None:
    assert start(mode, path, *options).wait(600) == 0


def wait_for_updates(path: Path, count: int) -> None:
    deadline = time.monotonic() + 120
    while not (path / "metrics.csv").exists() or len(read_metrics(path)) < count:
        assert time.monotonic() < deadline
        time.sleep(0.01)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("env", ENVS)
def test_the_same_weights(env: str, way: str, tmp_path: Path) -> None:
    options = ("--env", env, *OPTIONS, *WAYS[way])
    reference = tmp_path / "2"
    finish("async", reference, *options, "--n-workers", "2")
    for n_workers in ("1", "5"):
        finish("async", tmp_path / n_workers, *options, "--n-workers", n_workers)
        assert same_weights(tmp_path / n_workers, reference)
    finish("sync", tmp_path / "sync", *options, "--n-workers", "2")
    assert same_weights(tmp_path / "sync", reference)

    run = start("async", tmp_path / "killed", *options, "--n-workers", "2")
    wait_for_updates(tmp_path / "killed", 2)
    workers_of(run.pid)[0].send_signal(signal.SIGKILL)
    assert run.wait(600) == 0
    assert sum(row["workers_restarted"] for row in read_metrics(tmp_path / "killed")) == 1
    assert same_weights(tmp_path / "killed", reference)

    run = start("async", tmp_path / "resumed", *options, "--n-workers", "2")
    wait_for_updates(tmp_path / "resumed", 3)
    run.kill()
    run.wait(10)
    finish("async", tmp_path / "resumed", "--resume", str(tmp_path / "resumed"))
    assert same_weights(tmp_path / "resumed", reference)
