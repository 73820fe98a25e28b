from __future__ import annotations

from typing import Any

import pytest

from workflow_rl.agents.mbpo.config import MBPOConfig
from workflow_rl.agents.sac.config import SACConfig
from workflow_rl.errors import ConfigError


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("gradient_steps", 0.0),
        ("gradient_steps", float("nan")),
        ("batch_size", 0),
        ("imagined_share", 1.5),
        ("target_entropy", "high"),
        ("model_held_out", 1.0),
        ("model_elites", 6),
        ("warm_up_steps", -1),
        ("model_members", 2.5),
        ("model_weight_decay", -1e-9),
        ("model_hidden_sizes", "64"),
        ("replay_capacity", 1999),
        ("imagined_share", 0.001),
    ],
)
def test_what_makes_no_sense_is_refused_by_name(name: str, value: Any) -> None:
    with pytest.raises(ConfigError) as error:
        MBPOConfig(**{name: value})
    assert error.value.field_name == name


def test_rollouts_grow_with_the_run() -> None:
    config = MBPOConfig(rollout_length=1, rollout_length_final=5)
    assert [config.rollout_length_at(done) for done in (0.0, 0.5, 1.0)] == [1, 3, 5]


def test_its_agent_begins_with_the_defaults_of_soft_actor_critic() -> None:
    assert dict(SACConfig()).items() <= dict(MBPOConfig()).items()
