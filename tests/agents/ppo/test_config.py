from __future__ import annotations

import math
from typing import Any

import pytest

from workflow_rl.agents.policies import network, torch_layers
from workflow_rl.agents.ppo.config import PPOConfig
from workflow_rl.agents.settings import OneOf
from workflow_rl.errors import ConfigError


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("learning_rate", 0.0),
        ("learning_rate", -1e-3),
        ("learning_rate", math.nan),
        ("learning_rate", "0.1"),
        ("clip_range", 0.0),
        ("max_grad_norm", 0.0),
        ("reward_scale", 0.0),
        ("learning_rate_final", -1e-9),
        ("entropy_coef", -0.01),
        ("value_coef", -0.5),
        ("discount", 1.01),
        ("discount", -0.01),
        ("discount", math.nan),
        ("gae_lambda", 1.01),
        ("gae_lambda", -0.01),
        ("epochs", 0),
        ("epochs", 2.0),
        ("epochs", True),
        ("minibatch_size", 0),
        ("minibatch_size", 1),
        ("hidden_sizes", (64, 0)),
        ("hidden_sizes", (-1,)),
        ("activation", "sigmoid"),
        ("target_kl", 0.0),
        ("target_kl", -0.01),
        ("correction", "retrace"),
        ("max_policy_lag", -1),
        ("horizon", 3),
    ],
)
def test_a_bad_hyperparameter_is_named(name: str, value: Any) -> None:
    with pytest.raises(ConfigError) as error:
        PPOConfig(**{name: value})
    assert error.value.field_name == name


def test_hyperparameters_at_the_bounds_are_accepted() -> None:
    config = PPOConfig(
        hidden_sizes=(),
        learning_rate_final=0.0,
        discount=1.0,
        gae_lambda=0.0,
        epochs=1,
        minibatch_size=1,
        normalise_advantage=False,
        entropy_coef=0.0,
        value_coef=0.0,
        target_kl=1e-9,
        max_policy_lag=0,
    )
    assert config.discount == 1.0
    assert PPOConfig(discount=0.0, gae_lambda=1.0).target_kl is None


def test_settings_learner_and_workers_know_the_same_activations() -> None:
    (known,) = (m for m in PPOConfig.model_fields["activation"].metadata if isinstance(m, OneOf))
    assert {*known.names} == network.ACTIVATIONS.keys() == torch_layers.ACTIVATIONS.keys()
