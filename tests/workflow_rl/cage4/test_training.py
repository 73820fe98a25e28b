"""Runs on CAGE-4: the same weights for any number of workers, simulator, and after a resume."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from workflow_rl import TrainConfig, train
from workflow_rl.runs.checkpoint import load_checkpoint
from workflow_rl.runs.run_record import weights_digest


def trained(path: Path, resume: bool = False, mode: Any = "async", **changes: Any) -> str:
    args: dict[str, Any]
    args = {"observation": "belief", "actions": "suspects", "max_steps": 60, "messages": "learned"}
    args |= {"simulator": changes.pop("simulator", "compiled"), **changes.pop("scenario", {})}
    given = {"n_envs": 5, "total_episodes": 20, "episodes_per_update": 5, "n_workers": 1, **changes}
    # A run that goes on past its end has the same rate.
    settings = {
        **{"hidden_sizes": (8,), "minibatch_size": 64, "epochs": 2},
        **{"learning_rate": 1e-3, "learning_rate_final": 1e-3},
    }
    config = TrainConfig(
        mode, env="workflow_rl/CAGE4-v0", env_args=args, settings=settings, **given
    )
    train(config, path, resume=resume)
    return weights_digest(load_checkpoint(path / "checkpoint.pt").agent["network"])


@pytest.mark.slow
def test_weights_follow_from_the_seed_alone(checkout: Path, tmp_path: Path) -> None:
    one = trained(tmp_path / "one")
    assert trained(tmp_path / "two", n_workers=2) == one
    assert trained(tmp_path / "five", n_workers=5) == one
    assert trained(tmp_path / "sync", mode="sync") == one
    assert trained(tmp_path / "cyborg", simulator="cyborg", n_workers=2) == one
    trained(tmp_path / "again", total_episodes=10)
    assert trained(tmp_path / "again", resume=True) == one
    assert trained(tmp_path / "other", seed=1) != one


@pytest.mark.slow
def test_weights_follow_from_the_seed_in_another_scenario(checkout: Path, tmp_path: Path) -> None:
    scenario = {"phishing_rate": 0.75, "longest_red_action": 1, "users": 4}
    one = trained(tmp_path / "one", scenario=scenario)
    assert trained(tmp_path / "two", scenario=scenario, n_workers=2) == one
    assert trained(tmp_path / "cyborg", scenario=scenario, simulator="cyborg") == one
    assert trained(tmp_path / "other", scenario={**scenario, "users": 5}) != one
