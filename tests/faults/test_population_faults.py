"""Populations that are killed: resumed, they have the same weights and the same family tree."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.faults.checks import assert_same_history, assert_sound
from tests.processes import descendants, survivors
from tests.tiny_runs import same_weights
from workflow_rl.runs.checkpoint import load_checkpoint
from workflow_rl.runs.folder import POPULATION_FILE, is_finished, runs_in, weights_digest
from workflow_rl.runs.several_policies import policy_folder, read_population

KILLS = 10
UPDATES = 100
OPTIONS = (
    *("--simulator", "compiled", "--red-agent", "mixed", "--max-steps", "10", "--seed", "3"),
    *("--n-policies", "4", "--n-envs", "6", "--n-workers", "2", "--quiet"),
    *("--hidden-sizes", "16", "--minibatch-size", "60", "--epochs", "1"),
    *("--total-episodes", str(12 * UPDATES), "--episodes-per-update", "12", "--period", "60"),
    *("--replace-gap", "0", "--mutation-rate", "0.5"),
)


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "workflow_rl", "train-population", *arguments]


def updates_in(path: Path) -> int:
    """Of the first policy."""
    metrics = policy_folder(path, 0) / "metrics.csv"
    return max(0, len(metrics.read_text().splitlines()) - 1) if metrics.exists() else 0


def wait_for(run: subprocess.Popen[bytes], updates: int, path: Path) -> None:
    deadline = time.monotonic() + 120
    while updates_in(path) < updates and run.poll() is None:
        assert time.monotonic() < deadline
        time.sleep(0.01)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_killed_again_and_again_it_ends_alike(tmp_path):
    reference, path = tmp_path / "reference", tmp_path / "run"
    subprocess.run(command(*OPTIONS, "--run-dir", str(reference)), check=True)
    draw = random.Random(0)
    kills = 0
    while not is_finished(path):
        has_begun = (path / POPULATION_FILE).exists()
        arguments = ("--resume", str(path), "--quiet") if has_begun else OPTIONS
        folder = [] if has_begun else ["--run-dir", str(path)]
        run = subprocess.Popen(command(*arguments, *folder))
        if kills == KILLS:
            assert run.wait(600) == 0
            break
        wait_for(run, updates_in(path) + draw.randrange(1, UPDATES // KILLS), path)
        time.sleep(draw.uniform(0, 0.1))
        processes = descendants(run.pid)
        run.send_signal(signal.SIGKILL)
        assert run.wait() == -signal.SIGKILL, "it was over before its moment"
        kills += 1
        assert not survivors(processes, 5)
    assert read_population(path).meetings == read_population(reference).meetings
    assert len(read_population(path).meetings) == 19
    for folders in zip(runs_in(path), runs_in(reference), strict=True):
        assert same_weights(*folders)
        assert_same_history(*folders)
        ends = [load_checkpoint(folder / "checkpoint.safetensors").training for folder in folders]
        assert ends[0].episodes == ends[1].episodes == 12 * UPDATES
        bests = [
            load_checkpoint(folder / "best.safetensors").agent["network"] for folder in folders
        ]
        assert weights_digest(bests[0]) == weights_digest(bests[1])
        assert_sound(folders[0], finished=True)
    assert not list(path.rglob(".*")), "a temporary file is left"
