"""A convolutional network as a torch module, for the learner."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from workflow_rl.agents.policies.torch_layers import draw_weights

if TYPE_CHECKING:
    from workflow_rl.agents.policies.convolutional import CNN


class _Conv2d(nn.Conv2d):
    def reset_parameters(self) -> None:
        """Leave the parameters as they are: nn.Conv2d would use torch's global generator."""


class ConvolutionalModule(nn.Module):
    """See `convolutional.CNN`. Observations may be bytes.

    generator: see `torch_layers.draw_weights`. output_gain: the scale of the last weights.
    """

    numbers: Tensor

    def __init__(self, network: CNN, output_gain: float, generator: torch.Generator | None) -> None:
        super().__init__()
        self.layout = network.images
        # The layout is kept elsewhere.
        self.register_buffer("numbers", torch.from_numpy(self.layout.numbers), persistent=False)
        self.images = nn.ModuleList()
        for image in self.layout.images:
            layers: list[nn.Module] = []
            channels = image.channels
            for filters, size, stride in network.convolutions_of(image):
                convolution = _Conv2d(channels, filters, size, stride)
                draw_weights(convolution, 2**0.5, generator)
                layers += [convolution, nn.ReLU()]
                channels = filters
            self.images.append(nn.Sequential(*layers))
        self.mlp = network.mlp.module(output_gain, generator)

    def forward(self, obs: Tensor) -> Tensor:
        """Return the outputs [B, n_outputs] of observations [B, n_inputs]."""
        parts = []
        for image, convolutions in zip(self.layout.images, self.images, strict=True):
            pixels = obs[:, image.columns].reshape(obs.shape[0], *image.shape).float()
            # Channels that are last stay so in memory, for which there are faster kernels.
            pixels = pixels if image.channels_first else pixels.permute(0, 3, 1, 2)
            parts.append(convolutions(pixels / image.divisor).flatten(1))
        if len(self.layout.numbers):
            parts.append(obs[:, self.numbers].float())
        outputs: Tensor = self.mlp(torch.cat(parts, dim=1))
        return outputs
