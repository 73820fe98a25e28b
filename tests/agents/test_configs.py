import math
from typing import Any

import pytest

from workflow_rl.agents.mbpo.config import MBPOConfig
from workflow_rl.agents.policies import network, torch_layers
from workflow_rl.agents.ppo.config import PPOConfig
from workflow_rl.agents.sac.config import SACConfig
from workflow_rl.agents.settings import OneOf, Settings
from workflow_rl.errors import ConfigError

REFUSED: dict[type[Settings], dict[str, tuple[Any, ...]]] = {
    PPOConfig: {
        "learning_rate": (0.0, -1e-3, math.nan, "0.1"),
        "clip_range": (0.0,),
        "max_grad_norm": (0.0,),
        "reward_scale": (0.0,),
        "learning_rate_final": (-1e-9,),
        "entropy_coef": (-0.01,),
        "value_coef": (-0.5,),
        "discount": (1.01, -0.01, math.nan),
        "gae_lambda": (1.01, -0.01),
        "epochs": (0, 2.0, True),
        "minibatch_size": (0, 1),
        "hidden_sizes": ((64, 0), (-1,)),
        "activation": ("sigmoid",),
        "target_kl": (0.0, -0.01),
        "correction": ("retrace",),
        "max_policy_lag": (-1,),
        "horizon": (3,),
    },
    MBPOConfig: {
        "gradient_steps": (0.0, math.nan),
        "batch_size": (0,),
        "imagined_share": (1.5, 0.001),
        "target_entropy": ("high",),
        "model_held_out": (1.0,),
        "model_elites": (6,),
        "warm_up_steps": (-1,),
        "model_members": (2.5,),
        "model_weight_decay": (-1e-9,),
        "model_hidden_sizes": ("64",),
        "replay_capacity": (1999,),
    },
}


@pytest.mark.parametrize(
    ("settings", "name", "value"),
    [
        pytest.param(settings, name, value, id=f"{settings.__name__} {name}={value}")
        for settings, refused in REFUSED.items()
        for name, values in refused.items()
        for value in values
    ],
)
def test_a_bad_hyperparameter_is_named(settings: type[Settings], name: str, value: Any) -> None:
    with pytest.raises(ConfigError) as error:
        settings(**{name: value})
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


def test_the_agent_of_mbpo_begins_with_the_defaults_of_soft_actor_critic() -> None:
    assert dict(SACConfig()).items() <= dict(MBPOConfig()).items()
