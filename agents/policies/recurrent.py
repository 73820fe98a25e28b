"""Networks with a memory: GRU and LSTM as the last hidden layer, and an MLP on the last
observations of an episode. Imports no torch."""

from __future__ import annotations

import itertools
from abc import abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from workflow_rl.agents.policies.distributions import FloatArray
from workflow_rl.agents.policies.network import MLP, Layers, MemoryNetwork, Shape, hidden_layers

if TYPE_CHECKING:
    import torch

    from workflow_rl.agents.policies.torch_memory import Recurrent, StackedFrames


def sigmoid(x: FloatArray) -> FloatArray:
    """Return 1 / (1 + exp(-x)), elementwise, without overflow."""
    half = np.float32(0.5)
    return half * np.tanh(half * x) + half


@dataclass(frozen=True)
class RecurrentNetwork(MemoryNetwork):
    """Hidden layers and a linear output layer. The last hidden layer has `H` numbers and a memory.

    The arrays are, in order: the layers before the last hidden layer, the gates' inputs [in,
    G * H], the gates' memory [H, G * H], and the outputs.

    gates: `G`. seen_again: the number of observations before an unroll from which the unroll's
    weights recompute the state, beginning with zeros. So a state never depends on older weights,
    but only on the episode.
    """

    seen_again: int = 64
    gates: ClassVar[int]

    def __post_init__(self) -> None:
        if not self.hidden_sizes:
            raise ValueError(f"{self.kind} needs at least one hidden layer")
        if type(self.seen_again) is not int or not 0 <= self.seen_again <= 10_000:
            raise ValueError(f"seen_again={self.seen_again!r:.50} is no count up to 10000")

    @classmethod
    def of_layers(cls, layers: Layers, activation: str, **args: Any) -> Self:
        *encoder, _, _, outputs = (len(bias) for bias in layers.biases)
        sizes = (*encoder, len(layers.weights[-2]))
        return cls(len(layers.weights[0]), sizes, outputs, activation, **args)

    @property
    def burn_in(self) -> int:
        return self.seen_again

    @property
    def width(self) -> int:
        """The number `H` of the class docstring."""
        return self.hidden_sizes[-1]

    def shapes(self) -> list[tuple[Shape, Shape]]:
        before = [self.n_inputs, *self.hidden_sizes[:-1]]
        of_gates = self.gates * self.width
        pairs = [
            *itertools.pairwise(before),
            (before[-1], of_gates),
            (self.width, of_gates),
            (self.width, self.n_outputs),
        ]
        return [((n_in, n_out), (n_out,)) for n_in, n_out in pairs]

    def names(self) -> list[tuple[str, str]]:
        encoder = [f"encoder.{2 * n}" for n in range(len(self.hidden_sizes) - 1)]
        places = [*encoder, "inputs", "memory", "outputs"]
        return [(f"{place}.weight", f"{place}.bias") for place in places]

    def step(
        self, layers: Layers, obs: FloatArray, state: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        weights, biases = layers
        x = hidden_layers(weights[:-3], biases[:-3], self.activation, obs[:, None, :])
        hidden = np.ascontiguousarray(state[:, : self.width])
        inputs = (x @ weights[-3] + biases[-3])[:, 0]
        memory = (hidden[:, None, :] @ weights[-2] + biases[-2])[:, 0]
        state = self.next_state(inputs, memory, state)
        hidden = np.ascontiguousarray(state[:, : self.width])
        outputs: FloatArray = (hidden[:, None, :] @ weights[-1] + biases[-1])[:, 0]
        return outputs, state

    @abstractmethod
    def next_state(self, inputs: FloatArray, memory: FloatArray, state: FloatArray) -> FloatArray:
        """Return the next states [N, S]. Their first H numbers are the hidden layer.

        inputs, memory: [N, G * H], the summands of the gates from the inputs and from the hidden
        layer. state: [N, S], the previous states.
        """

    def module(self, output_gain: float, generator: torch.Generator | None) -> Recurrent:
        """See Network.

        Weights are orthogonal in each gate. Biases are as in Tallec and Ollivier 2018, "Can
        recurrent neural networks warp time?", section 2: initially, numbers in the memory last from
        a few to `LONGEST` steps.
        """
        from workflow_rl.agents.policies import torch_memory

        kind: type[Recurrent] = getattr(torch_memory, f"{type(self).__name__}Module")
        made = kind(self)
        if generator is not None:
            made.begin(output_gain, generator)
        return made


class GRU(RecurrentNetwork):
    """Gated recurrent units, Cho et al. 2014, in the form of torch.nn.GRU.

    The gates are reset, update and new. The state is the hidden layer.
    """

    kind = "gru"
    gates = 3

    @property
    def memory_size(self) -> int:
        return self.width

    def next_state(self, inputs: FloatArray, memory: FloatArray, state: FloatArray) -> FloatArray:
        both = 2 * self.width
        gates = sigmoid(inputs[:, :both] + memory[:, :both])
        reset, update = gates[:, : self.width], gates[:, self.width :]
        new = np.tanh(inputs[:, both:] + reset * memory[:, both:])
        return new + update * (state - new)


class LSTM(RecurrentNetwork):
    """Long short-term memory, Hochreiter and Schmidhuber 1997, in the form of torch.nn.LSTM.

    The gates are input, forget, output and new. The state is the hidden layer and the cells.
    """

    kind = "lstm"
    gates = 4

    @property
    def memory_size(self) -> int:
        return 2 * self.width

    def next_state(self, inputs: FloatArray, memory: FloatArray, state: FloatArray) -> FloatArray:
        width = self.width
        total = inputs + memory
        gates = sigmoid(total[:, : 3 * width])
        new = np.tanh(total[:, 3 * width :])
        kept, forgotten = gates[:, :width], gates[:, width : 2 * width]
        cells = forgotten * state[:, width:] + kept * new
        return np.concatenate([gates[:, 2 * width :] * np.tanh(cells), cells], axis=1)


@dataclass(frozen=True)
class FrameStack(MemoryNetwork):
    """An MLP on the last `frames` observations, oldest first. Zeros replace observations before the
    episode. The state is the previous observations."""

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
        return self.frames - 1

    @property
    def mlp(self) -> MLP:
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
