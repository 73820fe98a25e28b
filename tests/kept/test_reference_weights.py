"""Runs end with the weights that they ended with at commit 89af317, bit for bit.

Two runs were recorded later: PPO on Pendulum-v1, since its actions are scaled to their bounds, and
the population, since its members are ranked by means over kinds of episodes.

reference_weights.json has each run's config, written out in full, and the digests of its last
weights with the kernels that all processors have. `config_from_record` and `results_of` are all
that knows how configs and checkpoints are written now.
"""

from __future__ import annotations

import csv
import hashlib
import json
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.pages import ROOT
from workflow_rl import TrainConfig, train
from workflow_rl.runs.checkpoint import read_values

RECORD = json.loads((Path(__file__).parent / "reference_weights.json").read_text())
RUNS: dict[str, Any] = RECORD["runs"]
KILLED = "killed"
UPDATES_BEFORE_DEATH = 3
PARTS = {
    "network": ("network",),
    "normalisation": ("obs_moments",),
    "return_scale": ("return_scale",),
    "critics": ("learner", "critics"),
    "target_critics": ("learner", "targets"),
    "temperature": ("learner", "log_temperature"),
    "model": ("dynamics",),
}
"""Of an agent in a checkpoint. The network is the actor and the critic of states; the critics are
those of actions, which sac and mbpo have."""
METRICS = ("update", "episodes", "env_steps", "return_mean", "policy_loss", "value_loss", "entropy")


def config_from_record(values: Mapping[str, Any]) -> TrainConfig:
    """A config of reference_weights.json."""
    return TrainConfig.from_dict(dict(values))


def results_of(run: Path) -> dict[str, str]:
    """Digests of what the run's last agent has learned, and the last row of its metrics."""
    agent = read_values(run / "checkpoint.safetensors")["agent"]
    parts = {name: _at(agent, path) for name, path in PARTS.items()}
    digests = {name: _digest(part) for name, part in parts.items() if part is not None}
    with (run / "metrics.csv").open(newline="") as file:
        *_, last = csv.DictReader(file)
    return {**digests, **{name: last[name] for name in METRICS}}


def _at(values: Any, path: Iterable[str]) -> Any:
    for name in path:
        values = values.get(name) if isinstance(values, Mapping) else None
    return values


def _digest(values: Any) -> str:
    """SHA-256 of tensors with their names and shapes: of a network that of the run's own record."""
    content = hashlib.sha256()
    for name, tensor in _tensors(values):
        content.update(f"{name} {tuple(tensor.shape)} ".encode())
        content.update(tensor.numpy().tobytes())
    return content.hexdigest()


def _tensors(values: Any, name: str = "") -> Iterator[tuple[str, torch.Tensor]]:
    if isinstance(values, torch.Tensor):
        yield name, values
    elif isinstance(values, Mapping):
        for key, value in values.items():
            yield from _tensors(value, f"{name}.{key}".strip("."))
    elif isinstance(values, list | tuple):
        yield from _tensors(dict(enumerate(values)), name)
    elif isinstance(values, int | float):
        yield name, torch.tensor(values, dtype=torch.float64)


def command(*arguments: str) -> None:
    """`workflow-rl` in a process of its own."""
    words = [sys.executable, "-m", "workflow_rl", *arguments, "--quiet"]
    subprocess.run(words, cwd=ROOT, check=True, stdout=subprocess.DEVNULL)


def begin(name: str, path: str) -> None:
    """Train the run of this name in a folder."""
    train(config_from_record(RUNS[name]["config"]), path)


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name, run in RUNS.items() if "config" in run])
def test_weights(name: str, tmp_path: Path) -> None:
    begin(name, str(tmp_path))
    assert results_of(tmp_path) == RUNS[name]["results"], RECORD["machine"]


@pytest.mark.slow
def test_weights_of_a_population(tmp_path: Path) -> None:
    recorded = RUNS["population"]
    command(*recorded["command"], "--run-dir", str(tmp_path))
    population = json.loads((tmp_path / "population.json").read_text())
    assert population["exchange"] == recorded["exchange"]
    assert [meeting["copies"] for meeting in population["meetings"]] == recorded["meetings"]
    for number, (config, results) in enumerate(
        zip(population["configs"], recorded["results"], strict=True)
    ):
        assert config_from_record(config) == config_from_record(recorded["configs"][number])
        assert results_of(tmp_path / f"policy-{number}") == results, RECORD["machine"]


@pytest.mark.slow
def test_weights_of_a_killed_run(tmp_path: Path) -> None:
    program = f"import {__name__} as t, sys; t.begin('{KILLED}', sys.argv[1])"
    process = subprocess.Popen([sys.executable, "-c", program, str(tmp_path)], cwd=ROOT)
    metrics, deadline = tmp_path / "metrics.csv", time.monotonic() + 120
    while not metrics.exists() or metrics.read_text().count("\n") <= UPDATES_BEFORE_DEATH:
        assert process.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.005)
    process.kill()
    assert process.wait() == -signal.SIGKILL
    assert not (tmp_path / "summary.json").exists()
    train(config_from_record(RUNS[KILLED]["config"]), tmp_path, resume=True)
    assert results_of(tmp_path) == RUNS[KILLED]["results"], RECORD["machine"]
