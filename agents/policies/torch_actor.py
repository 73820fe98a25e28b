"""A policy's actor as a torch module, for the file formats that torch writes."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from agents.policies.numpy_policy import OBS_LIMIT, PolicyParameters


class TorchActor(nn.Module):
    """Maps observations to what the distribution takes, float32 [B, D] -> [B, n_outputs].

    The observations are as the environment shows them. The outputs are logits, or the means of
    continuous actions (of a SquashedGaussian: means and log standard deviations, before squashing).
    """

    def __init__(self, parameters: PolicyParameters) -> None:
        super().__init__()
        network = parameters.described()
        self.network = network.module(1.0, None).eval()
        state = network.state(parameters.layers)
        self.network.load_state_dict({name: torch.from_numpy(one) for name, one in state.items()})
        mean, scale = parameters.obs_mean, parameters.obs_scale
        self.is_normalised = mean is not None and scale is not None
        self.obs_mean = nn.Buffer(torch.zeros(0) if mean is None else torch.from_numpy(mean.copy()))
        self.obs_scale = nn.Buffer(
            torch.ones(0) if scale is None else torch.from_numpy(scale.copy())
        )

    def forward(self, obs: Tensor) -> Tensor:
        """Return the outputs for observations."""
        if self.is_normalised:
            limit = float(OBS_LIMIT)
            obs = ((obs - self.obs_mean) * self.obs_scale).clamp(-limit, limit)
        outputs: Tensor = self.network(obs)
        return outputs
