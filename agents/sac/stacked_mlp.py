"""Small multilayer perceptrons and Adam in NumPy, with hand-written gradients.

Off-policy learning has many small gradient steps. In such steps, torch spends most of the time on
dispatching operations. Several networks of equal sizes are computed together.
"""

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from workflow_rl.agents.policies.distributions import FloatArray
from workflow_rl.agents.policies.network import MLP, Layers

ACTIVATIONS: dict[str, Callable[[FloatArray], FloatArray]] = {
    "relu": lambda sums: np.maximum(sums, np.float32(0), out=sums),
    "tanh": lambda sums: np.tanh(sums, out=sums),
}
"""Each function works in place."""
SLOPES: dict[str, Callable[[FloatArray], NDArray[Any]]] = {
    "relu": lambda activated: activated > 0,
    "tanh": lambda activated: 1 - activated * activated,
}
"""The derivative of each activation, given its output."""


NORMAL_EPS = np.float32(1e-5)


class Normal(NamedTuple):
    """A hidden layer's normalised sums [N, B, out], with mean 0 and variance 1, and the inverse of
    the original standard deviations, [N, B, 1]."""

    sums: FloatArray
    inverse: FloatArray


class Pass(NamedTuple):
    """The results of a forward pass through the networks.

    layers: the inputs of each layer, and last the outputs [N, B, out]. normals: one for each hidden
    layer, or none without layer normalisation.
    """

    layers: list[FloatArray]
    normals: list[Normal]

    @property
    def outputs(self) -> FloatArray:
        return self.layers[-1]


class StackedMLP:
    """`N` networks of equal sizes, which begin with the weights of `modules`.

    flat: all weights and biases, float32 [P]. Each layer's weights [N, in, out] and biases [N, 1,
    out] are views of `flat`. layer_norm: whether each hidden layer's sums are normalised before its
    biases are added: Ba et al. 2016, "Layer Normalization", equation 4. The gain is 1, because
    the weights after a relu can replace a gain.
    """

    def __init__(
        self, network: MLP, modules: Sequence[nn.Module], layer_norm: bool = False
    ) -> None:
        self.network = network
        self.layer_norm = layer_norm
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
        """Copy a module's weights to network `n`."""
        for ours, theirs in zip(
            (self.weights, self.biases), self.network.layers(module.state_dict()), strict=True
        ):
            for array, values in zip(ours, theirs, strict=True):
                array[n] = values

    def write(self, module: nn.Module, n: int = 0) -> None:
        layers = Layers(tuple(w[n] for w in self.weights), tuple(b[n, 0] for b in self.biases))
        state = self.network.state(layers)
        module.load_state_dict({name: torch.from_numpy(array) for name, array in state.items()})

    def forward(self, x: FloatArray) -> Pass:
        """Pass inputs of the networks, [B, in] or [N, B, in], through all layers."""
        activation = ACTIVATIONS[self.network.activation]
        layers = [np.broadcast_to(x, (len(self.weights[0]), *x.shape[-2:]))]
        normals = []
        for k, (weight, bias) in enumerate(zip(self.weights, self.biases, strict=True)):
            outputs = layers[-1] @ weight
            is_hidden = k < len(self.weights) - 1
            if is_hidden and self.layer_norm:
                normals.append(_normal(outputs))
                outputs = outputs + bias
            else:
                outputs += bias
            layers.append(activation(outputs) if is_hidden else outputs)
        return Pass(layers, normals)

    def one(self, n: int, x: FloatArray) -> FloatArray:
        """Return the outputs [B, out] of network `n` for inputs [B, in], without `layer_norm`."""
        assert not self.layer_norm
        for k, (weight, bias) in enumerate(zip(self.weights, self.biases, strict=True)):
            x = x @ weight[n]
            x += bias[n]
            if k < len(self.weights) - 1:
                x = ACTIVATIONS[self.network.activation](x)
        return x

    def keep(self, n: int, kept: FloatArray) -> None:
        """Copy the weights of network `n` to `kept`, an array with the layout of `flat`."""
        views = itertools.chain(*self._views(kept))
        for mine, copy in zip([*self.weights, *self.biases], views, strict=True):
            copy[n] = mine[n]

    def __call__(self, x: FloatArray) -> FloatArray:
        """Return the outputs [N, B, out] for inputs [B, in] or [N, B, in]."""
        return self.forward(x).outputs

    def gradient(self, passed: Pass, of_outputs: FloatArray) -> FloatArray:
        """Return the gradient [P] of a loss by `flat`.

        passed: the result of `forward`. of_outputs: the loss's derivatives by the outputs, [N, B,
        out].
        """
        flat = np.empty_like(self.flat)
        weights, biases = self._views(flat)
        for k, at_sums, at_biases in self._backwards(passed, of_outputs):
            np.matmul(passed.layers[k].transpose(0, 2, 1), at_sums, out=weights[k])
            np.sum(at_biases, axis=1, keepdims=True, out=biases[k])
        return flat

    def input_gradient(self, passed: Pass, of_outputs: FloatArray) -> FloatArray:
        """Return the gradient of a loss by the inputs, [N, B, in]: see `gradient`."""
        *_, (_, at_first, _) = self._backwards(passed, of_outputs)
        gradient: FloatArray = at_first @ self.weights[0].transpose(0, 2, 1)
        return gradient

    def _backwards(
        self, passed: Pass, of_outputs: FloatArray
    ) -> Iterator[tuple[int, FloatArray, FloatArray]]:
        """Yield each layer's number, last to first, and the derivatives by the layer's sums without
        and with biases."""
        slope = SLOPES[self.network.activation]
        at_sums = at_biases = of_outputs
        for k in reversed(range(len(self.weights))):
            yield k, at_sums, at_biases
            if k:
                weights = self.weights[k].transpose(0, 2, 1)
                # For a single column, a matrix product would be slower than a multiplication.
                is_outer = weights.shape[1] == 1
                at_biases = at_sums * weights if is_outer else at_sums @ weights
                at_biases *= slope(passed.layers[k])
                at_sums = at_biases
                if passed.normals:
                    at_sums = _before_normal(passed.normals[k - 1], at_biases)


def _normal(sums: FloatArray) -> Normal:
    """Normalise sums [N, B, out] in place."""
    n = np.float32(sums.shape[-1])
    sums -= sums.sum(axis=-1, keepdims=True) / n
    variance = np.einsum("nbo,nbo->nb", sums, sums)[..., None] / n
    inverse = 1 / np.sqrt(variance + NORMAL_EPS)
    sums *= inverse
    return Normal(sums, inverse)


def _before_normal(normal: Normal, derivatives: FloatArray) -> FloatArray:
    """Return the derivatives by the original sums from derivatives by the normalised sums."""
    n = np.float32(derivatives.shape[-1])
    mean = derivatives.sum(axis=-1, keepdims=True) / n
    along = np.einsum("nbo,nbo->nb", derivatives, normal.sums)[..., None] / n
    return (derivatives - mean - normal.sums * along) * normal.inverse


@dataclass(eq=False)
class NumpyAdam:
    """Adam: Kingma and Ba 2015, "Adam: A Method for Stochastic Optimization", algorithm 1.

    With `weight_decay`, AdamW: Loshchilov and Hutter 2019, "Decoupled Weight Decay Regularization".
    """

    parameters: FloatArray
    learning_rate: float
    eps: float = 1e-8
    weight_decay: float = 0.0

    def __post_init__(self) -> None:
        self.n_steps = 0
        self.mean = np.zeros_like(self.parameters)
        self.square = np.zeros_like(self.parameters)

    def step(self, gradient: FloatArray) -> None:
        """Change the parameters in place by a gradient step."""
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
        state = {name: torch.from_numpy(moment.copy()) for name, moment in moments.items()}
        return {"n_steps": self.n_steps, **state}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from a `state_dict()`. Raises KeyError or ValueError for a wrong state."""
        n_steps = state["n_steps"]
        if type(n_steps) is not int or not 0 <= n_steps < 2**53:
            raise ValueError(f"{n_steps} is no number of gradient steps")
        self.n_steps = n_steps
        fill_array(self.mean, state["mean"])
        fill_array(self.square, state["square"])


BETAS = (0.9, 0.999)


def fill_array(array: FloatArray, saved: torch.Tensor) -> None:
    """Fill an array from a tensor of its shape. Raises ValueError for other values."""
    if not isinstance(saved, torch.Tensor) or saved.dtype != torch.float32:
        raise ValueError("what it has learned was saved by another version")
    if array.shape != saved.shape:
        raise ValueError(f"{tuple(saved.shape)} numbers for {array.shape}")
    if not saved.isfinite().all():
        raise ValueError("some of its numbers are not finite")
    array[...] = saved.numpy()
