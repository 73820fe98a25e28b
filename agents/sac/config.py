"""The hyperparameters of soft actor-critic. Imports no torch."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from agents.network_settings import NetworkSettings
from agents.policies.networks import ACTIVATIONS
from agents.settings import ConfigError, Count, CountOrNone, OneOf, Positive


class SACConfig(NetworkSettings):
    """The hyperparameters of soft actor-critic. Making one raises ConfigError."""

    # Its gradients are written out for this kind of network alone.
    network: Literal["mlp"] = Field(
        default="mlp", description="Kind of network, for the actor and for the critics."
    )
    activation: Annotated[str, OneOf(ACTIVATIONS)] = Field(
        default="relu", description="Activation function of the actor's hidden layers."
    )
    learning_rate: Positive = Field(default=1e-3, description="Adam's learning rate.")
    replay_capacity: Count = Field(
        default=1_000_000, description="Real steps that the agent remembers: the newest ones."
    )
    batch_size: Count = Field(default=256, description="Steps in a gradient step of the agent.")
    gradient_steps: Positive = Field(
        default=0.33,
        description="Gradient steps of the agent for each real step. A fraction carries over to "
        "the next update.",
    )
    target_rate: Annotated[float, Field(gt=0, le=1)] = Field(
        default=0.01,
        description="Share of the way that the target critics move to the critics in a gradient "
        "step.",
    )
    layer_norm: bool = Field(
        default=False,
        description="Normalise the sums of each hidden layer of the critics (layer normalisation).",
    )
    target_entropy: float | None = Field(
        default=None,
        description="Entropy that the policy is held at. For Discrete actions: a share of the "
        "uniform policy's entropy, 0.4 by default. For Box actions: nats for each number, -1 by "
        "default.",
    )
    warm_up_steps: CountOrNone = Field(
        default=2000, description="Real steps before the agent learns."
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
