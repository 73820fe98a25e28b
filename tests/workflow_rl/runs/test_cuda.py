"""Runs whose agent learns on a GPU. They are skipped where there is none."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from tests.own_networks import Remembering
from tests.tiny_teams import ShiftEnv
from workflow_rl import TrainConfig, evaluate, load_agent, train
from workflow_rl.runs.checkpoint import load_checkpoint
from workflow_rl.runs.folder import read_metrics

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device")
PUZZLE = {"env": "tests.any_envs:MaskedPuzzleEnv", "total_steps": 600, "steps_per_update": 120}
SETTINGS = {"hidden_sizes": (16, 16), "minibatch_size": 60, "epochs": 2}
CASES: dict[str, dict[str, Any]] = {
    **{
        network: {**PUZZLE, "settings": {**SETTINGS, "network": network}}
        for network in ("mlp", "gru", "lstm", "frame-stack", "entities")
    },
    "unrolls of lstm": {
        **PUZZLE,
        **{"num_steps_per_env": 6, "steps_per_update": 126},
        "settings": {**SETTINGS, "network": "lstm"},
    },
    "V-trace": {
        **PUZZLE,
        "async_rl": True,
        "settings": {**SETTINGS, "network": "gru", "correction": "vtrace"},
    },
    "shared trunk": {**PUZZLE, "settings": {**SETTINGS, "shared_trunk": True}},
    "minibatches of observations": {
        **PUZZLE,
        "settings": {**SETTINGS, "minibatches_of": "observations"},
    },
    "own network": {
        **PUZZLE,
        "settings": {**SETTINGS, "network": Remembering},
    },
    "continuous actions": {
        "env": "Pendulum-v1",
        "total_steps": 3200,
        "steps_per_update": 600,
        "settings": {**SETTINGS, "normalise_obs": True, "normalise_returns": True},
    },
    "CAGE-2": {
        "env_args": {"simulator": "compiled", "observation": "belief", "actions": "by-host"},
        "total_episodes": 12,
        "episodes_per_update": 6,
        "settings": SETTINGS,
    },
    "a team with a central critic": {
        "env": "shift",
        "total_episodes": 18,
        "episodes_per_update": 6,
        "settings": {**SETTINGS, "critic": "central"},
    },
}


def trained(name: str, device: str, path: Path, resume: bool = False, **changes: Any) -> Path:
    config = {"n_envs": 3, "n_workers": 1, "seed": 3, **CASES[name], **changes}
    env = ShiftEnv if config.get("env") == "shift" else None
    return train(TrainConfig("async", device=device, **config), path, env=env, resume=resume)


def weights(path: Path) -> dict[str, Any]:
    return dict(load_checkpoint(path / "checkpoint.pt").agent["network"])


def first_losses(path: Path) -> list[float]:
    row = read_metrics(path)[0]
    return [
        float(value) for name, value in row.items() if name.endswith(("policy_loss", "value_loss"))
    ]


@pytest.mark.parametrize("name", CASES)
def test_a_gpu_learns_what_the_cpu_learns(name: str, tmp_path: Path) -> None:
    """The first update's losses differ by rounding alone; later ones may differ by more."""
    cpu, cuda = (trained(name, device, tmp_path / device) for device in ("cpu", "cuda"))
    assert len(read_metrics(cpu)) == len(read_metrics(cuda)) > 1
    np.testing.assert_allclose(first_losses(cuda), first_losses(cpu), rtol=1e-2, atol=1e-4)
    assert all(bool(torch.isfinite(tensor).all()) for tensor in weights(cuda).values())


@pytest.mark.parametrize("name", ["mlp", "gru", "continuous actions", "own network"])
def test_an_agent_from_a_gpu_plays_on_the_cpu(name: str, tmp_path: Path) -> None:
    path = trained(name, "cuda", tmp_path / "run")
    assert all(tensor.device.type == "cpu" for tensor in weights(path).values())
    assert np.isfinite(evaluate(path, episodes=2).mean)
    assert load_agent(path) is not None


@pytest.mark.parametrize("later", ["cpu", "cuda"])
@pytest.mark.parametrize("name", ["lstm", "a team with a central critic", "CAGE-2"])
def test_a_run_on_a_gpu_goes_on(name: str, later: str, tmp_path: Path) -> None:
    unit = "total_episodes" if "total_episodes" in CASES[name] else "total_steps"
    path = trained(name, "cuda", tmp_path / "run", **{unit: CASES[name][unit] // 2})
    n_before = len(read_metrics(path))
    trained(name, later, path, resume=True)
    assert len(read_metrics(path)) > n_before


def test_a_gpu_learns_cart_pole(tmp_path: Path) -> None:
    path = train(
        TrainConfig("async", env="CartPole-v1", total_steps=30_000, device="cuda", seed=0),
        tmp_path / "run",
    )
    assert evaluate(path, episodes=10).mean > 300
