"""Kinds of networks: one description each, which workers, the learner and files share. No torch."""

from __future__ import annotations

import itertools
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, NamedTuple, Self, TypeAlias

import numpy as np

from agents.policies.distributions import FloatArray

if TYPE_CHECKING:
    import torch

Shape: TypeAlias = tuple[int, ...]


def relu(x: FloatArray) -> FloatArray:
    """max(x, 0), elementwise."""
    return np.maximum(x, np.float32(0))


ACTIVATIONS: dict[str, Callable[[FloatArray], FloatArray]] = {"tanh": np.tanh, "relu": relu}


class Layers(NamedTuple):
    """The arrays of a network, float32: a weight and a bias of each layer, first to last."""

    weights: tuple[FloatArray, ...]
    biases: tuple[FloatArray, ...]


@dataclass(frozen=True)
class Network(ABC):
    """A network from observations to outputs: its sizes and its activation. A kind derives from it.

    kind: the name in files and of `--network`.
    """

    n_inputs: int
    hidden_sizes: tuple[int, ...]
    n_outputs: int
    activation: str
    kind: ClassVar[str]

    @classmethod
    @abstractmethod
    def of_layers(cls, layers: Layers, activation: str) -> Self:
        """Return the description of a network with these arrays, which may not fit together."""

    @abstractmethod
    def shapes(self) -> list[tuple[Shape, Shape]]:
        """Return the shapes of each layer's weight and bias, as in Layers."""

    @abstractmethod
    def names(self) -> list[tuple[str, str]]:
        """Return the torch module's names of each layer's weight, transposed there, and bias."""

    @abstractmethod
    def forward(self, layers: Layers, obs: FloatArray) -> FloatArray:
        """Return the outputs [N, n_outputs] for observations [N, n_inputs].

        The outputs of an observation must be the same bits whatever N is.
        """

    @abstractmethod
    def module(self, output_gain: float, generator: torch.Generator | None) -> torch.nn.Module:
        """Return a torch module [B, n_inputs] -> [B, n_outputs]. Imports torch.

        output_gain: scale of the last layer's initial weights. generator: draws the initial
        weights; None leaves them uninitialised, for weights that are loaded next.
        """

    def fits(self, layers: Layers) -> bool:
        """Whether arrays have this network's shapes."""
        shapes = [(w.shape, b.shape) for w, b in zip(*layers, strict=True)]
        return shapes == self.shapes()

    def layers(self, state: Mapping[str, torch.Tensor]) -> Layers:
        """Return a copy of a torch module's `state_dict()`. Raises KeyError."""

        def copied(name: str) -> FloatArray:
            return state[name].detach().cpu().numpy().T.copy(order="C")

        weights, biases = zip(*self.names(), strict=True)
        return Layers(tuple(map(copied, weights)), tuple(map(copied, biases)))

    def state(self, layers: Layers) -> dict[str, FloatArray]:
        """Return the inverse of `layers`, as arrays."""
        names = itertools.chain.from_iterable(self.names())
        arrays = itertools.chain.from_iterable(zip(*layers, strict=True))
        return {name: array.T.copy() for name, array in zip(names, arrays, strict=True)}


class MLP(Network):
    """A multilayer perceptron: weights [in, out] and biases [out]."""

    kind = "mlp"

    @classmethod
    def of_layers(cls, layers: Layers, activation: str) -> Self:
        """See Network."""
        *hidden, n_outputs = (len(bias) for bias in layers.biases)
        return cls(len(layers.weights[0]), tuple(hidden), n_outputs, activation)

    @property
    def sizes(self) -> list[int]:
        """Numbers between the layers, from the inputs to the outputs."""
        return [self.n_inputs, *self.hidden_sizes, self.n_outputs]

    def shapes(self) -> list[tuple[Shape, Shape]]:
        """See Network."""
        return [((n_in, n_out), (n_out,)) for n_in, n_out in itertools.pairwise(self.sizes)]

    def names(self) -> list[tuple[str, str]]:
        """See Network."""
        places = (2 * n for n in range(len(self.hidden_sizes) + 1))  # Activations are between.
        return [(f"{place}.weight", f"{place}.bias") for place in places]

    def forward(self, layers: Layers, obs: FloatArray) -> FloatArray:
        """See Network.

        Each row is a vector-matrix product of its own. For a plain [N, in] @ [in, out], the BLAS
        would sum in another order for another N, and a run would depend on how many envs share a
        pass.
        """
        weights, biases = layers
        activation = ACTIVATIONS[self.activation]
        hidden = obs[:, None, :]
        for weight, bias in zip(weights[:-1], biases[:-1], strict=True):
            hidden = activation(hidden @ weight + bias)
        outputs: FloatArray = (hidden @ weights[-1] + biases[-1])[:, 0, :]
        return outputs

    def module(self, output_gain: float, generator: torch.Generator | None) -> torch.nn.Sequential:
        """See Network.

        Orthogonal weights (gain sqrt(2), `output_gain` for the last layer) and zero biases, the
        initialisation that Andrychowicz et al. 2021, section 3.2, found best for PPO.
        """
        from torch import nn

        from agents.policies.torch_layers import ACTIVATIONS, Linear

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


NETWORKS: dict[str, type[Network]] = {MLP.kind: MLP}
"""By their kinds."""


def register(network: type[Network]) -> None:
    """Make a kind of network known by its name."""
    NETWORKS[network.kind] = network
