from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from agents.mbpo.config import OF_A_MODEL, MBPOConfig


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
    with pytest.raises(ValueError, match=f"^{name} is"):
        MBPOConfig(**{name: value})


def test_all_settings_of_a_model_are_known_as_such() -> None:
    names = {field.name for field in dataclasses.fields(MBPOConfig)}
    of_real_steps = {name for name in names if not name.startswith(("model_", "imagined_"))}
    assert of_real_steps - OF_A_MODEL == {
        *("replay_capacity", "batch_size", "gradient_steps", "target_rate", "target_entropy"),
        "warm_up_steps",
    }
    assert names - of_real_steps - OF_A_MODEL == {"imagined_share"}
    assert names > OF_A_MODEL


def test_rollouts_grow_with_the_run() -> None:
    config = MBPOConfig(rollout_length=1, rollout_length_final=5)
    assert [config.rollout_length_at(done) for done in (0.0, 0.5, 1.0)] == [1, 3, 5]
