"""Settings that all algorithms of this package share."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from agents.policies.networks import ACTIVATIONS, NETWORKS
from agents.settings import LayerSizes, OneOf, Positive, Settings, Share


class NetworkSettings(Settings):
    """The networks, the optimizer and the rewards of an actor-critic algorithm."""

    network: Annotated[str, OneOf(NETWORKS)] = Field(
        default="mlp", description="Kind of network, for the actor and for the critic."
    )
    hidden_sizes: LayerSizes = Field(
        default=(64, 64), description="Hidden layers of the actor and, separately, of the critic."
    )
    activation: Annotated[str, OneOf(ACTIVATIONS)] = Field(
        default="tanh", description="Activation function of the hidden layers."
    )
    learning_rate: Positive = Field(default=3e-3, description="Adam's learning rate at the start.")
    discount: Share = Field(default=0.99, description="Discount factor, gamma.")
    reward_scale: Positive = Field(
        default=0.1, description="Factor on the rewards that the critic learns from."
    )
