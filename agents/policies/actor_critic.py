"""An actor and a critic as torch modules: two separate networks."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from agents.policies.distributions import Distribution
from agents.policies.networks import NETWORKS
from agents.policies.numpy_policy import PolicyParameters


class ActorCritic(nn.Module):
    """One network for what the distribution over actions takes, another for the state's value.

    seed: of the initial weights. kind: of both networks, a key of `networks.NETWORKS`.
    """

    def __init__(
        self,
        obs_dim: int,
        distribution: Distribution,
        hidden_sizes: Sequence[int],
        activation: str,
        seed: int,
        log_std_init: float = 0.0,
        kind: str = "mlp",
    ) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(seed)
        n_outputs = distribution.n_outputs
        self.distribution = distribution
        self.actor_network, self.critic_network = (
            NETWORKS[kind](obs_dim, tuple(hidden_sizes), n, activation) for n in (n_outputs, 1)
        )
        self.actor = self.actor_network.module(0.01, generator)
        self.critic = self.critic_network.module(1.0, generator)
        self.log_std = (
            nn.Parameter(torch.full((n_outputs,), log_std_init))
            if distribution.has_log_std
            else None
        )

    def forward(self, obs: Tensor) -> tuple[Tensor, Tensor]:
        """Return the actor's outputs [B, n_outputs] and values [B] of observations [B, D]."""
        return self.actor(obs), self.critic(obs).squeeze(-1)

    def parts(self) -> list[list[nn.Parameter]]:
        """Return the parameters of the actor, and those of the critic."""
        log_std = [] if self.log_std is None else [self.log_std]
        return [[*self.actor.parameters(), *log_std], list(self.critic.parameters())]

    def policy_parameters(self) -> PolicyParameters:
        """Return a NumPy copy of the actor, which workers act with."""
        return PolicyParameters(
            *self.actor_network.layers(self.actor.state_dict()),
            activation=self.actor_network.activation,
            log_std=None if self.log_std is None else self.log_std.detach().cpu().numpy().copy(),
            distribution=self.distribution,
            network=self.actor_network.kind,
        )
