"""A kind of network of one's own: one class, and its registration."""

from __future__ import annotations

import itertools
import pickle
from pathlib import Path
from typing import Any, Self

import numpy as np
import pytest
import torch
from torch import nn

from tests.agents.examples import example_trajectory
from workflow_rl.agents.algorithm import find
from workflow_rl.agents.policies import networks
from workflow_rl.agents.policies.distributions import Categorical, FloatArray
from workflow_rl.agents.policies.mlp import MLP
from workflow_rl.agents.policies.network import ACTIVATIONS, Layers, Network, Shape
from workflow_rl.agents.policies.numpy_policy import NumpyPolicy, PolicyParameters
from workflow_rl.agents.policies.policy_file import load_policy, save_policy
from workflow_rl.agents.policies.torch_actor import TorchActor
from workflow_rl.agents.ppo.config import PPOConfig
from workflow_rl.agents.spaces import Spaces


class Residual(Network):
    """Each hidden layer adds to what it is given; all have the size of the first."""

    kind = "residual"

    @classmethod
    def of_layers(cls, layers: Layers, activation: str) -> Self:
        *hidden, n_outputs = (len(bias) for bias in layers.biases)
        return cls(len(layers.weights[0]), tuple(hidden), n_outputs, activation)

    def shapes(self) -> list[tuple[Shape, Shape]]:
        sizes = [self.n_inputs, *self.hidden_sizes, self.n_outputs]
        return [((a, b), (b,)) for a, b in itertools.pairwise(sizes)]

    def names(self) -> list[tuple[str, str]]:
        layers = range(len(self.hidden_sizes) + 1)
        return [(f"layers.{n}.weight", f"layers.{n}.bias") for n in layers]

    def forward(self, layers: Layers, obs: FloatArray) -> FloatArray:
        x = obs[:, None, :]
        (first, *blocks, last) = zip(*layers, strict=True)
        x = x @ first[0] + first[1]
        for weight, bias in blocks:
            x = x + ACTIVATIONS[self.activation](x @ weight + bias)
        return np.asarray((x @ last[0] + last[1])[:, 0])

    def module(self, output_gain: float, generator: torch.Generator | None) -> nn.Module:
        class Module(nn.Module):
            def __init__(self, shapes: Any) -> None:
                super().__init__()
                self.layers = nn.ModuleList(nn.Linear(*weight) for weight, _ in shapes)
                if generator is not None:
                    for parameter in self.parameters():
                        nn.init.uniform_(parameter, -0.5, 0.5, generator=generator)

            def forward(self, obs: torch.Tensor) -> torch.Tensor:
                first, *blocks, last = self.layers
                x = first(obs)
                for block in blocks:
                    x = x + torch.tanh(block(x))
                return last(x)

        return Module(self.shapes())


@pytest.fixture(autouse=True)
def _registered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(networks, "NETWORKS", networks.NETWORKS)
    monkeypatch.setitem(networks.NETWORKS, "residual", Residual)


@pytest.mark.parametrize("kind", ["mlp", "residual"])
def test_a_kind_of_network_learns_acts_and_is_kept(kind: str, tmp_path: Path) -> None:
    config = PPOConfig(network=kind, hidden_sizes=(8, 8, 8), minibatch_size=5)
    ppo, spaces = find("ppo"), Spaces(6, Categorical(4))
    agent: Any = ppo.make(config, spaces, seed=1, device="cpu", threads=1)
    before = agent.state_dict()["network"]
    agent.update([example_trajectory(np.arange(20.0))], 0.0)
    assert any(not torch.equal(before[name], one) for name, one in agent.network.named_parameters())

    obs = np.random.default_rng(0).normal(size=(9, 6)).astype(np.float32)
    policy = NumpyPolicy(agent.policy_parameters())
    outputs = policy.outputs(obs)
    with torch.no_grad():
        np.testing.assert_allclose(outputs, agent.network(torch.from_numpy(obs))[0], atol=1e-5)
        in_torch = TorchActor(policy.parameters)(torch.from_numpy(obs))
        np.testing.assert_allclose(outputs, in_torch, atol=1e-5)
    save_policy(tmp_path / "policy.npz", policy.parameters, {})
    loaded, _ = load_policy(tmp_path / "policy.npz")
    of_state = ppo.saved_policy(config, agent.state_dict())
    for same in (loaded, of_state, pickle.loads(pickle.dumps(policy)).parameters):
        np.testing.assert_array_equal(NumpyPolicy(same).outputs(obs), outputs)
    alone = np.concatenate([policy.outputs(row[None]) for row in obs])
    np.testing.assert_array_equal(alone, outputs)


def test_a_worker_need_not_know_a_kind_by_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    made = Residual(3, (4, 4), 2, "tanh")
    layers = made.layers(made.module(1.0, torch.Generator().manual_seed(0)).state_dict())
    parameters = PolicyParameters(*layers, "tanh", network="residual")
    pickled = pickle.dumps(NumpyPolicy(parameters))
    monkeypatch.delitem(networks.NETWORKS, "residual")
    assert pickle.loads(pickled).outputs(np.zeros((1, 3))).shape == (1, 2)


def test_arrays_and_modules_are_the_same_weights() -> None:
    network = MLP(3, (5,), 2, "tanh")
    module = network.module(1.0, torch.Generator().manual_seed(0))
    layers = network.layers(module.state_dict())
    assert network.fits(layers)
    assert MLP.of_layers(layers, "tanh") == network
    assert not MLP(3, (4,), 2, "tanh").fits(layers)
    for name, array in network.state(layers).items():
        assert torch.equal(torch.from_numpy(array), module.state_dict()[name])
    layers.weights[0][...] = 7
    assert not any((one == 7).any() for one in module.parameters())
