"""A multilayer perceptron on the last observations of an episode. No torch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from workflow_rl.agents.policies.distributions import FloatArray
from workflow_rl.agents.policies.mlp import MLP
from workflow_rl.agents.policies.network import Layers, MemoryNetwork, Shape

if TYPE_CHECKING:
    import torch

    from workflow_rl.agents.policies.torch_memory import StackedFrames


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
