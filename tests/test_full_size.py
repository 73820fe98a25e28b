"""Long checks of whole trainings through the command line, at the size users run them."""

from __future__ import annotations

import json
import random
import statistics
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest
import torch

from tests.processes import workers_of
from workflow_rl.runs.checkpoint import load_checkpoint
from workflow_rl.runs.presets import PRESETS

pytestmark = pytest.mark.slow
ROOT = Path(__file__).resolve().parents[1]
SCRIPTS = {
    "sync": ROOT / "workflow_rl" / "parallel_train_workflow_rl.py",
    "async": ROOT / "workflow_rl" / "async_train_workflow_rl.py",
}


def start(mode: str, *options: object) -> subprocess.Popen[bytes]:
    command = [sys.executable, str(SCRIPTS[mode]), *map(str, options), "--quiet"]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL)


def finish(mode: str, *options: object) -> None:
    assert start(mode, *options).wait(1800) == 0


def weights(path: Path) -> dict[str, torch.Tensor]:
    return dict(load_checkpoint(path / "checkpoint.safetensors").agent["network"])


def same_weights(one: Path, other: Path) -> bool:
    left, right = weights(one), weights(other)
    return all(torch.equal(left[name], right[name]) for name in left)


def wait_for_update(path: Path, update: int) -> None:
    metrics = path / "metrics.csv"
    while not metrics.exists() or len(metrics.read_text().splitlines()) <= update:
        time.sleep(0.02)


SIZE = ["--total-episodes", 600, "--episodes-per-update", 20, "--n-envs", 14, "--seed", 11]


@pytest.fixture(scope="module")
def reference(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("runs") / "reference"
    finish("async", *SIZE, "--n-workers", 2, "--run-dir", path)
    return path


@pytest.mark.parametrize("n_workers", [1, 7])
def test_workers_make_no_difference(n_workers, reference, tmp_path):
    finish("async", *SIZE, "--n-workers", n_workers, "--run-dir", tmp_path / "run")
    assert same_weights(tmp_path / "run", reference)


@pytest.mark.parametrize("mode", ["sync", "async"])
def test_a_killed_worker_makes_no_difference(mode, reference, tmp_path):
    process = start(mode, *SIZE, "--n-workers", 2, "--run-dir", tmp_path / "run")
    wait_for_update(tmp_path / "run", 3)
    random.choice(workers_of(process.pid)).kill()
    assert process.wait(1800) == 0
    summary = json.loads((tmp_path / "run" / "summary.json").read_text())
    assert summary["workers_restarted"] == 1
    assert same_weights(tmp_path / "run", reference)


@pytest.mark.parametrize("mode", ["sync", "async"])
def test_killed_three_times_and_resumed(mode, reference, tmp_path):
    path = tmp_path / "run"
    options: list[object] = [*SIZE, "--n-workers", 2, "--run-dir", path, "--checkpoint-every", 2]
    for update in sorted(random.sample(range(2, 25), 3)):
        process = start(mode, *options)
        wait_for_update(path, update)
        time.sleep(random.uniform(0, 0.3))
        process.kill()
        process.wait()
        checkpoint = load_checkpoint(path / "checkpoint.safetensors")
        print(f"{mode}: killed after update {update}, saved at {checkpoint.training.updates}")
        options = ["--resume", path]
    finish(mode, *options)
    assert same_weights(path, reference)


@pytest.mark.parametrize("mode", ["sync", "async"])
@pytest.mark.parametrize("n_workers", [2, 100])
def test_memory_and_start_of_100_envs(mode, n_workers, tmp_path):
    begun = time.monotonic()
    options = ["--n-envs", 100, "--n-workers", n_workers, "--total-episodes", 300]
    process = start(mode, *options, "--run-dir", tmp_path / "run")
    metrics = tmp_path / "run" / "metrics.csv"
    while len(workers_of(process.pid)) < n_workers:
        time.sleep(0.1)
    started = time.monotonic() - begun
    peak = 0
    while process.poll() is None:
        try:
            processes = [psutil.Process(process.pid), *psutil.Process(process.pid).children(True)]
            peak = max(peak, sum(member.memory_full_info().pss for member in processes))
        except psutil.NoSuchProcess:
            pass
        time.sleep(0.5)
    assert process.returncode == 0
    assert len(metrics.read_text().splitlines()) == 4
    print(f"{mode}, {n_workers} workers: all started in {started:.1f} s, {peak / 2**20:.0f} MB PSS")
    assert started < 15
    assert peak < 2e9


def test_default_options_learn(tmp_path):
    means = []
    for seed in range(3):
        path = tmp_path / str(seed)
        finish("async", "--total-episodes", 3000, "--seed", seed, "--run-dir", path)
        summary = json.loads((path / "summary.json").read_text())
        means.append(summary["return_mean_recent"])
        print(f"seed {seed}: {means[-1]:.1f} in {summary['wall_seconds']:.0f} s")
    assert min(means) > -35
    assert statistics.median(means) > -30


@pytest.mark.parametrize("simulator", ["compiled", "cyborg"])
@pytest.mark.parametrize("preset", PRESETS)
def test_every_preset_trains(preset, simulator, tmp_path):
    # What is dropped counts: on the compiled simulator, most of what `continuous` collects.
    episodes = 20_000 if (preset, simulator) == ("continuous", "compiled") else 3000
    path = tmp_path / "run"
    options = ("--preset", preset, "--simulator", simulator, "--n-envs", 24, "--n-workers", 2)
    finish("async", *options, "--total-episodes", episodes, "--run-dir", path)
    summary = json.loads((path / "summary.json").read_text())
    print(f"{preset} on {simulator}: {summary['return_mean_recent']:.1f}")
    # Untrained agents score about -700.
    assert summary["return_mean_recent"] > -100
