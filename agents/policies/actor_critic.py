"""An actor and a critic as torch modules. A shared network has the value as its last output."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from workflow_rl.agents.policies.distributions import Distribution, torch_masked
from workflow_rl.agents.policies.network import Network
from workflow_rl.agents.policies.networks import NETWORKS
from workflow_rl.agents.policies.numpy_policy import PolicyParameters

if TYPE_CHECKING:
    from workflow_rl.agents.policies.torch_memory import Packed


class ActorCritic(nn.Module):
    """The actor's network for the outputs of a distribution, and the critic's for the value.

    seed: the seed of the initial weights. kind: a key of `networks.NETWORKS`. args: further fields
    of this kind. masked: whether observations end with a mask, see `distributions`. n_further: the
    number of values for the critic only, between the actor's values and the mask. is_shared:
    whether actor and critic share all layers but the last.
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
        is_shared: bool = False,
    ) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(seed)
        n_outputs = distribution.n_outputs
        self.distribution = distribution
        self.args, self.masked, self.n_further = dict(args), masked, n_further
        network, sizes = NETWORKS[kind], tuple(hidden_sizes)
        n_actors = n_outputs + is_shared
        self.actor_network = network.of_sizes(obs_dim, sizes, n_actors, activation, args)
        self.actor = self.actor_network.module(0.01, generator)
        self.actor_network.try_out(self.actor, n_outputs if masked else 0)
        self.is_shared, self.critic_network = is_shared, self.actor_network
        self.critic: nn.Module = nn.Identity()
        if not is_shared:
            args = network.critics_args(args, n_further)
            self.critic_network = network.of_sizes(obs_dim + n_further, sizes, 1, activation, args)
            self.critic = self.critic_network.module(1.0, generator)
            self.critic_network.try_out(self.critic, n_outputs if masked else 0)
        self.log_std = (
            nn.Parameter(torch.full((n_outputs,), log_std_init))
            if distribution.has_log_std
            else None
        )

    @property
    def has_memory(self) -> bool:
        """Whether the networks take sequences (`torch_memory.Packed`) instead of rows."""
        return self.actor_network.memory_size > 0

    def forward(self, obs: Tensor | Packed) -> tuple[Tensor, Tensor]:
        """Return the actor's outputs [B, n_outputs] and values [B] of observations [B, D]."""
        if not self.is_shared:
            return self.outputs(obs), self.values(obs)
        seen, mask = self._seen(obs, self.actor_network)
        both: Tensor = self.actor(seen)
        outputs, values = both[:, :-1], both[:, -1]
        return torch_masked(outputs, mask), values

    def outputs(self, obs: Tensor | Packed) -> Tensor:
        """Return the actor's outputs [B, n_outputs] of observations [B, D]."""
        if self.is_shared:
            return self(obs)[0]
        seen, mask = self._seen(obs, self.actor_network)
        outputs: Tensor = self.actor(seen)
        return torch_masked(outputs, mask)

    def values(self, obs: Tensor | Packed) -> Tensor:
        """Return the values [B] of observations [B, D]."""
        if self.is_shared:
            return self(obs)[1]
        values: Tensor = self.critic(self._seen(obs, self.critic_network)[0])
        return values.squeeze(-1)

    def _seen(
        self, obs: Tensor | Packed, network: Network
    ) -> tuple[Tensor | Packed, Tensor | None]:
        """Return a network's inputs from observations, and the observations' masks, if any."""
        if not self.masked and not self.n_further:
            return obs, None
        rows = obs if isinstance(obs, Tensor) else obs.rows
        mask = rows[:, self.critic_network.n_inputs :] if self.masked else None
        seen = rows[:, : network.n_inputs]
        if mask is not None and network.sees_mask:
            seen = torch.cat([seen, mask], dim=1)
        return (seen if isinstance(obs, Tensor) else obs._replace(rows=seen)), mask

    def parts(self) -> dict[str, list[nn.Parameter]]:
        """Return the groups of parameters for the optimizers, named by their outputs."""
        log_std = [] if self.log_std is None else [self.log_std]
        actor = [*self.actor.parameters(), *log_std]
        if self.is_shared:
            return {"policy": actor}
        return {"policy": actor, "value": list(self.critic.parameters())}

    def policy_parameters(self) -> PolicyParameters:
        """Return a NumPy copy of the actor. Workers act with this copy."""
        layers = self.actor_network.layers(self.actor.state_dict())
        if self.is_shared:
            layers = layers.with_outputs(slice(-1))
        return PolicyParameters(
            *layers,
            activation=self.actor_network.activation,
            log_std=None if self.log_std is None else self.log_std.detach().cpu().numpy().copy(),
            distribution=self.distribution,
            network=self.actor_network.kind,
            network_args=self.args,
            masked=self.masked,
            n_further=self.n_further,
        )
