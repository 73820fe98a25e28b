from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from workflow_rl.agents.policies.actor_critic import ActorCritic
from workflow_rl.agents.policies.distributions import Categorical
from workflow_rl.agents.policies.numpy_policy import PolicyParameters
from workflow_rl.agents.policies.torch_layers import Linear

HIDDEN_SIZES = (8, 7)


def network(seed: int = 0, activation: str = "tanh") -> ActorCritic:
    return ActorCritic(5, Categorical(3), HIDDEN_SIZES, activation, seed)


def linears(part: nn.Module) -> list[nn.Linear]:
    return [layer for layer in part.modules() if isinstance(layer, nn.Linear)]


def test_shapes() -> None:
    logits, value = network()(torch.zeros(11, 5))
    assert logits.shape == (11, 3)
    assert value.shape == (11,)
    sizes = [(layer.in_features, layer.out_features) for layer in linears(network())]
    assert sizes == [(5, 8), (8, 7), (7, 3), (5, 8), (8, 7), (7, 1)]


def test_without_hidden_layers_the_logits_are_linear_in_the_observation() -> None:
    linear = ActorCritic(5, Categorical(3), (), "tanh", 0)
    obs = torch.eye(5)
    logits, _ = linear(obs)
    doubled, _ = linear(2 * obs)
    assert torch.equal(doubled, 2 * logits)


@pytest.mark.parametrize(("activation", "layer"), [("tanh", nn.Tanh), ("relu", nn.ReLU)])
def test_the_activation_stands_between_the_layers_and_not_after_the_last(
    activation: str, layer: type[nn.Module]
) -> None:
    chosen = network(activation=activation)
    for part in (chosen.actor, chosen.critic):
        expected = [Linear, layer, Linear, layer, Linear]
        assert [type(module) for module in part] == expected


def test_actor_and_critic_share_no_parameters() -> None:
    both = network()
    logits, value = both(torch.ones(4, 5))
    value.sum().backward()
    assert all(parameter.grad is None for parameter in both.actor.parameters())
    assert all(parameter.grad is not None for parameter in both.critic.parameters())
    both.zero_grad()
    logits.square().sum().backward()
    assert all(parameter.grad is None for parameter in both.critic.parameters())
    assert all(parameter.grad is not None for parameter in both.actor.parameters())
    assert not torch.equal(linears(both.actor)[0].weight, linears(both.critic)[0].weight)


def test_initial_weights_are_orthogonal_with_the_given_gains_and_biases_are_zero() -> None:
    both = ActorCritic(6, Categorical(4), (6, 6), "tanh", 0)
    for part, output_gain in ((both.actor, 0.01), (both.critic, 1.0)):
        layers = linears(part)
        for layer, gain in zip(layers, [2**0.5, 2**0.5, output_gain], strict=True):
            identity = gain**2 * torch.eye(layer.out_features)
            torch.testing.assert_close(layer.weight @ layer.weight.T, identity)
            assert layer.bias.tolist() == [0.0] * layer.out_features


def test_the_seed_alone_determines_the_weights() -> None:
    first, other = network(seed=1), network(seed=2)
    torch.manual_seed(99)
    again = network(seed=1)
    for a, b in zip(first.parameters(), again.parameters(), strict=True):
        assert torch.equal(a, b)
    for layer, other_layer in zip(linears(first), linears(other), strict=True):
        assert not torch.equal(layer.weight, other_layer.weight)


def test_construction_leaves_torchs_global_generator_alone() -> None:
    before = torch.get_rng_state()
    network()
    assert torch.equal(torch.get_rng_state(), before)


def weights_and_biases(parameters: PolicyParameters) -> list[bytes]:
    return [array.tobytes() for array in (*parameters.weights, *parameters.biases)]


def test_policy_parameters_are_the_actors_in_the_layout_workers_expect() -> None:
    both = network(activation="relu")
    parameters = both.policy_parameters()
    assert parameters.activation == "relu"
    assert [weight.shape for weight in parameters.weights] == [(5, 8), (8, 7), (7, 3)]
    assert [bias.shape for bias in parameters.biases] == [(8,), (7,), (3,)]
    for weight, layer in zip(parameters.weights, linears(both.actor), strict=True):
        assert weight.dtype == np.float32
        assert weight.flags.c_contiguous
        assert weight.tolist() == layer.weight.T.tolist()


def test_policy_parameters_are_a_copy() -> None:
    both = network()
    parameters = both.policy_parameters()
    before = weights_and_biases(parameters)
    with torch.no_grad():
        for parameter in both.parameters():
            parameter.add_(1)
    assert weights_and_biases(parameters) == before
    assert weights_and_biases(both.policy_parameters()) != before

    for array in (*parameters.weights, *parameters.biases):
        array[:] = 9
    assert not any((parameter == 9).any() for parameter in both.parameters())


def test_numpys_product_is_torchs(monkeypatch) -> None:
    """To rounding, forwards and backwards; MKL_CBWR chooses between them."""
    results = []
    for mode in ("AVX2", "COMPATIBLE"):
        monkeypatch.setenv("MKL_CBWR", mode)
        torch.manual_seed(0)
        layer, x = Linear(5, 3), torch.randn(7, 5, requires_grad=True)
        for parameter in layer.parameters():
            torch.nn.init.normal_(parameter)
        result = layer(x)
        (result**2).sum().backward()
        results.append([result.detach(), x.grad, layer.weight.grad, layer.bias.grad])
        assert ("NumpyProduct" in type(result.grad_fn).__name__) == (mode == "COMPATIBLE")
    for torchs, numpys in zip(*results, strict=True):
        assert torchs is not None
        torch.testing.assert_close(torchs, numpys)
