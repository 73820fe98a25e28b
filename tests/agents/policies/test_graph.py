"""A network on entities with edges: the views agree, and only edges and order-free facts count."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from workflow_rl.agents.algorithm import find
from workflow_rl.agents.policies.distributions import Categorical
from workflow_rl.agents.policies.entities import Graph
from workflow_rl.agents.policies.entity_layout import EntityLayout, layout_of
from workflow_rl.agents.policies.network import Layers
from workflow_rl.agents.policies.numpy_policy import NumpyPolicy
from workflow_rl.agents.policies.torch_actor import TorchActor
from workflow_rl.agents.ppo.agent import PPOAgent
from workflow_rl.agents.ppo.config import PPOConfig
from workflow_rl.agents.spaces import Spaces
from workflow_rl.agents.trajectory import Trajectory
from workflow_rl.errors import ConfigError


def layout_for(n: int, actions: bool = True) -> EntityLayout:
    """Of n entities. An observation: one number of the whole; of each entity, whether it exists and
    a feature; for each pair, whether an edge leads there. By the second relation each entity always
    hears of the first one."""
    rows = 1 + np.arange(2 * n).reshape(n, 2)
    edges = {
        "link": [[i, j, 1 + 2 * n + n * i + j] for i in range(n) for j in range(n)],
        "first": [[i, 0] for i in range(n)],
    }
    on_entities = [(0, entity) for entity in range(n)]
    tables = {"present": rows[:, 0], "features": rows[:, 1:], "edges": edges}
    return EntityLayout(1 + 2 * n + n * n, {**tables, "actions": [*on_entities, (0, -1)] * actions})


def observations(n: int, m: int = 5) -> Any:
    random = np.random.default_rng(0)
    hosts = random.normal(size=(m, n, 2)).astype(np.float32)
    hosts[:, :, 0] = np.arange(m * n).reshape(m, n) % 3 > 0
    edges = (random.random((m, n * n)) < 0.3).astype(np.float32)
    whole = random.normal(size=(m, 1)).astype(np.float32)
    return np.concatenate([whole, hosts.reshape(m, -1), edges], axis=1)


def network_of(layout: EntityLayout, **args: Any) -> Graph:
    args = {**args, "layout": layout.to_plain()}
    return Graph.of_sizes(layout.n_inputs, (6, 8), layout.n_outputs, "tanh", args)


def layers_of(network: Graph) -> Layers:
    return network.layers(network.module(1.0, torch.Generator().manual_seed(3)).state_dict())


kinds = pytest.mark.parametrize(
    "args", [{}, {"heads": 2, "rounds": 2}, {"heads": 0, "rounds": 2}], ids=["1", "2", "means"]
)


@kinds
@pytest.mark.parametrize("actions", [True, False], ids=["actor", "critic"])
def test_the_views_agree_and_a_row_has_the_same_bits_in_any_company(
    actions: bool, args: dict[str, Any]
) -> None:
    network, obs = network_of(layout_for(5, actions), **args), observations(5)
    module = network.module(1.0, torch.Generator().manual_seed(3))
    layers = network.layers(module.state_dict())
    assert network.knows(module.state_dict())
    assert network.fits(layers)
    assert Graph.of_layers(layers, "tanh", layout=network.layout, **args) == network
    outputs = network.forward(layers, obs)
    with torch.no_grad():
        torch.testing.assert_close(module(torch.from_numpy(obs)), torch.from_numpy(outputs))
    for n in range(5):
        np.testing.assert_array_equal(network.forward(layers, obs[n : n + 1])[0], outputs[n])


def test_attention_along_edges_by_hand() -> None:
    """Two entities, of which the first one alone has an edge, to the second one."""
    tables = {"features": [[0], [1]], "actions": [[0, 0], [0, 1]], "edges": {"to": [[0, 1]]}}
    network = Graph(2, (2,), 2, "relu", 1, EntityLayout(2, tables).to_plain())
    layers = Layers(
        tuple(
            np.array(weight, np.float32)
            for weight in (
                [[1.0, 0.0]],
                [[0.0] * 4 + [3.0, 5.0], [0.0] * 6],
                [[1.0, 0.0], [0.0, 0.0], [1.0, 0.0], [10.0, 0.0]],
                [[1.0], [0.0]],
            )
        ),
        tuple(np.zeros(n, np.float32) for n in (2, 6, 2, 1)),
    )
    assert network.fits(layers)
    # Queries and keys are zeros: a head gives the mean of the values that it may attend to. The
    # values are 3 x for the relation, and 5 x for the whole.
    outputs = network.forward(layers, np.array([[1, 2]], np.float32))[0]
    everybody = 10 * 5 * (1 + 2) / 2
    assert outputs.tolist() == [1 + 3 * 2 + everybody, 2 + 0 + everybody]


@kinds
@given(order=st.permutations(range(5)))
def test_the_order_of_the_entities_does_not_matter(args: dict[str, Any], order: list[int]) -> None:
    layout, obs = layout_for(5), observations(5)
    plain = layout.to_plain()
    plain["edges"]["first"] = [[i, order.index(0)] for i in range(5)]
    network, moved_network = network_of(layout, **args), network_of(layout_of(plain), **args)
    moved = obs.copy()
    moved[:, 1:11] = obs[:, 1:11].reshape(-1, 5, 2)[:, order].reshape(-1, 10)
    moved[:, 11:] = obs[:, 11:].reshape(-1, 5, 5)[:, order][:, :, order].reshape(-1, 25)
    layers = layers_of(network)
    outputs, expected = moved_network.forward(layers, moved), network.forward(layers, obs)
    np.testing.assert_allclose(outputs[:, :5], expected[:, order], rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(outputs[:, 5], expected[:, 5], rtol=1e-4, atol=1e-5)


def with_two_more(obs: Any) -> Any:
    """Observations of three entities as those of five, of which two do not exist."""
    edges = np.ones((len(obs), 5, 5), np.float32)
    edges[:, :3, :3] = obs[:, 7:].reshape(-1, 3, 3)
    nobody = np.zeros((len(obs), 4), np.float32)
    return np.concatenate([obs[:, :7], nobody, edges.reshape(len(obs), -1)], axis=1)


@kinds
def test_nobody_hears_of_an_entity_that_does_not_exist(args: dict[str, Any]) -> None:
    few, many = network_of(layout_for(3), **args), network_of(layout_for(5), **args)
    layers, obs = layers_of(few), observations(3)
    assert many.fits(layers)
    outputs, expected = many.forward(layers, with_two_more(obs)), few.forward(layers, obs)
    np.testing.assert_allclose(outputs[:, [0, 1, 2, 5]], expected, rtol=1e-4, atol=1e-5)
    assert (outputs[:, 3:5] == -np.inf).all()
    critic = network_of(layout_for(5, actions=False), **args)
    assert np.isfinite(critic.forward(layers_of(critic), np.zeros((1, 36), np.float32))).all()


def agent_for(n: int, network: str = "graph") -> PPOAgent:
    config = PPOConfig(network=network, hidden_sizes=(6, 4), minibatch_size=5, normalise_obs=True)
    layout = layout_for(n)
    spaces = Spaces(layout.n_inputs, Categorical(n + 1), entities=layout)
    agent = find("ppo").make(config, spaces, 0, "cpu", 1)
    assert isinstance(agent, PPOAgent)
    return agent


@pytest.mark.parametrize("network", ["graph", "entities"])
def test_an_agent_learns_and_its_weights_play_other_numbers_with_other_edges(network: str) -> None:
    agent, obs = agent_for(3, network), observations(3, 9)
    before, actor = agent.policy_parameters(), agent.policy_parameters().actor()
    actor.reset(1)
    actions, log_probs = actor.act(obs[:-1], (0,) * 8)
    rewards = np.arange(8.0)
    played = Trajectory(0, "", 0, obs[:-1], actions, log_probs, rewards, obs[-1], True, False)
    agent.update([played], 0.0)
    parameters = agent.policy_parameters()
    changed = zip(before.weights, parameters.weights, strict=True)
    assert all((one != other).any() for one, other in changed)
    expected = NumpyPolicy(find("ppo").saved_policy(agent.config, agent.state_dict())).outputs(obs)
    np.testing.assert_array_equal(NumpyPolicy(parameters).outputs(obs), expected)
    with torch.no_grad():
        torch.testing.assert_close(
            TorchActor(parameters)(torch.from_numpy(obs)), torch.from_numpy(expected)
        )
    outputs = NumpyPolicy(parameters.on(layout_for(5), Categorical(6))).outputs(with_two_more(obs))
    np.testing.assert_allclose(outputs[:, [0, 1, 2, 5]], expected, rtol=1e-4, atol=1e-5)
    larger = agent_for(5, network)
    larger.load_policy(agent.state_dict())
    there = NumpyPolicy(larger.policy_parameters()).outputs(with_two_more(obs))
    np.testing.assert_array_equal(there, outputs)
    again = agent_for(3, network)
    again.load_state_dict(agent.state_dict())
    without = {**layout_for(5).to_plain(), "edges": {}}
    with pytest.raises(ValueError, match="it learned with "):
        parameters.on(layout_of(without), Categorical(6))


def test_fixed_edges_are_nothing_to_a_network_that_knows_none() -> None:
    tables = {"features": [[0], [1]], "actions": [[0, 0], [0, 1]]}
    plain, joined = EntityLayout(2, tables), EntityLayout(2, {**tables, "edges": {"a": [[0, 1]]}})
    agents = [
        PPOAgent(PPOConfig(network="entities"), Spaces(2, Categorical(2), entities=layout), 0)
        for layout in (plain, joined)
    ]
    agents[1].load_state_dict(agents[0].state_dict())
    agents[0].policy_parameters().on(joined, Categorical(2))


def test_the_network_needs_edges() -> None:
    layout = EntityLayout(2, {"features": [[0], [1]], "actions": [[0, 0], [0, 1]]})
    spaces = Spaces(2, Categorical(2), entities=layout)
    with pytest.raises(ConfigError, match="has no table `edges`"):
        find("ppo").distribution(spaces, PPOConfig(network="graph"))
    with pytest.raises(ConfigError, match="rounds=0 is not from 1 to"):
        PPOConfig(network="graph", network_args={"rounds": 0})


@pytest.mark.parametrize(
    ("edges", "words"),
    [
        ([[0, 1]], "no names of relations"),
        ({"a": [[0, 2]]}, "'a' join an entity that is none"),
        ({"a": [[0, 1, 5]]}, "'a' name a column that is none"),
        ({"a": [0, 1]}, "no rows of 2 or 3 numbers"),
        ({"a": [[0.5, 1]]}, "other things than integers"),
        ({str(n): [] for n in range(300_000)}, "could join more than"),
    ],
)
def test_wrong_edges_are_refused(edges: Any, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        EntityLayout(5, {"features": [[0], [1]], "edges": edges})
