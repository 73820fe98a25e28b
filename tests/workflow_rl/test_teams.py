"""Runs of a team: the same weights for any number of workers, kinds of training, and resumes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from agents.policies.distributions import Categorical
from agents.policies.numpy_policy import PolicyParameters
from agents.policies.team_policy import TeamParameters
from agents.settings import ConfigError
from agents.team import TeamLayout
from tests.tiny_teams import ShiftEnv
from workflow_rl import TrainConfig, evaluate, train
from workflow_rl.cage2.scoring.players import load_trained
from workflow_rl.collection.schedule import BegunBatch, Share
from workflow_rl.runs.checkpoint import CheckpointError, load_checkpoint, save_checkpoint
from workflow_rl.runs.run_record import weights_digest

LAYOUT = TeamLayout(("alone",), (3,), (2,))
WEIGHT, BIAS = np.arange(6, dtype=np.float32).reshape(3, 2), np.zeros(2, np.float32)
SETTINGS = {
    **{"hidden_sizes": (16,), "minibatch_size": 64, "epochs": 2},
    **{"learning_rate": 0.01, "learning_rate_final": 0.01},
}


def trained(path: Path, mode: str = "async", resume: bool = False, **changes: Any) -> str:
    given = {"n_envs": 3, "total_episodes": 24, "episodes_per_update": 6, "n_workers": 1, **changes}
    settings = {**SETTINGS, **given.pop("settings", {})}
    config = TrainConfig(mode, env="shift", settings=settings, **given)
    train(config, path, env=ShiftEnv, resume=resume)
    return weights_digest(load_checkpoint(path / "checkpoint.pt").agent["network"])


def test_weights_do_not_depend_on_workers_mode_or_a_resume(tmp_path: Path) -> None:
    one = trained(tmp_path / "one")
    assert trained(tmp_path / "three", n_workers=3) == one
    assert trained(tmp_path / "sync", "sync") == one
    trained(tmp_path / "again", total_episodes=12)
    assert trained(tmp_path / "again", resume=True) == one


def test_a_checkpoint_keeps_the_policies_of_a_batch_that_is_being_collected(
    tmp_path: Path,
) -> None:
    trained(tmp_path / "run", total_episodes=6)
    saved = load_checkpoint(tmp_path / "run" / "checkpoint.pt")
    parameters = TeamParameters(
        LAYOUT, {"own": (0,)}, {"own": PolicyParameters((WEIGHT,), (BIAS,), "tanh")}
    )
    begun = [BegunBatch(parameters.actor(3), Share(6, 6))]
    save_checkpoint(tmp_path / "begun.pt", replace(saved, begun=begun))
    (batch,) = load_checkpoint(tmp_path / "begun.pt").begun
    assert batch.share == Share(6, 6)
    assert batch.policy.policy_version == 3
    assert batch.policy.parameters.layout == LAYOUT
    assert batch.policy.parameters.policies == {"own": (0,)}
    (member,) = batch.policy.parameters.parameters.values()
    assert member.weights[0].tolist() == WEIGHT.tolist()
    assert member.distribution == Categorical(2)


def test_a_team_does_not_play_cage_2(tmp_path: Path) -> None:
    trained(tmp_path / "run", total_episodes=6)
    with pytest.raises(CheckpointError, match="run is a team, which does not play CAGE-2"):
        load_trained(tmp_path / "run")


def test_a_team_learns(tmp_path: Path) -> None:
    trained(tmp_path / "run", total_episodes=600, episodes_per_update=20, settings={"epochs": 4})
    scores = evaluate(tmp_path / "run", episodes=20, env=ShiftEnv, n_workers=1)
    assert scores.mean > 10  # Chance gives 6, the best is 8 + 3 or so.


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"num_steps_per_env": 4, "episodes_per_update": None}, "num_steps_per_env"),
        ({"async_rl": True}, "async_rl"),
        ({"settings": {"network": "gru"}}, "network"),
        ({"settings": {"policy_of": "*=all"}}, "policy_of"),
    ],
)
def test_what_does_not_go_with_a_team(tmp_path: Path, changes: Any, field: str) -> None:
    with pytest.raises(ConfigError) as error:
        trained(tmp_path / "run", **changes)
    assert error.value.field_name == field


def test_other_algorithms_learn_for_no_team(tmp_path: Path) -> None:
    config = TrainConfig("async", env="shift", make_env=ShiftEnv, algorithm="sac", n_workers=1)
    with pytest.raises(ConfigError, match="algorithm: sac learns"):
        train(config, tmp_path / "run")
