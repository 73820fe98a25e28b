"""Populations that are killed: resumed, they have the same weights and the same family tree."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.processes import descendants, survivors
from tests.tiny_runs import same_weights
from workflow_rl.training.population_dir import POPULATION_FILE, read_population, run_folders

KILLS = 10
OPTIONS = (
    *("--simulator", "compiled", "--red-agent", "mixed", "--max-steps", "10", "--seed", "3"),
    *("--n-policies", "4", "--n-envs", "6", "--n-workers", "2", "--quiet"),
    *("--hidden-sizes", "16", "--minibatch-size", "60", "--epochs", "1"),
    *("--total-episodes", "1200", "--episodes-per-update", "12", "--period", "60"),
    *("--replace-gap", "0", "--mutation-rate", "0.5"),
)


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "workflow_rl.cli", "train-population", *arguments]


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_killed_again_and_again_it_ends_alike(tmp_path: Path) -> None:
    reference, path = tmp_path / "reference", tmp_path / "run"
    start = time.monotonic()
    subprocess.run(command(*OPTIONS, "--run-dir", str(reference)), check=True)
    seconds = time.monotonic() - start
    draw = random.Random(0)
    kills = 0
    while not (path / "summary.json").exists():
        has_begun = (path / POPULATION_FILE).exists()
        arguments = ("--resume", str(path), "--quiet") if has_begun else OPTIONS
        run = subprocess.Popen(
            command(*arguments, *([] if has_begun else ["--run-dir", str(path)]))
        )
        try:
            # All of a run, its start included, may be struck; at last it is left alone.
            run.wait(draw.uniform(0.2, 0.6) * seconds if kills < KILLS else 600)
            assert run.returncode == 0
        except subprocess.TimeoutExpired:
            processes = descendants(run.pid)
            run.send_signal(signal.SIGKILL)
            run.wait()
            kills += 1
            assert not survivors(processes, 5)
    assert kills >= KILLS / 2
    assert read_population(path).meetings == read_population(reference).meetings
    assert len(read_population(path).meetings) == 19
    for folders in zip(run_folders(path), run_folders(reference), strict=True):
        assert same_weights(*folders)
