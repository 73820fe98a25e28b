"""Long checks of whole trainings through the command line, at the size users run them."""

import json
import random
import statistics
import time
from pathlib import Path

import psutil
import pytest

from tests.patience import eventually
from tests.processes import start, workers_of
from tests.tiny_runs import same_weights
from workflow_rl.runs.folder import read_summary
from workflow_rl.runs.presets import PRESETS
from workflow_rl.runs.read_checkpoint import load_checkpoint

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]
OF_ENVS = "--total-steps 20000 --n-envs 10 --seed 4"
RUNS = {
    "CAGE-2": "--total-episodes 600 --n-envs 14 --seed 11",
    **{env: f"--env {env} {OF_ENVS}" for env in ("CartPole-v1", "LunarLander-v3", "Hopper-v5")},
}
WAYS = {"episodes": "", "unrolls": "--num-steps-per-env 64", "overlapped": "--async-rl"}


def finish(*words: object) -> None:
    assert start(*words, "--quiet").wait(1800) == 0


def wait_for_update(path: Path, update: int) -> None:
    metrics = path / "metrics.csv"
    eventually(lambda: metrics.exists() and len(metrics.read_text().splitlines()) > update, 120)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("run", RUNS)
def test_the_same_weights(run, way, tmp_path):
    options = [*RUNS[run].split(), *WAYS[way].split(), "--checkpoint-every", 2]
    reference = tmp_path / "reference"
    finish("train-async", *options, "--n-workers", 2, "--run-dir", reference)
    for mode, n_workers in (("async", 1), ("async", 7), ("sync", 2)):
        path = tmp_path / f"{mode}-{n_workers}"
        finish(f"train-{mode}", *options, "--n-workers", n_workers, "--run-dir", path)
        assert same_weights(path, reference)
    for mode in ("sync", "async"):
        path = tmp_path / f"killed-{mode}"
        of_killed = ["--n-workers", 2, "--run-dir", path]
        process = start(f"train-{mode}", *options, *of_killed, "--quiet")
        wait_for_update(path, 2)
        random.choice(workers_of(process.pid)).kill()
        assert process.wait(1800) == 0
        assert read_summary(path)["workers_restarted"] == 1
        assert same_weights(path, reference)


@pytest.mark.parametrize("run", RUNS)
@pytest.mark.parametrize("mode", ["sync", "async"])
def test_killed_three_times_and_resumed(mode, run, tmp_path):
    options = [*RUNS[run].split(), "--n-workers", 2, "--checkpoint-every", 2]
    finish("train-async", *options, "--run-dir", tmp_path / "reference")
    path = tmp_path / "run"
    options += ["--run-dir", path]
    for update in sorted(random.sample(range(1, 6), 3)):
        process = start(f"train-{mode}", *options, "--quiet")
        wait_for_update(path, update)
        time.sleep(random.uniform(0, 0.3))
        process.kill()
        process.wait()
        checkpoint = load_checkpoint(path / "checkpoint.safetensors")
        print(f"{mode}: killed after update {update}, saved at {checkpoint.training.updates}")
        options = ["--resume", path]
    finish(f"train-{mode}", *options)
    assert same_weights(path, tmp_path / "reference")


@pytest.mark.parametrize("mode", ["sync", "async"])
@pytest.mark.parametrize("n_workers", [2, 100])
def test_memory_and_start_of_100_envs(mode, n_workers, tmp_path):
    begun = time.monotonic()
    options = ["--n-envs", 100, "--n-workers", n_workers, "--total-episodes", 300]
    process = start(f"train-{mode}", *options, "--run-dir", tmp_path / "run", "--quiet")
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
    assert len((tmp_path / "run" / "metrics.csv").read_text().splitlines()) == 4
    print(f"{mode}, {n_workers} workers: all started in {started:.1f} s, {peak / 2**20:.0f} MB PSS")
    assert started < 15
    assert peak < 2e9


def test_default_options_learn(tmp_path):
    means = []
    for seed in range(3):
        path = tmp_path / str(seed)
        finish("train-async", "--total-episodes", 3000, "--seed", seed, "--run-dir", path)
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
    options = ("--preset", preset, "--simulator", simulator, "--n-envs", 24, "--n-workers", 2)
    finish("train-async", *options, "--total-episodes", episodes, "--run-dir", tmp_path / "run")
    mean = read_summary(tmp_path / "run")["return_mean_recent"]
    print(f"{preset} on {simulator}: {mean:.1f}")
    # Untrained agents score about -700.
    assert mean > -100
