"""Actor and critic: two separate multilayer perceptrons."""

from __future__ import annotations

import itertools
import os
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from agents.policies.distributions import Distribution
from agents.policies.numpy_policy import PolicyParameters

ACTIVATIONS: dict[str, type[nn.Module]] = {"tanh": nn.Tanh, "relu": nn.ReLU}


class NumpyProduct(torch.autograd.Function):
    """`nn.functional.linear` of x [B, in], weight [out, in] and bias [out], by NumPy's BLAS."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        ctx.save_for_backward(x, weight)
        product = x.detach().numpy() @ weight.detach().numpy().T
        return torch.from_numpy(product).add_(bias.detach())

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, Tensor, Tensor]:
        (x, weight), grad = ctx.saved_tensors, grads[0].numpy()
        of_x = torch.from_numpy(grad @ weight.detach().numpy()) if ctx.needs_input_grad[0] else None
        return of_x, torch.from_numpy(grad.T @ x.detach().numpy()), grads[0].sum(0)


class Linear(nn.Linear):
    """A linear layer that does not wait for an MKL that was told to be slow.

    MKL multiplies equally on Intel's and AMD's processors only with MKL_CBWR=COMPATIBLE, several
    times slower than OpenBLAS, NumPy's, does once it is told which kernels to take.
    """

    def reset_parameters(self) -> None:
        """Leaves them uninitialised: nn.Linear would draw from torch's global generator."""

    def forward(self, x: Tensor) -> Tensor:
        """[B, in] to [B, out]."""
        if os.environ.get("MKL_CBWR") != "COMPATIBLE" or not x.is_cpu or x.ndim != 2:
            return super().forward(x)
        product: Tensor = NumpyProduct.apply(x, self.weight, self.bias)
        return product


def mlp(
    sizes: Sequence[int], activation: str, output_gain: float, generator: torch.Generator | None
) -> nn.Sequential:
    """Linear layers of the given sizes with the activation between them.

    Orthogonal weights (gain sqrt(2), `output_gain` for the last layer) and zero biases, the
    initialisation found best for PPO by Andrychowicz et al. 2021, section 3.2. Without a generator,
    uninitialised: to load weights into.
    """
    layers: list[nn.Module] = []
    for n_in, n_out in itertools.pairwise(sizes):
        is_last = len(layers) // 2 == len(sizes) - 2
        linear = Linear(n_in, n_out)
        if generator is not None:
            gain = output_gain if is_last else 2**0.5
            nn.init.orthogonal_(linear.weight, gain, generator=generator)
            nn.init.zeros_(linear.bias)
        layers += [linear] if is_last else [linear, ACTIVATIONS[activation]()]
    return nn.Sequential(*layers)


class ActorCritic(nn.Module):
    """What the distribution over actions takes from one MLP, the state's value from another.

    seed: of the initial weights; None: they are loaded next.
    """

    def __init__(
        self,
        obs_dim: int,
        distribution: Distribution,
        hidden_sizes: Sequence[int],
        activation: str,
        seed: int | None,
        log_std_init: float = 0.0,
    ) -> None:
        super().__init__()
        generator = None if seed is None else torch.Generator().manual_seed(seed)
        self.activation = activation
        self.obs_dim = obs_dim
        self.distribution = distribution
        n_outputs = distribution.n_outputs
        self.actor = mlp([obs_dim, *hidden_sizes, n_outputs], activation, 0.01, generator)
        self.critic = mlp([obs_dim, *hidden_sizes, 1], activation, 1.0, generator)
        self.log_std = (
            nn.Parameter(torch.full((n_outputs,), log_std_init))
            if distribution.has_log_std
            else None
        )

    def forward(self, obs: Tensor) -> tuple[Tensor, Tensor]:
        """The actor's outputs [B, n_outputs] and values [B] of observations [B, D]."""
        return self.actor(obs), self.critic(obs).squeeze(-1)

    def parts(self) -> list[list[nn.Parameter]]:
        """The parameters of the actor, and those of the critic."""
        log_std = [] if self.log_std is None else [self.log_std]
        return [[*self.actor.parameters(), *log_std], list(self.critic.parameters())]

    def policy_parameters(self) -> PolicyParameters:
        """A NumPy copy of the actor, for the workers."""
        linears = [layer for layer in self.actor if isinstance(layer, nn.Linear)]
        return PolicyParameters(
            weights=tuple(
                linear.weight.detach().cpu().numpy().T.copy(order="C") for linear in linears
            ),
            biases=tuple(linear.bias.detach().cpu().numpy().copy() for linear in linears),
            activation=self.activation,
            log_std=None if self.log_std is None else self.log_std.detach().cpu().numpy().copy(),
            distribution=self.distribution,
        )


NETWORKS: dict[str, type[ActorCritic]] = {"mlp": ActorCritic}
"""By the name that `--network` takes. `numpy_policy.FORWARD` has the actor of each."""
