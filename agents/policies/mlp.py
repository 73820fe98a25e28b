"""The multilayer perceptron, on one observation or on the last ones. No torch."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from workflow_rl.agents.policies.distributions import FloatArray
from workflow_rl.agents.policies.network import Layers, MemoryNetwork, Network, Shape, hidden_layers

if TYPE_CHECKING:
    import torch

    from workflow_rl.agents.policies.torch_memory import StackedFrames


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

        from workflow_rl.agents.policies.torch_layers import ACTIVATIONS, Linear

        modules: list[nn.Module] = []
        for n_in, n_out in itertools.pairwise(self.sizes):
            is_last = len(modules) // 2 == len(self.hidden_sizes)
            linear = Linear(n_in, n_out)
            if generator is not None:
                gain = output_gain if is_last else 2**0.5
                nn.init.orthogonal_(linear.weight, gain, generator=generator)
                nn.init.zeros_(linear.bias)
            modules += [linear] if is_last else [linear, ACTIVATIONS[self.activation]()]
        return nn.Sequential(*modules)


@dataclass(frozen=True)
class FrameStack(MemoryNetwork):
    """An MLP on the last `frames` observations, oldest first; zeros stand for those before the
    episode. The state is the observations before the present one."""

    frames: int = 4
    kind = "frame-stack"

    def __post_init__(self) -> None:
        if type(self.frames) is not int or not 1 <= self.frames <= 1000:
            raise ValueError(f"frames={self.frames!r:.50} is no count from 1 to 1000")

    @classmethod
    def of_layers(cls, layers: Layers, activation: str, **args: Any) -> Self:
        mlp = MLP.of_layers(layers, activation)
        frames = args.get("frames", cls.frames)
        n_inputs = mlp.n_inputs // frames
        return cls(n_inputs, mlp.hidden_sizes, mlp.n_outputs, activation, **args)

    @property
    def memory_size(self) -> int:
        return (self.frames - 1) * self.n_inputs

    @property
    def burn_in(self) -> int:
        """See Network. The state is exact."""
        return self.frames - 1

    @property
    def mlp(self) -> MLP:
        """The network on all frames."""
        n_inputs = self.frames * self.n_inputs
        return MLP(n_inputs, self.hidden_sizes, self.n_outputs, self.activation)

    def shapes(self) -> list[tuple[Shape, Shape]]:
        return self.mlp.shapes()

    def names(self) -> list[tuple[str, str]]:
        return [(f"mlp.{weight}", f"mlp.{bias}") for weight, bias in self.mlp.names()]

    def step(
        self, layers: Layers, obs: FloatArray, state: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        stacked = np.concatenate([state, obs], axis=1)
        return self.mlp.forward(layers, stacked), stacked[:, self.n_inputs :]

    def module(self, output_gain: float, generator: torch.Generator | None) -> StackedFrames:
        from workflow_rl.agents.policies.torch_memory import StackedFrames

        return StackedFrames(self.mlp.module(output_gain, generator), self.memory_size)
