"""Against torch's autograd and torch's Adam."""

import copy

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional

from workflow_rl.agents.policies.network import MLP
from workflow_rl.agents.sac.stacked_mlp import NumpyAdam, StackedMLP, fill_array


def network(activation: str = "relu") -> MLP:
    return MLP(3, (8, 5), 2, activation)


def modules(count: int, activation: str = "relu", seed: int = 0) -> list[nn.Sequential]:
    generator = torch.Generator().manual_seed(seed)
    made = [network(activation).module(1.0, generator) for _ in range(count)]
    for module in made:
        for parameter in module.parameters():
            parameter.data += 0.1 * torch.randn(parameter.shape, generator=generator)
    return made


def inputs(*shape: int) -> np.ndarray:
    return np.random.default_rng(0).standard_normal(shape, dtype=np.float32)


def normalised(module: nn.Sequential, x: torch.Tensor) -> torch.Tensor:
    """Return the outputs of a network whose hidden layers are normalised before the biases."""
    *hidden, last = module
    for layer in hidden:
        if isinstance(layer, nn.Linear):
            sums = x @ layer.weight.T
            x = functional.layer_norm(sums, sums.shape[-1:]) + layer.bias
        else:
            x = layer(x)
    outputs: torch.Tensor = last(x)
    return outputs


@pytest.mark.parametrize("activation", ["relu", "tanh"])
@pytest.mark.parametrize("shape", [(7, 3), (2, 7, 3)])
@pytest.mark.parametrize("layer_norm", [False, True])
def test_outputs_and_gradients_are_torchs(
    activation: str, shape: tuple[int, ...], layer_norm: bool
) -> None:
    pair, x = modules(2, activation), inputs(*shape)
    of_outputs = np.random.default_rng(1).standard_normal((2, 7, 2), dtype=np.float32)
    ours = StackedMLP(network(activation), pair, layer_norm)

    passed = ours.forward(x)
    gradient, by_inputs = (
        ours.gradient(passed, of_outputs),
        ours.input_gradient(passed, of_outputs),
    )

    seen = torch.from_numpy(np.broadcast_to(x, (2, 7, 3)).copy()).requires_grad_()
    of_torch = normalised if layer_norm else nn.Module.__call__
    outputs = torch.stack([of_torch(module, seen[n]) for n, module in enumerate(pair)])
    (outputs * torch.from_numpy(of_outputs)).sum().backward()
    np.testing.assert_allclose(passed.outputs, outputs.detach(), atol=1e-5)
    np.testing.assert_allclose(by_inputs, seen.grad, atol=1e-5)
    theirs = copy.deepcopy(pair)
    for module, source in zip(theirs, pair, strict=True):
        for parameter, of in zip(module.parameters(), source.parameters(), strict=True):
            parameter.data = of.grad
    np.testing.assert_allclose(gradient, StackedMLP(network(activation), theirs).flat, atol=1e-5)


def test_one_of_them_is_the_same_alone() -> None:
    ours, x = StackedMLP(network(), modules(3)), inputs(7, 3)
    for n in range(3):
        np.testing.assert_allclose(ours.one(n, x), ours(x)[n], atol=1e-6)


def test_the_weights_of_one_are_kept() -> None:
    before, after = StackedMLP(network(), modules(2)), StackedMLP(network(), modules(2, seed=9))
    x, expected = inputs(4, 3), [before(inputs(4, 3))[0], after(inputs(4, 3))[1]]
    after.keep(1, before.flat)
    np.testing.assert_array_equal(before(x), expected)


@pytest.mark.parametrize("weight_decay", [0.0, 0.1])
def test_adam_is_torchs(weight_decay: float) -> None:
    start, gradients = inputs(20), np.random.default_rng(1).normal(size=(5, 20))
    ours, theirs = start.copy(), torch.from_numpy(start.copy()).requires_grad_()
    adam = NumpyAdam(ours, 0.1, eps=1e-3, weight_decay=weight_decay)
    torchs = torch.optim.AdamW([theirs], lr=0.1, eps=1e-3, weight_decay=weight_decay)
    for gradient in gradients.astype(np.float32):
        adam.step(gradient)
        theirs.grad = torch.from_numpy(gradient)
        torchs.step()
    np.testing.assert_allclose(ours, theirs.detach(), rtol=1e-4, atol=1e-6)


def test_numbers_of_another_shape_are_refused() -> None:
    with pytest.raises(ValueError, match="numbers"):
        fill_array(np.zeros(3, np.float32), torch.zeros(4))
