import pickle
from typing import Any

import numpy as np
import pytest
import torch

from workflow_rl.agents.policies.distributions import Categorical
from workflow_rl.agents.policies.network import Network
from workflow_rl.agents.policies.networks import NETWORKS
from workflow_rl.agents.policies.numpy_policy import NumpyPolicy, PolicyParameters
from workflow_rl.agents.policies.policy_file import load_policy, save_policy
from workflow_rl.agents.policies.torch_actor import TorchActor
from workflow_rl.agents.policies.torch_memory import MemoryModule, Packed

KINDS = pytest.mark.parametrize(
    ("kind", "args"), [("gru", {}), ("lstm", {"seen_again": 5}), ("frame-stack", {"frames": 3})]
)


def made(kind: str, args: dict[str, Any]) -> tuple[Network, MemoryModule]:
    network = NETWORKS[kind].of_sizes(3, (6, 5), 4, "tanh", args)
    module: Any = network.module(1.0, torch.Generator().manual_seed(2))
    return network, module


def parameters_of(kind: str, args: dict[str, Any]) -> PolicyParameters:
    network, module = made(kind, args)
    layers = network.layers(module.state_dict())
    return PolicyParameters(
        *layers, "tanh", distribution=Categorical(4), network=kind, network_args=args
    )


@KINDS
def test_the_views_agree_step_by_step_and_in_sequences(kind, args):
    network, module = made(kind, args)
    layers = network.layers(module.state_dict())
    assert network.fits(layers)
    assert type(network).of_layers(layers, "tanh", **args) == network
    counts = (3, 3, 2, 1)
    rows = torch.randn(9, 3, generator=torch.Generator().manual_seed(1))
    state = np.zeros((3, network.memory_size), np.float32)
    outputs = []
    for x in rows.split(counts):
        output, state = network.step(layers, x.numpy(), state[: len(x)])
        outputs.append(output)
    with torch.no_grad():
        in_torch = module(Packed(rows, counts))
    np.testing.assert_allclose(in_torch, np.concatenate(outputs), atol=1e-5)
    # Alone, a row has the same bits as beside others.
    state = np.zeros((1, network.memory_size), np.float32)
    for t, first in enumerate((0, 3, 6, 8)):
        alone, state = network.step(layers, rows[first : first + 1].numpy(), state)
        np.testing.assert_array_equal(alone[0], outputs[t][0])


@KINDS
def test_gradients_are_those_of_one_step_after_another(kind, args):
    module = made(kind, args)[1].double()
    counts = (4, 4, 3, 1)
    random = torch.Generator().manual_seed(3)
    rows = torch.randn(12, 3, dtype=torch.float64, generator=random, requires_grad=True)
    weights = torch.randn(12, 4, dtype=torch.float64, generator=random)
    inputs = [rows, *module.parameters()]
    fast, plain = (
        torch.autograd.grad((forward(Packed(rows, counts)) * weights).sum(), inputs)
        for forward in (module, lambda packed: MemoryModule.forward(module, packed))
    )
    for one, other in zip(fast, plain, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-10, atol=1e-12)


@KINDS
def test_an_actor_keeps_the_state_of_each_env(kind, args):
    parameters = parameters_of(kind, args)
    # Integers: what was computed for an observation must not be given again.
    obs = np.random.default_rng(0).integers(0, 2, (8, 2, 3)).astype(np.uint8)
    together, alone = NumpyPolicy(parameters), NumpyPolicy(parameters)
    for env in (0, 1):
        together.reset(10 + env, env)
    shown = [together.act(one, (0, 1)) for one in obs]
    for env in (1, 0):
        alone.reset(10 + env)
        for t in range(8):
            action, log_prob = alone.act(obs[t, env])
            assert action[0] == shown[t][0][env]
            assert log_prob[0] == shown[t][1][env]
    repeated = np.repeat(obs[:1], 6, axis=0)
    together.reset(0)
    log_probs = {float(together.act(one[:1])[1][0]) for one in repeated}
    assert len(log_probs) > 1


@KINDS
def test_an_actor_that_goes_on_finds_its_state(kind, args):
    policy = NumpyPolicy(parameters_of(kind, args))
    obs = np.random.default_rng(0).normal(size=(9, 3)).astype(np.float32)
    policy.reset(4)
    for one in obs[:8]:
        policy.act(one)
    expected = policy.act(obs[8])
    again: NumpyPolicy = pickle.loads(pickle.dumps(policy))
    again.reset(4, n_acted=8, seen=obs[:8])
    assert [one.tolist() for one in again.act(obs[8])] == [one.tolist() for one in expected]


@KINDS
def test_files_keep_a_kind_with_its_arguments(kind, args, tmp_path):
    parameters = parameters_of(kind, args)
    save_policy(tmp_path / "policy.npz", parameters, {})
    loaded, _ = load_policy(tmp_path / "policy.npz")
    assert loaded.described() == parameters.described()
    obs = np.ones((2, 3), np.float32)
    np.testing.assert_array_equal(
        NumpyPolicy(loaded).outputs(obs), NumpyPolicy(parameters).outputs(obs)
    )
    for wrong in ({"frames": 0}, {"seen_again": -1}, {"what": 1}, {"frames": 10**9}):
        save_policy(tmp_path / "wrong.npz", parameters._replace(network_args=wrong), {})
        with pytest.raises(ValueError, match="no policy file"):
            load_policy(tmp_path / "wrong.npz")


@KINDS
def test_the_exported_actor_maps_states_too(kind, args):
    parameters = parameters_of(kind, args)
    actor, network = TorchActor(parameters).eval(), parameters.described()
    obs = torch.randn(2, 3, generator=torch.Generator().manual_seed(5))
    state = torch.randn(2, network.memory_size, generator=torch.Generator().manual_seed(6))
    with torch.no_grad():
        outputs, state_after = actor(obs, state)
    expected = network.step(parameters.layers, obs.numpy(), state.numpy())
    np.testing.assert_allclose(outputs, expected[0], atol=1e-5)
    np.testing.assert_allclose(state_after, expected[1], atol=1e-5)


def test_what_a_kind_does_not_have_is_refused():
    for kind, args, word in (("gru", {"frames": 3}, "frames"), ("mlp", {"x": 1}, "it has none")):
        with pytest.raises(ValueError, match=word):
            NETWORKS[kind].of_sizes(3, (4,), 2, "tanh", args)
    with pytest.raises(ValueError, match="hidden layer"):
        NETWORKS["gru"].of_sizes(3, (), 2, "tanh")


def test_a_single_frame_needs_no_sequences():
    network, module = made("frame-stack", {"frames": 1})
    assert network.memory_size == 0
    rows = torch.randn(4, 3, generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        outputs = network.forward(network.layers(module.state_dict()), rows.numpy())
        np.testing.assert_allclose(module(rows), outputs, atol=1e-6)
