"""An actor and a critic as torch modules: two separate networks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from agents.policies.distributions import Distribution
from agents.policies.masks import torch_masked
from agents.policies.networks import NETWORKS
from agents.policies.numpy_policy import PolicyParameters
from agents.policies.torch_memory import Packed


class ActorCritic(nn.Module):
    """One network for what the distribution over actions takes, another for the state's value.

    seed: of the initial weights. kind, args: of both networks, a key of `networks.NETWORKS` and the
    further fields of this kind. masked: whether observations end with a mask, see `masks`.
    n_further: how many numbers, after those that the actor sees and before the mask, the critic
    sees besides.
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
        args: Mapping[str, Any] = {},
        masked: bool = False,
        n_further: int = 0,
    ) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(seed)
        n_outputs = distribution.n_outputs
        self.distribution = distribution
        self.args, self.masked, self.n_further = dict(args), masked, n_further
        its, sizes = NETWORKS[kind], tuple(hidden_sizes)
        self.actor_network = its.of_sizes(obs_dim, sizes, n_outputs, activation, args)
        own = its.critics_args(args)
        self.critic_network = its.of_sizes(obs_dim + n_further, sizes, 1, activation, own)
        self.actor = self.actor_network.module(0.01, generator)
        self.critic = self.critic_network.module(1.0, generator)
        self.log_std = (
            nn.Parameter(torch.full((n_outputs,), log_std_init))
            if distribution.has_log_std
            else None
        )

    @property
    def has_memory(self) -> bool:
        """Whether the networks see sequences, as `torch_memory.Packed`, instead of rows."""
        return self.actor_network.memory_size > 0

    def forward(self, obs: Tensor | Packed) -> tuple[Tensor, Tensor]:
        """Return the actor's outputs [B, n_outputs] and values [B] of observations [B, D]."""
        return self.outputs(obs), self.values(obs)

    def outputs(self, obs: Tensor | Packed) -> Tensor:
        """Return the actor's outputs [B, n_outputs] of observations [B, D]."""
        seen, mask = self._seen(obs)
        outputs: Tensor = self.actor(seen)
        return outputs if mask is None else torch_masked(outputs, mask)

    def values(self, obs: Tensor | Packed) -> Tensor:
        """Return the values [B] of observations [B, D]."""
        values: Tensor = self.critic(self._seen(obs, self.n_further)[0])
        return values.squeeze(-1)

    def _seen(
        self, obs: Tensor | Packed, n_further: int = 0
    ) -> tuple[Tensor | Packed, Tensor | None]:
        """Return what a network sees of observations, and their masks, if they have any.

        n_further: of the network.
        """
        if not self.masked and n_further == self.n_further:
            return obs, None
        rows = obs.rows if isinstance(obs, Packed) else obs
        n_inputs = self.actor_network.n_inputs
        seen = rows
        if not self.actor_network.sees_mask:
            seen = rows[:, : n_inputs + n_further]
        mask = rows[:, n_inputs + self.n_further :] if self.masked else None
        return (obs._replace(rows=seen) if isinstance(obs, Packed) else seen), mask

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
            network_args=self.args,
            masked=self.masked,
        )
