"""Runs end with the weights that they ended with at commit 89af317, bit for bit.

PPO on Pendulum-v1 was recorded later, since its actions are scaled to their bounds.

reference_weights.json has each run's config, written out in full, and the digests of its last
weights with the kernels that all processors have. `results_of` alone knows how checkpoints are
written now.
"""

import csv
import hashlib
import json
import subprocess
import sys
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


@pytest.mark.slow
@pytest.mark.parametrize("name", RUNS)
def test_weights(name: str, tmp_path: Path) -> None:
    train(TrainConfig.from_dict(RUNS[name]["config"]), tmp_path)
    assert results_of(tmp_path) == RUNS[name]["results"], RECORD["machine"]
