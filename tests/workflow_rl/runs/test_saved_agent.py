from __future__ import annotations

import functools
import math
from pathlib import Path
from typing import Any

import pytest

from workflow_rl.errors import UserError
from workflow_rl.runs.agent_from_checkpoint import restored_agent
from workflow_rl.runs.checkpoint import Checkpoint
from workflow_rl.runs.config import TrainConfig
from workflow_rl.runs.learner import make_agent
from workflow_rl.runs.saved_agent import critic_of, load_agent, policy_of, scored_as
from workflow_rl.runs.training_state import TrainingState

PATH = Path("checkpoint.safetensors")


@functools.cache
def config() -> TrainConfig:
    return TrainConfig(
        "sync", env="tests.any_envs:tests/Target-v0", settings={"hidden_sizes": (4,)}
    )


def checkpoint(**statistics: Any) -> Checkpoint:
    """Of an agent that normalises, with other statistics."""
    agent = make_agent(config()).state_dict()
    return Checkpoint(config().to_dict(), {**agent, **statistics}, TrainingState())


MOMENTS = {"count": 4, "mean": [0.0, 1.0], "variance": [1.0, 1.0]}
RETURNS = {"moments": {"count": 4, "mean": [0.0], "variance": [1.0]}, "open": []}


def test_statistics_are_loaded() -> None:
    saved = checkpoint(obs_moments=MOMENTS, return_scale=RETURNS)
    agent = make_agent(config())
    restored_agent(agent, saved, PATH)
    assert agent.state_dict()["obs_moments"] == MOMENTS
    mean = policy_of(saved, PATH).parameters.obs_mean
    assert mean is not None
    assert mean.tolist() == [0, 1]


@pytest.mark.parametrize(
    "odd", [5, {**MOMENTS, "variance": [1.0, -1.0]}, {**MOMENTS, "count": "4"}]
)
def test_odd_statistics_of_observations_are_refused_in_a_line(odd: Any) -> None:
    saved = checkpoint(obs_moments=odd)
    with pytest.raises(UserError, match=r"checkpoint\.safetensors .* statistics") as playing:
        policy_of(saved, PATH)
    with pytest.raises(UserError, match=r"checkpoint\.safetensors .* statistics") as resuming:
        restored_agent(make_agent(config()), saved, PATH)
    assert "\n" not in f"{playing.value}{resuming.value}"


@pytest.mark.parametrize("odd", [-1, 1.0, True, "1", None, 2**63])
def test_odd_numbers_of_updates_are_refused_in_a_line(odd: Any) -> None:
    saved = checkpoint(policy_version=odd)
    with pytest.raises(UserError, match=r"checkpoint\.safetensors .*its policy_version is"):
        policy_of(saved, PATH)
    for name in ("policy_version", "seed"):
        with pytest.raises(UserError, match=rf"checkpoint\.safetensors .*its {name} is"):
            restored_agent(make_agent(config()), checkpoint(**{name: odd}), PATH)


@pytest.mark.parametrize("odd", [5, {"open": []}, {**RETURNS, "open": [[0, math.nan]]}])
def test_odd_statistics_of_returns_are_refused_in_a_line(odd: Any) -> None:
    saved = checkpoint(return_scale=odd)
    with pytest.raises(UserError, match=r"checkpoint\.safetensors cannot be used: ") as looking:
        critic_of(saved, PATH)
    with pytest.raises(UserError, match=r"checkpoint\.safetensors does not fit") as resuming:
        restored_agent(make_agent(config()), saved, PATH)
    assert "another shape" not in str(resuming.value)
    assert "\n" not in f"{looking.value}{resuming.value}"


@pytest.mark.parametrize(
    ("name", "env_id"), [("decoys", "workflow_rl/CAGE2-v0"), ("rules", "workflow_rl/CAGE4-v0")]
)
def test_a_scripted_agent_says_where_it_is_found(name: str, env_id: str) -> None:
    with pytest.raises(UserError, match=f"scripted agent: give env='{env_id}'"):
        load_agent(name)
    load_agent(name, env=env_id)


def test_a_released_agent_is_called_by_its_name_and_others_by_their_file(tmp_path: Path) -> None:
    assert scored_as(Path("champion")) == "champion"
    (tmp_path / "best.safetensors").touch()
    assert scored_as(tmp_path) == str(tmp_path / "best.safetensors")
