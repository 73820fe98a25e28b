"""The hyperparameters of soft actor-critic, and its metrics of an update. Imports no torch."""

import math
from dataclasses import dataclass
from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, Field, model_validator

from workflow_rl.agents.policies.network import ACTIVATIONS
from workflow_rl.agents.settings import Count, CountOrNone, NetworkSettings, OneOf, Positive
from workflow_rl.errors import ConfigError


def _the_one(network: Any) -> Any:
    if network != "mlp":
        raise ValueError(f"{network!s:.80} is learned by ppo alone: sac and mbpo have mlp")
    return network


class SACConfig(NetworkSettings):
    """The hyperparameters of soft actor-critic. The constructor raises ConfigError."""

    # The gradients in `soft_actor_critic` are only written for this kind of network.
    network: Annotated[Literal["mlp"], BeforeValidator(_the_one)] = Field(
        default="mlp", description="Kind of network, for the actor and for the critics."
    )
    activation: Annotated[str, OneOf(ACTIVATIONS)] = Field(
        default="relu", description="Activation function of the actor's hidden layers."
    )
    learning_rate: Positive = Field(default=1e-3, description="Adam's learning rate.")
    replay_capacity: Count = Field(
        default=1_000_000, description="Number of the newest real steps that the agent remembers."
    )
    batch_size: Count = Field(
        default=256, description="Number of steps in each batch of the agent."
    )
    gradient_steps: Positive = Field(
        default=0.33,
        description="Number of gradient steps of the agent for each real step. A fraction carries "
        "over to the next update.",
    )
    policy_every: Count = Field(
        default=1,
        description="Number of gradient steps of the critics for each gradient step of the policy.",
    )
    target_rate: Annotated[float, Field(gt=0, le=1)] = Field(
        default=0.01,
        description="Coefficient of the target critics' moving average (Polyak averaging): the "
        "weight of the critics' newest weights in each gradient step.",
    )
    layer_norm: bool = Field(
        default=False,
        description="Use layer normalisation in the hidden layers of the critics.",
    )
    target_entropy: float | None = Field(
        default=None,
        description="Target of the policy's entropy. For Discrete actions: a share of the uniform "
        "policy's entropy, 0.4 by default. For Box actions: nats for each number, -1 by default.",
    )
    warm_up_steps: CountOrNone = Field(
        default=2000, description="Number of real steps before the first gradient step."
    )

    @model_validator(mode="after")
    def _remembers_enough(self) -> Self:
        if self.replay_capacity < self.warm_up_steps:
            raise ConfigError(
                "replay_capacity",
                f"{self.replay_capacity} is too small: it must be warm_up_steps, "
                f"{self.warm_up_steps}, or greater",
            )
        return self


@dataclass(frozen=True)
class SACMetrics:
    """The metrics of one update.

    The policy's loss, its entropy in nats, the temperature and the norm of the policy's gradient
    are means over the policy's gradient steps. The critics' loss and the norm of their gradient are
    means over all gradient steps. A mean over no steps is NaN. action_std: the deviation of numbers
    before squashing in the last gradient step, NaN for choices. policy_lag_*: of the rollout's
    steps. stale_fraction: always 0. real_steps: in the whole run so far.
    """

    policy_loss: float = math.nan
    value_loss: float = math.nan
    entropy: float = math.nan
    temperature: float = math.nan
    policy_gradient_norm: float = math.nan
    value_gradient_norm: float = math.nan
    action_std: float = math.nan
    learning_rate: float = math.nan
    policy_lag_min: int = 0
    policy_lag_mean: float = 0.0
    policy_lag_max: int = 0
    stale_fraction: float = 0.0
    gradient_steps: int = 0
    real_steps: int = 0

    def _asdict(self) -> dict[str, Any]:
        return dict(vars(self))
