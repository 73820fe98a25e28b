"""Settings that all algorithms of this package share."""

from __future__ import annotations

from typing import Annotated, Any, Self

from pydantic import BeforeValidator, Field, model_validator

from workflow_rl.agents.policies.networks import NETWORKS
from workflow_rl.agents.settings import ConfigError, LayerSizes, OneOf, Positive, Settings, Share


def _name_of(network: Any) -> Any:
    """Return the name of a user's own class, which becomes known by it."""
    if not isinstance(network, type):
        return network
    from workflow_rl.agents.policies.own_network import kind_of

    return kind_of(network)


class NetworkSettings(Settings):
    """The networks, the optimizer and the rewards of an actor-critic algorithm."""

    network: Annotated[str, OneOf(NETWORKS), BeforeValidator(_name_of)] = Field(
        default="mlp",
        description="Kind of network of the actor and the critic. In gru and lstm the last "
        "hidden layer remembers what the network saw in the episode. frame-stack sees the last "
        "observations at once. cnn sees images by convolutions. entities shares its weights "
        "between the hosts, or whatever else an environment declares as its entities. graph adds "
        "attention along the edges that the environment declares between them. module:Name imports "
        "a torch module of your own.",
    )
    network_args: dict[str, Any] = Field(
        default={},
        description="Further settings of this kind of network. gru, lstm: seen_again, the "
        "observations before an unroll that the network sees again, 64 by default. frame-stack: "
        "frames, the observations that the network sees at once, 4 by default. cnn: "
        "convolutions, rows of filters, size and stride, such as [[16,3,1],[32,3,1]]; by default "
        "those of Mnih et al. 2015, and small ones for small images. entities: heads, "
        "the heads of the attention, 4 by default; 0 gives each entity the mean and the maximum "
        "over the entities instead, in a fraction of the time; and rounds, how often the entities "
        "hear of one another, 1 by default. graph: the same, with heads for each relation of the "
        "edges, 1 by default.",
    )
    hidden_sizes: LayerSizes = Field(
        default=(64, 64), description="Hidden layers of the actor and, separately, of the critic."
    )
    activation: Annotated[str, OneOf(("tanh", "relu"))] = Field(
        default="tanh", description="Activation function of the hidden layers."
    )
    learning_rate: Positive = Field(default=3e-3, description="Adam's learning rate at the start.")
    discount: Share = Field(default=0.99, description="Discount factor, gamma.")
    reward_scale: Positive = Field(
        default=0.1, description="Factor on the rewards that the critic learns from."
    )

    @model_validator(mode="after")
    def _describes_a_network(self) -> Self:
        try:
            NETWORKS[self.network].of_sizes(
                1, self.hidden_sizes, 1, self.activation, self.network_args
            )
        except (ValueError, TypeError) as error:
            option = "network_args" if self.network_args else "network"
            raise ConfigError(option, str(error)) from None
        return self
