"""Runs whose agent learns on a GPU. They are skipped where there is none.

CHECKED_DEVICE=cpu tries the tests themselves on a CPU.
"""

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from tests.own_networks import Remembering
from tests.tiny_teams import Doors, ShiftEnv
from workflow_rl import TrainConfig, evaluate, load_agent, train
from workflow_rl.errors import ConfigError
from workflow_rl.runs.folder import read_metrics
from workflow_rl.runs.read_checkpoint import load_checkpoint

DEVICE = os.environ.get("CHECKED_DEVICE", "cuda")
pytestmark = pytest.mark.skipif(
    DEVICE == "cuda" and not torch.cuda.is_available(), reason="there is no CUDA device"
)
PUZZLE = {"env": "tests.any_envs:MaskedPuzzleEnv", "total_steps": 600, "steps_per_update": 120}
SETTINGS = {"hidden_sizes": (16, 16), "minibatch_size": 60, "epochs": 2}


def puzzle(learn: dict[str, Any], **changes: Any) -> dict[str, Any]:
    return {**PUZZLE, "settings": {**SETTINGS, **learn}, **changes}


UNROLLS = {"num_steps_per_env": 6, "steps_per_update": 126}
CASES: dict[str, dict[str, Any]] = {
    "mlp": puzzle({"network": "mlp"}),
    "gru": puzzle({"network": "gru"}),
    "lstm": puzzle({"network": "lstm"}),
    "frame-stack": puzzle({"network": "frame-stack"}),
    "entities": puzzle({"network": "entities"}),
    "unrolls of lstm": puzzle({"network": "lstm"}, **UNROLLS),
    "V-trace": puzzle({"network": "gru", "correction": "vtrace"}, async_rl=True),
    "shared trunk": puzzle({"shared_trunk": True}),
    "minibatches of observations": puzzle({"minibatches_of": "observations"}),
    "own network": puzzle({"network": Remembering}),
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
    "a team that sees entities": {
        "env": "doors",
        "total_episodes": 24,
        "episodes_per_update": 6,
        "async_rl": True,
        "settings": {
            **SETTINGS,
            **{"network": "entities", "network_args": {"heads": 0}, "hidden_sizes": (16,)},
            **{"critic": "central", "minibatch_size": 90, "target_kl": 0.03},
        },
    },
}
MADE_BY = {"shift": ShiftEnv, "doors": Doors}


def trained(name: str, device: str, path: Path, resume: bool = False, **changes: Any) -> Path:
    config = {"n_envs": 3, "n_workers": 1, "seed": 3, **CASES[name], **changes}
    env = MADE_BY.get(config.get("env", ""))
    return train(TrainConfig("async", device=device, **config), path, env=env, resume=resume)


def weights(path: Path) -> dict[str, Any]:
    return dict(load_checkpoint(path / "checkpoint.safetensors").agent["network"])


def first_losses(path: Path) -> list[float]:
    row = read_metrics(path)[0]
    return [float(row[name]) for name in row if name.endswith(("policy_loss", "value_loss"))]


@pytest.mark.parametrize("name", CASES)
def test_a_gpu_learns_what_the_cpu_learns(name, tmp_path):
    """The first update's losses differ by rounding alone; later ones may differ by more."""
    folders = {"on CPU": "cpu", "on GPU": DEVICE}
    cpu, cuda = (trained(name, device, tmp_path / path) for path, device in folders.items())
    assert len(read_metrics(cpu)) == len(read_metrics(cuda)) > 1
    np.testing.assert_allclose(first_losses(cuda), first_losses(cpu), rtol=1e-2, atol=1e-4)
    assert all(bool(torch.isfinite(tensor).all()) for tensor in weights(cuda).values())
    # The agent plays on the CPU.
    assert all(tensor.device.type == "cpu" for tensor in weights(cuda).values())
    env = MADE_BY.get(CASES[name].get("env", ""))
    assert np.isfinite(evaluate(cuda, episodes=2, env=env).mean)
    assert load_agent(cuda, env=env) is not None


@pytest.mark.parametrize("devices", [(DEVICE, DEVICE), (DEVICE, "cpu"), ("cpu", DEVICE)])
@pytest.mark.parametrize(
    "name", ["lstm", "continuous actions", "a team that sees entities", "CAGE-2"]
)
def test_a_run_goes_on_elsewhere(name, devices, tmp_path):
    before, later = devices
    unit = "total_episodes" if "total_episodes" in CASES[name] else "total_steps"
    path = trained(name, before, tmp_path / "run", **{unit: CASES[name][unit] // 2})
    n_before = len(read_metrics(path))
    trained(name, later, path, resume=True)
    assert len(read_metrics(path)) > n_before
    assert all(bool(torch.isfinite(tensor).all()) for tensor in weights(path).values())


@pytest.mark.parametrize("name", ["mlp", "continuous actions", "a team that sees entities"])
def test_a_gpu_copies_a_teacher(name, tmp_path):
    teacher = trained(name, "cpu", tmp_path / "teacher")
    lessons = {"teacher": str(teacher), "teacher_episodes": 10, "teacher_epochs": 2}
    folders = {"on CPU": "cpu", "on GPU": DEVICE}
    cpu, cuda = (
        json.loads((trained(name, device, tmp_path / path, **lessons) / "teacher.json").read_text())
        for path, device in folders.items()
    )
    assert cuda.keys() == cpu.keys()
    for field, value in cpu.items():
        if isinstance(value, float):
            np.testing.assert_allclose(cuda[field], value, rtol=2e-2, atol=2e-2)


def test_auto_is_the_gpu_for_what_can_learn_there():
    auto = {"env": "Pendulum-v1", "device": "auto"}
    expected = "cuda" if torch.cuda.is_available() else "cpu"
    assert TrainConfig("async", **auto).device == expected
    for algorithm in ("sac", "mbpo"):
        assert TrainConfig("async", algorithm=algorithm, **auto).device == "cpu"
        with pytest.raises(ConfigError, match=f"{algorithm} learns on the cpu"):
            TrainConfig("async", env="Pendulum-v1", algorithm=algorithm, device="cuda")


def test_a_gpu_learns_cart_pole(tmp_path):
    config = TrainConfig("async", env="CartPole-v1", total_steps=30_000, device=DEVICE, seed=0)
    path = train(config, tmp_path / "run")
    assert evaluate(path, episodes=10).mean > 300
