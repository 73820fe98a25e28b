"""A policy's actor as a torch module, for the file formats that torch writes."""

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from workflow_rl.agents.policies.distributions import (
    Categorical,
    Distribution,
    FloatArray,
    torch_masked,
)
from workflow_rl.agents.policies.further_distributions import DiagonalGaussian, Joint
from workflow_rl.agents.policies.numpy_policy import PolicyParameters


class TorchActor(nn.Module):
    """A map from observations to outputs for the distribution, float32 [B, D] -> [B, n_outputs].

    The observations are the environment's, with masks if the policy takes masks. The outputs are
    logits, minus infinity for impossible actions, or the means of continuous actions. The means are
    clipped to the action space if it is known. For a SquashedGaussian, the outputs are means and
    log standard deviations before squashing.

    A network with a memory maps observations and states [B, S] to outputs and next states. States
    are zeros at an episode's beginning. state_size: `S`, or 0.
    """

    def __init__(self, parameters: PolicyParameters) -> None:
        super().__init__()
        network = parameters.described()
        self.network: Any = network.module(1.0, None).eval()
        state = network.state(parameters.layers)
        self.network.load_state_dict(
            {name: torch.from_numpy(array) for name, array in state.items()}
        )
        self.n_inputs = network.n_inputs
        self.state_size = network.memory_size
        self.is_masked, self.sees_mask = parameters.masked, network.sees_mask
        mean, scale = parameters.obs_mean, parameters.obs_scale
        self.is_normalised = mean is not None and scale is not None
        self.obs_mean = nn.Buffer(torch.zeros(0) if mean is None else torch.from_numpy(mean.copy()))
        self.obs_scale = nn.Buffer(
            torch.ones(0) if scale is None else torch.from_numpy(scale.copy())
        )
        self.limit = nn.Buffer(torch.tensor(network.limit))
        actions = parameters.distribution
        self.has_numbers = actions is not None and actions.has_log_std
        placed = _placed(actions or Categorical(0))
        self.middle, self.half_width, self.low, self.high = map(nn.Buffer, torch.tensor(placed))

    def forward(self, obs: Tensor, state: Tensor | None = None) -> Tensor | tuple[Tensor, Tensor]:
        """Return the outputs for observations, and the next states if states are given."""
        numbers = obs[:, : self.n_inputs] if self.is_masked else obs
        if self.is_normalised:
            shifted = (numbers - self.obs_mean) * self.obs_scale
            numbers = shifted.clamp(-self.limit, self.limit)
        if self.is_masked and self.sees_mask:
            numbers = torch.cat([numbers, obs[:, self.n_inputs :]], dim=1)
        outputs: Tensor
        if state is None:
            outputs = self.network(numbers)
        else:
            outputs, state = self.network.step(numbers, state)
        if self.is_masked:
            outputs = torch_masked(outputs, obs[:, self.n_inputs :])
        if self.has_numbers:
            outputs = (self.middle + self.half_width * outputs).clamp(self.low, self.high)
        return outputs if state is None else (outputs, state)


class SharedActor(nn.Module):
    """The actor of agents that share a policy. It also takes the acting agent's number, int64 [B].

    Observations are the environment's for the agent. n_agents: how many agents share the policy.
    """

    def __init__(self, actor: TorchActor, n_agents: int) -> None:
        super().__init__()
        self.actor, self.own = actor, actor.n_inputs - n_agents
        self.agents = nn.Buffer(torch.arange(n_agents))

    def forward(
        self, obs: Tensor, agent: Tensor, state: Tensor | None = None
    ) -> Tensor | tuple[Tensor, Tensor]:
        which = (agent[:, None] == self.agents).to(obs.dtype)
        told = torch.cat([obs[:, : self.own], which, obs[:, self.own :]], dim=1)
        return self.actor(told, state)


def _placed(actions: Distribution) -> FloatArray:
    """Return the middle, the half width, the lower and the upper bound of each output, float32
    [4, n_outputs]. Without bounds, these are 0, 1 and infinities."""
    if isinstance(actions, Joint):
        return np.concatenate(list(map(_placed, actions.parts)), axis=1)
    placed = np.tile(np.array([[0], [1], [-np.inf], [np.inf]], np.float32), actions.n_outputs)
    if isinstance(actions, DiagonalGaussian):
        if actions.middle:
            placed[:2] = actions.scale[:2]
        if actions.low:
            placed[2:] = _within(np.array(actions.low)), -_within(-np.array(actions.high))
    return placed


def _within(low: NDArray[np.float64]) -> FloatArray:
    """Return the smallest float32 numbers that are at least `low`."""
    with np.errstate(over="ignore"):
        nearest = low.astype(np.float32)
    return np.where(nearest < low, np.nextafter(nearest, np.float32(np.inf)), nearest)
