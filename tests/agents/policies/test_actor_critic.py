import pytest
import torch
from torch import nn

from workflow_rl.agents.policies.actor_critic import ActorCritic
from workflow_rl.agents.policies.distributions import Categorical
from workflow_rl.agents.policies.torch_layers import Linear

HIDDEN_SIZES = (8, 7)


def network(seed: int = 0, activation: str = "tanh") -> ActorCritic:
    return ActorCritic(5, Categorical(3), HIDDEN_SIZES, activation, seed)


def linears(part: nn.Module) -> list[nn.Linear]:
    return [layer for layer in part.modules() if isinstance(layer, nn.Linear)]


@pytest.mark.parametrize(("activation", "layer"), [("tanh", nn.Tanh), ("relu", nn.ReLU)])
def test_the_activation_stands_between_the_layers_and_not_after_the_last(activation, layer):
    chosen = network(activation=activation)
    for part, n_outputs in ((chosen.actor, 3), (chosen.critic, 1)):
        expected = [Linear, layer, Linear, layer, Linear]
        assert [type(module) for module in part] == expected
        sizes = [(linear.in_features, linear.out_features) for linear in linears(part)]
        assert sizes == [(5, 8), (8, 7), (7, n_outputs)]
    logits, value = chosen(torch.zeros(11, 5))
    assert (logits.shape, value.shape) == ((11, 3), (11,))


def test_initial_weights_are_orthogonal_with_the_given_gains_and_biases_are_zero():
    both = ActorCritic(6, Categorical(4), (6, 6), "tanh", 0)
    for part, output_gain in ((both.actor, 0.01), (both.critic, 1.0)):
        layers = linears(part)
        for layer, gain in zip(layers, [2**0.5, 2**0.5, output_gain], strict=True):
            identity = gain**2 * torch.eye(layer.out_features)
            torch.testing.assert_close(layer.weight @ layer.weight.T, identity)
            assert layer.bias.tolist() == [0.0] * layer.out_features


def test_the_seed_alone_determines_the_weights_and_draws_from_a_generator_of_its_own():
    first, other = network(seed=1), network(seed=2)
    torch.manual_seed(99)
    before = torch.get_rng_state()
    again = network(seed=1)
    assert torch.equal(torch.get_rng_state(), before)
    for a, b in zip(first.parameters(), again.parameters(), strict=True):
        assert torch.equal(a, b)
    for layer, other_layer in zip(linears(first), linears(other), strict=True):
        assert not torch.equal(layer.weight, other_layer.weight)


def test_numpys_product_is_torchs(monkeypatch):
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
        torch.testing.assert_close(torchs, numpys)
