import functools
import math
from pathlib import Path
from typing import Any

import pytest

from workflow_rl.errors import UserError
from workflow_rl.runs.checkpoint import Checkpoint
from workflow_rl.runs.config import TrainConfig
from workflow_rl.runs.learner import make_agent
from workflow_rl.runs.read_checkpoint import restored_agent
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


def test_statistics_are_loaded():
    saved = checkpoint(obs_moments=MOMENTS, return_scale=RETURNS)
    agent = make_agent(config())
    restored_agent(agent, saved, PATH)
    assert agent.state_dict()["obs_moments"] == MOMENTS
    mean = policy_of(saved, PATH).parameters.obs_mean
    assert mean.tolist() == [0, 1]


@pytest.mark.parametrize(
    ("name", "odd", "used"),
    [
        *(("obs_moments", odd, policy_of) for odd in (5, {**MOMENTS, "count": "4"})),
        ("obs_moments", {**MOMENTS, "variance": [1.0, -1.0]}, policy_of),
        *(("policy_version", odd, policy_of) for odd in (-1, 1.0, True, "1", None, 2**63)),
        *(("seed", odd, None) for odd in (-1, 1.0, True, "1", None, 2**63)),
        *(("return_scale", odd, critic_of) for odd in (5, {"open": []})),
        ("return_scale", {**RETURNS, "open": [[0, math.nan]]}, critic_of),
    ],
)
def test_what_is_odd_in_an_agent_is_refused_in_a_line(name, odd, used):
    saved = checkpoint(**{name: odd})
    said = {
        "obs_moments": r"checkpoint\.safetensors .* statistics",
        "return_scale": r"checkpoint\.safetensors (cannot be used: |does not fit)",
    }.get(name, rf"checkpoint\.safetensors .*its {name} is")
    if used:
        with pytest.raises(UserError, match=said) as using:
            used(saved, PATH)
        assert "\n" not in str(using.value)
    with pytest.raises(UserError, match=said) as resuming:
        restored_agent(make_agent(config()), saved, PATH)
    assert "\n" not in str(resuming.value)
    assert "another shape" not in str(resuming.value) or name != "return_scale"


@pytest.mark.parametrize(
    ("name", "env_id"), [("decoys", "workflow_rl/CAGE2-v0"), ("rules", "workflow_rl/CAGE4-v0")]
)
def test_a_scripted_agent_says_where_it_is_found(name, env_id):
    with pytest.raises(UserError, match=f"scripted agent: give env='{env_id}'"):
        load_agent(name)
    load_agent(name, env=env_id)


def test_a_released_agent_is_called_by_its_name_and_others_by_their_file(tmp_path):
    assert scored_as(Path("champion")) == "champion"
    (tmp_path / "best.safetensors").touch()
    assert scored_as(tmp_path) == str(tmp_path / "best.safetensors")
