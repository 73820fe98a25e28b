"""The multilayer perceptron. No torch."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any, Self

from workflow_rl.agents.policies.distributions import FloatArray
from workflow_rl.agents.policies.network import Layers, Network, Shape, hidden_layers

if TYPE_CHECKING:
    import torch


class MLP(Network):
    """A multilayer perceptron: weights [in, out] and biases [out]."""

    kind = "mlp"

    @classmethod
    def of_layers(cls, layers: Layers, activation: str, **args: Any) -> Self:
        *hidden, n_outputs = (len(bias) for bias in layers.biases)
        return cls(len(layers.weights[0]), tuple(hidden), n_outputs, activation, **args)

    @property
    def sizes(self) -> list[int]:
        """Numbers between the layers, from the inputs to the outputs."""
        return [self.n_inputs, *self.hidden_sizes, self.n_outputs]

    def shapes(self) -> list[tuple[Shape, Shape]]:
        return [((n_in, n_out), (n_out,)) for n_in, n_out in itertools.pairwise(self.sizes)]

    def names(self) -> list[tuple[str, str]]:
        places = (2 * n for n in range(len(self.hidden_sizes) + 1))  # Activations are between.
        return [(f"{place}.weight", f"{place}.bias") for place in places]

    def forward(self, layers: Layers, obs: FloatArray) -> FloatArray:
        weights, biases = layers
        hidden = hidden_layers(weights[:-1], biases[:-1], self.activation, obs[:, None, :])
        outputs: FloatArray = (hidden @ weights[-1] + biases[-1])[:, 0, :]
        return outputs

    def module(self, output_gain: float, generator: torch.Generator | None) -> torch.nn.Sequential:
        """See Network.

        Orthogonal weights (gain sqrt(2), `output_gain` for the last layer) and zero biases, the
        initialisation that Andrychowicz et al. 2021, section 3.2, found best for PPO.
        """
        from torch import nn

        from workflow_rl.agents.policies.torch_layers import ACTIVATIONS, Linear, draw_weights

        modules: list[nn.Module] = []
        for n_in, n_out in itertools.pairwise(self.sizes):
            is_last = len(modules) // 2 == len(self.hidden_sizes)
            linear = Linear(n_in, n_out)
            draw_weights(linear, output_gain if is_last else 2**0.5, generator)
            modules += [linear] if is_last else [linear, ACTIVATIONS[self.activation]()]
        return nn.Sequential(*modules)
