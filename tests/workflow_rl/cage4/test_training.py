"""Runs on CAGE-4: the same weights for any number of workers, simulator, and after a resume."""

from pathlib import Path
from typing import Any

import pytest

from workflow_rl import TrainConfig, train
from workflow_rl.errors import ConfigError
from workflow_rl.runs.folder import weights_digest
from workflow_rl.runs.read_checkpoint import load_checkpoint

SETTINGS = {
    **{"hidden_sizes": (8,), "minibatch_size": 64, "epochs": 2},
    # A run that goes on past its end has the same rate.
    **{"learning_rate": 1e-3, "learning_rate_final": 1e-3},
}
TALKING: dict[str, Any] = {
    "env_args": {"messages": "learned"},
    "settings": {**SETTINGS, "network": "graph", "network_args": {"heads": 0}},
}
TAUGHT: dict[str, Any] = {
    "env_args": {},
    "settings": {**SETTINGS, "network": "entities", "network_args": {"heads": 0}},
    **{"teacher": "rules", "teacher_episodes": 10, "teacher_epochs": 1},
}
MIXED: dict[str, Any] = {
    "env_args": {"scenarios": ["more-phishing", "constant-size", "aggressive-red"]},
    "settings": SETTINGS,
}
KINDS = {"messages": TALKING, "entities and a teacher": TAUGHT, "several scenarios": MIXED}


def trained(
    path: Path, kind: Any, resume: bool = False, mode: Any = "async", **changes: Any
) -> str:
    simulator = changes.pop("simulator", "compiled")
    args = {"observation": "belief", "actions": "suspects", "max_steps": 60}
    env_args = {**args, "simulator": simulator, **kind["env_args"]}
    given = {"n_envs": 5, "total_episodes": 20, "episodes_per_update": 5, "n_workers": 1, **changes}
    config = TrainConfig(
        mode, env="workflow_rl/CAGE4-v0", **{**kind, "env_args": env_args, **given}
    )
    train(config, path, resume=resume)
    return weights_digest(load_checkpoint(path / "checkpoint.safetensors").agent["network"])


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
def test_weights_follow_from_the_seed_alone(checkout: Path, tmp_path: Path, kind: Any) -> None:
    expected = trained(tmp_path / "one", kind)
    assert trained(tmp_path / "two", kind, n_workers=2) == expected
    assert trained(tmp_path / "five", kind, n_workers=5) == expected
    assert trained(tmp_path / "sync", kind, mode="sync") == expected
    assert trained(tmp_path / "cyborg", kind, simulator="cyborg", n_workers=2) == expected
    trained(tmp_path / "again", kind, total_episodes=10)
    assert trained(tmp_path / "again", kind, resume=True) == expected
    assert trained(tmp_path / "other", kind, seed=1) != expected


def test_a_teacher_that_decides_nothing_is_refused(tmp_path: Path) -> None:
    config = TrainConfig(
        "async",
        preset="cage4-quick",
        env_args={"max_steps": 3},
        **{"n_workers": 1, "n_envs": 2, "total_episodes": 2, "episodes_per_update": 2},
        teacher_episodes=2,
    )
    with pytest.raises(ConfigError, match="rules decides nothing"):
        train(config, tmp_path / "run", quiet=True)
