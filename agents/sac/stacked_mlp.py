"""Small multilayer perceptrons and Adam in NumPy, with gradients written out.

Off-policy learning takes many small gradient steps, in which torch spends most of the time on
dispatching operations. Several networks of the same sizes are computed together.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from agents.policies.distributions import FloatArray
from agents.policies.networks import MLP, Layers

ACTIVATIONS: dict[str, Callable[[FloatArray], FloatArray]] = {
    "relu": lambda sums: np.maximum(sums, np.float32(0), out=sums),
    "tanh": lambda sums: np.tanh(sums, out=sums),
}
"""Each works in place."""
SLOPES: dict[str, Callable[[FloatArray], NDArray[Any]]] = {
    "relu": lambda activated: activated > 0,
    "tanh": lambda activated: 1 - activated * activated,
}
"""The derivative of each activation, given its output."""


class StackedMLP:
    """`N` networks of the same sizes, which begin with the weights of `modules`.

    flat: all weights and biases, float32 [P]; weights [N, in, out] and biases [N, 1, out] of each
    layer are views of it.
    """

    def __init__(self, network: MLP, modules: Sequence[nn.Module]) -> None:
        self.network = network
        self._shapes = [
            (len(modules), *shape)
            for weight, (n_out,) in network.shapes()
            for shape in (weight, (1, n_out))
        ]
        self.flat = np.empty(sum(map(np.prod, self._shapes)), np.float32)
        self.weights, self.biases = self._views(self.flat)
        for n, module in enumerate(modules):
            self.read(module, n)

    def _views(self, flat: FloatArray) -> tuple[list[FloatArray], list[FloatArray]]:
        """Return the weights and the biases of all layers, as views of an array like `flat`."""
        ends = np.cumsum([0, *map(np.prod, self._shapes)])
        views = [
            flat[start:end].reshape(shape)
            for (start, end), shape in zip(itertools.pairwise(ends), self._shapes, strict=True)
        ]
        return views[::2], views[1::2]

    def read(self, module: nn.Module, n: int = 0) -> None:
        """Take a module's weights for number `n`."""
        for ours, theirs in zip(
            (self.weights, self.biases), self.network.layers(module.state_dict()), strict=True
        ):
            for array, values in zip(ours, theirs, strict=True):
                array[n] = values

    def write(self, module: nn.Module, n: int = 0) -> None:
        """Give a module the weights of number `n`."""
        layers = Layers(tuple(w[n] for w in self.weights), tuple(b[n, 0] for b in self.biases))
        state = self.network.state(layers)
        module.load_state_dict({name: torch.from_numpy(one) for name, one in state.items()})

    def forward(self, x: FloatArray) -> list[FloatArray]:
        """Return the inputs of each layer, and last the outputs [N, B, out].

        x: inputs of the network, [B, in] or [N, B, in].
        """
        activation = ACTIVATIONS[self.network.activation]
        layers = [np.broadcast_to(x, (len(self.weights[0]), *x.shape[-2:]))]
        for k, (weight, bias) in enumerate(zip(self.weights, self.biases, strict=True)):
            outputs = layers[-1] @ weight
            outputs += bias
            layers.append(activation(outputs) if k < len(self.weights) - 1 else outputs)
        return layers

    def one(self, n: int, x: FloatArray) -> FloatArray:
        """Return the outputs [B, out] of network `n` for inputs [B, in]."""
        for k, (weight, bias) in enumerate(zip(self.weights, self.biases, strict=True)):
            x = x @ weight[n]
            x += bias[n]
            if k < len(self.weights) - 1:
                x = ACTIVATIONS[self.network.activation](x)
        return x

    def keep(self, n: int, kept: FloatArray) -> None:
        """Copy the weights of network `n` to their places in `kept`, an array like `flat`."""
        views = itertools.chain(*self._views(kept))
        for mine, copy in zip([*self.weights, *self.biases], views, strict=True):
            copy[n] = mine[n]

    def __call__(self, x: FloatArray) -> FloatArray:
        """Return the outputs [N, B, out] for inputs [B, in] or [N, B, in]."""
        return self.forward(x)[-1]

    def gradient(self, layers: Sequence[FloatArray], of_outputs: FloatArray) -> FloatArray:
        """Return the gradient [P] of a loss by `flat`.

        layers: from `forward`. of_outputs: the loss's derivatives by the outputs, [N, B, out].
        """
        flat = np.empty_like(self.flat)
        weights, biases = self._views(flat)
        for k, at_layer in self._backwards(layers, of_outputs):
            np.matmul(layers[k].transpose(0, 2, 1), at_layer, out=weights[k])
            np.sum(at_layer, axis=1, keepdims=True, out=biases[k])
        return flat

    def input_gradient(self, layers: Sequence[FloatArray], of_outputs: FloatArray) -> FloatArray:
        """Return the gradient of a loss by the inputs, [N, B, in]: see `gradient`."""
        *_, (_, at_first) = self._backwards(layers, of_outputs)
        gradient: FloatArray = at_first @ self.weights[0].transpose(0, 2, 1)
        return gradient

    def _backwards(
        self, layers: Sequence[FloatArray], of_outputs: FloatArray
    ) -> Iterator[tuple[int, FloatArray]]:
        """Yield each layer's number, last to first, and the derivatives by the layer's sums."""
        slope, at_layer = SLOPES[self.network.activation], of_outputs
        for k in reversed(range(len(self.weights))):
            yield k, at_layer
            if k:
                at_layer = at_layer @ self.weights[k].transpose(0, 2, 1)
                at_layer *= slope(layers[k])


class Adam:
    """Adam: Kingma and Ba 2015, "Adam: A Method for Stochastic Optimization", algorithm 1.

    With `weight_decay`, AdamW: Loshchilov and Hutter 2019, "Decoupled Weight Decay Regularization".
    """

    def __init__(
        self,
        parameters: FloatArray,
        learning_rate: float,
        eps: float = 1e-8,
        weight_decay: float = 0.0,
    ) -> None:
        self.parameters = parameters
        self.learning_rate = learning_rate
        self.eps = eps
        self.weight_decay = weight_decay
        self.n_steps = 0
        self.mean = np.zeros_like(parameters)
        self.square = np.zeros_like(parameters)

    def step(self, gradient: FloatArray) -> None:
        """Make a gradient step: change the parameters in place."""
        self.n_steps += 1
        if self.weight_decay:
            self.parameters *= 1 - self.learning_rate * self.weight_decay
        self.mean += (1 - BETAS[0]) * (gradient - self.mean)
        self.square += (1 - BETAS[1]) * (gradient * gradient - self.square)
        unbiased = [1 - beta**self.n_steps for beta in BETAS]
        divisor = np.sqrt(self.square)
        divisor /= unbiased[1] ** 0.5
        divisor += self.eps
        self.parameters -= self.learning_rate / unbiased[0] * self.mean / divisor

    def state_dict(self) -> dict[str, Any]:
        """Return a copy of the moments, as tensors, and the number of steps."""
        moments = {"mean": self.mean, "square": self.square}
        state = {name: torch.from_numpy(one.copy()) for name, one in moments.items()}
        return {"n_steps": self.n_steps, **state}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from a `state_dict()`. Raises KeyError or ValueError if it does not fit."""
        n_steps = state["n_steps"]
        if type(n_steps) is not int or not 0 <= n_steps < 2**53:
            raise ValueError(f"{n_steps} is no number of gradient steps")
        self.n_steps = n_steps
        load(self.mean, state["mean"])
        load(self.square, state["square"])


BETAS = (0.9, 0.999)


def load(array: FloatArray, saved: torch.Tensor) -> None:
    """Fill an array from a tensor of its shape. Raises ValueError for other values."""
    if not isinstance(saved, torch.Tensor) or saved.dtype != torch.float32:
        raise ValueError("what it has learned was saved by another version")
    if array.shape != saved.shape:
        raise ValueError(f"{tuple(saved.shape)} numbers for {array.shape}")
    if not saved.isfinite().all():
        raise ValueError("some of its numbers are not finite")
    array[...] = saved.numpy()
