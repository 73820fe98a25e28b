import pickle
from typing import Any

import numpy as np
import pytest
import torch

from tests.agents.examples import acted_on, ppo_agent, same_networks
from tests.agents.policies.layouts import ATARI, GRID, TWO, bytes_of, entities_seen, entity_layout
from workflow_rl.agents.algorithm import find
from workflow_rl.agents.policies.convolutional import Image, ImageLayout
from workflow_rl.agents.policies.distributions import Categorical
from workflow_rl.agents.policies.entity_layout import EntityLayout
from workflow_rl.agents.policies.networks import NETWORKS
from workflow_rl.agents.policies.numpy_policy import NumpyPolicy
from workflow_rl.agents.policies.policy_file import load_policy, save_policy
from workflow_rl.agents.policies.torch_actor import TorchActor
from workflow_rl.agents.policy_from_checkpoint import saved_critic
from workflow_rl.agents.spaces import Spaces

MANY_ENTITIES = EntityLayout(
    60,
    {
        "features": np.arange(48).reshape(16, 3),
        "actions": [*([0, n] for n in range(16)), [0, -1]],
        "present": range(0, 48, 3),
    },
)
# By name: the kind, its layout, its hidden layers, and its further arguments.
VIEWED: dict[str, tuple[str, Any, tuple[int, ...], dict[str, Any]]] = {
    "mlp": ("mlp", None, (5,), {}),
    "mlp of relu": ("mlp", None, (5, 4), {"activation": "relu"}),
    "an image": ("cnn", GRID, (6, 4), {}),
    "two images": ("cnn", TWO, (6, 4), {}),
    "a large image": ("cnn", ATARI, (6, 4), {}),
    "other convolutions": ("cnn", TWO, (6, 4), {"convolutions": [[3, 3, 1], [2, 2, 2]]}),
    "the smallest image": ("cnn", ImageLayout(27, [Image(0, 3, 3, 3, False, 1.0)]), (6, 4), {}),
    "attention": ("entities", entity_layout(5), (6, 4), {"heads": 2}),
    "attention, critic": ("entities", entity_layout(5, actions=False), (6, 4), {"heads": 2}),
    "attention, many": ("entities", MANY_ENTITIES, (32,), {"heads": 2}),
    "pooling": ("entities", entity_layout(5), (6, 4), {"heads": 0}),
    "pooling, critic": ("entities", entity_layout(5, actions=False), (6, 4), {"heads": 0}),
    "pooling, many": ("entities", MANY_ENTITIES, (32,), {"heads": 0}),
    "graph": ("graph", entity_layout(5), (6, 8), {}),
    "graph, critic": ("graph", entity_layout(5, actions=False), (6, 8), {}),
    "graph of 2 rounds": ("graph", entity_layout(5), (6, 8), {"heads": 2, "rounds": 2}),
    "graph of 2 rounds, critic": (
        *("graph", entity_layout(5, actions=False), (6, 8)),
        {"heads": 2, "rounds": 2},
    ),
    "means": ("graph", entity_layout(5), (6, 8), {"heads": 0, "rounds": 2}),
    "means, critic": (
        *("graph", entity_layout(5, actions=False), (6, 8)),
        {"heads": 0, "rounds": 2},
    ),
}


def rows_seen(kind: str, layout: Any) -> Any:
    if kind == "cnn":
        return bytes_of(layout)
    if kind == "mlp" or layout is MANY_ENTITIES:
        size = (9, 3) if kind == "mlp" else (40, 60)
        return np.random.default_rng(5).normal(size=size).astype(np.float32)
    return entities_seen(5)


@pytest.mark.parametrize("name", VIEWED)
def test_the_views_agree_and_a_row_has_the_same_bits_in_any_company(name):
    kind, layout, hidden_sizes, args = VIEWED[name]
    obs = rows_seen(kind, layout)
    if layout is not None:
        args = {**args, "layout": layout.to_plain()}
    n_outputs = getattr(layout, "n_outputs", 5)
    args = dict(args)
    activation = args.pop("activation", "tanh")
    network = NETWORKS[kind].of_sizes(obs.shape[1], hidden_sizes, n_outputs, activation, args)
    module = network.module(1.0, torch.Generator().manual_seed(3))
    layers = network.layers(module.state_dict())
    assert network.knows(module.state_dict())
    assert network.fits(layers)
    assert type(network).of_layers(layers, activation, **args) == network
    rows = obs.astype(np.float32)
    outputs = network.forward(layers, rows)
    assert outputs.shape == (len(obs), n_outputs)
    with torch.no_grad():
        shown = module(torch.from_numpy(obs))
        assert torch.equal(shown, module(torch.from_numpy(rows)))
    np.testing.assert_allclose(outputs, shown, atol=2e-5 if kind == "cnn" else 1e-5)
    for n, row in enumerate(rows):
        np.testing.assert_array_equal(network.forward(layers, row[None])[0], outputs[n])
    for name, array in network.state(layers).items():
        assert torch.equal(torch.from_numpy(array), module.state_dict()[name])
    layers.weights[0][...] = 7
    assert not any((one == 7).any() for one in module.parameters())


SMALL = {"hidden_sizes": (6, 4), "minibatch_size": 5}
ENTITIES = Spaces(29, Categorical(10), entities=entity_layout(4))
KEPT: dict[str, tuple[Spaces, dict[str, Any], Any]] = {
    "mlp": (Spaces(6, Categorical(4)), {"hidden_sizes": (8, 8, 8)}, entities_seen(2)[:, :6]),
    "images": (
        Spaces(TWO.n_inputs, Categorical(3), images=TWO),
        {"network": "cnn"},
        bytes_of(TWO, 21),
    ),
    "images, shared layers": (
        Spaces(TWO.n_inputs, Categorical(3), images=TWO),
        {"network": "cnn", "shared_trunk": True},
        bytes_of(TWO, 21),
    ),
    "attention": (
        ENTITIES,
        {"network": "entities", "network_args": {"heads": 2}, "normalise_obs": True},
        entities_seen(4, 9),
    ),
    "pooling": (
        ENTITIES,
        {"network": "entities", "network_args": {"heads": 0}, "normalise_obs": True},
        entities_seen(4, 9),
    ),
    "graph": (
        ENTITIES,
        {"network": "graph", "normalise_obs": True},
        entities_seen(4, 9),
    ),
}


@pytest.mark.parametrize("name", KEPT)
def test_a_kind_of_network_learns_acts_is_kept_and_goes_on(name, tmp_path):
    spaces, settings, obs = KEPT[name]
    agent, again = (ppo_agent(spaces, seed, **{**SMALL, **settings}) for seed in (1, 2))
    before = agent.policy_parameters()
    agent.update([acted_on(agent, obs)], 0.0)
    again.load_state_dict(agent.state_dict())
    episode = acted_on(agent, obs)
    for one in (agent, again):
        one.update([episode], 0.5)
    assert same_networks(agent, again)
    parameters, state = agent.policy_parameters(), agent.state_dict()
    changed = zip(before.weights, parameters.weights, strict=True)
    assert all((one != other).any() for one, other in changed)

    policy = NumpyPolicy(parameters)
    outputs = policy.outputs(obs)
    with torch.no_grad():
        learned = agent.network.outputs(agent._on_device(obs))
        exported = TorchActor(parameters).eval()(torch.from_numpy(obs))
        values = agent.network.values(agent._on_device(obs))
    np.testing.assert_allclose(outputs, learned, atol=1e-5)
    np.testing.assert_allclose(outputs, exported, atol=1e-5)
    save_policy(tmp_path / "policy.npz", parameters, {})
    loaded, _ = load_policy(tmp_path / "policy.npz")
    of_state = find("ppo").saved_policy(agent.config, state)
    for same in (loaded, of_state, pickle.loads(pickle.dumps(policy)).parameters):
        np.testing.assert_array_equal(NumpyPolicy(same).outputs(obs), outputs)
    critic = NumpyPolicy(saved_critic(agent.config, state)).outputs(obs)
    np.testing.assert_allclose(critic[:, 0], values, atol=1e-5)
