from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.agents.examples import acted_on, ppo_agent
from tests.agents.policies.layouts import entities_seen, entity_layout
from workflow_rl.agents.algorithm import find
from workflow_rl.agents.policies.distributions import Categorical
from workflow_rl.agents.policies.entities import Entities, Graph
from workflow_rl.agents.policies.entity_layout import EntityLayout, layout_of
from workflow_rl.agents.policies.network import Layers
from workflow_rl.agents.policies.numpy_policy import NumpyPolicy
from workflow_rl.agents.policy_from_checkpoint import policy_on, saved_policy
from workflow_rl.agents.ppo.agent import PPOAgent
from workflow_rl.agents.ppo.config import PPOConfig
from workflow_rl.agents.spaces import Spaces
from workflow_rl.errors import ConfigError

KINDS: dict[str, tuple[type[Entities], dict[str, Any]]] = {
    "attention": (Entities, {"heads": 2}),
    "pooling": (Entities, {"heads": 0}),
    "graph": (Graph, {}),
    "graph of 2 rounds": (Graph, {"heads": 2, "rounds": 2}),
    "means": (Graph, {"heads": 0, "rounds": 2}),
}
each_kind = pytest.mark.parametrize("name", KINDS)


def network_of(name: str, layout: EntityLayout) -> Entities:
    kind, args = KINDS[name]
    args = {**args, "layout": layout.to_plain()}
    return kind.of_sizes(layout.n_inputs, (6, 8), layout.n_outputs, "tanh", args)


def layers_of(network: Entities) -> Layers:
    return network.layers(network.module(1.0, torch.Generator().manual_seed(3)).state_dict())


class ByHand(NamedTuple):
    """A network, its weights and biases, observations [N, D], and its outputs [N, A]."""

    network: Entities
    weights: list[Any]
    biases: list[Any]
    obs: list[Any]
    outputs: list[Any]


def attention_by_hand() -> ByHand:
    """The entities' hidden layers are 1 (the observation) and 2 (the trait): the first attends with
    weights of exp(1 * 0.5) and exp(1 * 1) to the values 3 and 6."""
    tables = {"features": [[0], [-1]], "traits": [[0.0], [2.0]], "actions": [[0, 1], [0, 0]]}
    network = Entities(1, (1,), 2, "relu", 1, EntityLayout(1, tables).to_plain())
    weights = [[[1.0], [1.0]], [[1.0, 0.5, 3.0]], [[1.0], [1.0]], [[10.0]]]
    to_first, to_second = np.exp([[0.5, 1.0], [1.0, 2.0]])
    hidden = [1 + to_first @ [3, 6] / to_first.sum(), 2 + to_second @ [3, 6] / to_second.sum()]
    biases = [np.zeros(n) for n in (1, 3, 1, 1)]
    return ByHand(network, weights, biases, [[1.0]], [[10 * hidden[1], 10 * hidden[0]]])


def mean_by_hand() -> ByHand:
    """All weights of the attention are equal: an entity gets the mean of those that exist."""
    tables = {"features": [[0], [1]], "present": [0, 1]}
    network = Entities(2, (1,), 1, "relu", 1, EntityLayout(2, tables).to_plain())
    weights = [[[1.0]], [[0.0, 0.0, 1.0]], [[1.0], [1.0]], [[2.0]], [[5.0]]]
    both, alone = 1 + 5 * 2 * ((1 + 2) + (3 + 2)) / 2, 1 + 5 * 2 * (4 + 4)
    biases = [*(np.zeros(n) for n in (1, 3, 1, 1)), np.ones(1)]
    return ByHand(network, weights, biases, [[1, 3], [4, 0]], [[both], [alone]])


def pooling_by_hand() -> ByHand:
    """Two scores, and one output that belongs to no entity. The hidden layers are 0 + 1 + 1 and
    10 + 3 + 1, of which the mean is 8 and the maximum 14."""
    tables = {
        **{"features": [[0], [1]], "present": [0, 1], "traits": [[0.0], [10.0]]},
        "actions": [[0, 0], [0, 1], [0, -1]],
    }
    network = Entities(3, (1,), 3, "relu", 0, EntityLayout(3, tables).to_plain())
    weights = [[[1.0], [1.0], [0.5]], [[1.0], [2.0], [3.0]], [[7.0]], [[1.0], [2.0]], [[5.0]]]
    first, second = 1 + 2 + 2 * 8 + 3 * 14, 1 + 14 + 2 * 8 + 3 * 14
    alone = 1 + 5 + 2 * 5 + 3 * 5
    outputs = [
        [7 * first, 7 * second, 4 + 5 * ((first + second) / 2 + 2 * second)],
        [7 * alone, -np.inf, 4 + 5 * (alone + 2 * alone)],
        [-np.inf, -np.inf, 4],
    ]
    biases = [[0.0], [1.0], [0.0], [0.0], [4.0]]
    return ByHand(network, weights, biases, [[1, 3, 2], [4, 0, 2], [0, 0, 2]], outputs)


def edges_by_hand() -> ByHand:
    """Two entities, of which the first one alone has an edge, to the second one. Queries and keys
    are zeros: a head gives the mean of the values that it may attend to. The values are 3 x for the
    relation, and 5 x for the whole."""
    tables = {"features": [[0], [1]], "actions": [[0, 0], [0, 1]], "edges": {"to": [[0, 1]]}}
    network = Graph(2, (2,), 2, "relu", 1, EntityLayout(2, tables).to_plain())
    weights = [
        [[1.0, 0.0]],
        [[0.0] * 4 + [3.0, 5.0], [0.0] * 6],
        [[1.0, 0.0], [0.0, 0.0], [1.0, 0.0], [10.0, 0.0]],
        [[1.0], [0.0]],
    ]
    everybody = 10 * 5 * (1 + 2) / 2
    biases = [np.zeros(n) for n in (2, 6, 2, 1)]
    return ByHand(network, weights, biases, [[1, 2]], [[1 + 3 * 2 + everybody, 2 + everybody]])


@pytest.mark.parametrize("case", [attention_by_hand, mean_by_hand, pooling_by_hand, edges_by_hand])
def test_outputs_by_hand(case):
    network, weights, biases, obs, expected = case()
    layers = Layers(
        tuple(np.array(weight, np.float32) for weight in weights),
        tuple(np.array(bias, np.float32) for bias in biases),
    )
    assert network.fits(layers)
    outputs = network.forward(layers, np.array(obs, np.float32))
    np.testing.assert_allclose(outputs, expected, rtol=1e-6)
    module = network.module(1.0, None)
    module.load_state_dict({n: torch.from_numpy(x) for n, x in network.state(layers).items()})
    with torch.no_grad():
        in_torch = module(torch.tensor(obs, dtype=torch.float32))
    torch.testing.assert_close(in_torch, torch.from_numpy(outputs))


@each_kind
@given(order=st.permutations(range(5)))
def test_the_order_of_the_entities_does_not_matter(name, order):
    obs = entities_seen(5)
    moved = obs.copy()
    moved[:, 1:16] = obs[:, 1:16].reshape(-1, 5, 3)[:, order].reshape(-1, 15)
    moved[:, 16:] = obs[:, 16:].reshape(-1, 5, 5)[:, order][:, :, order].reshape(-1, 25)
    for actions in (True, False):
        layout = entity_layout(5, actions)
        plain = layout.to_plain()
        plain["edges"]["first"] = [[i, order.index(0)] for i in range(5)]
        network, moved_network = network_of(name, layout), network_of(name, layout_of(plain))
        layers = layers_of(network)
        outputs, expected = moved_network.forward(layers, moved), network.forward(layers, obs)
        if actions:
            scores = expected[:, 1:11].reshape(-1, 2, 5)[:, :, order].reshape(-1, 10)
            expected = np.concatenate([expected[:, :1], scores, expected[:, 11:]], axis=1)
        np.testing.assert_allclose(outputs, expected, rtol=1e-4, atol=1e-5)


def with_two_more(obs: Any) -> Any:
    """Observations of three entities as those of five, of which two do not exist."""
    edges = np.ones((len(obs), 5, 5), np.float32)
    edges[:, :3, :3] = obs[:, 10:].reshape(-1, 3, 3)
    nobody = np.zeros((len(obs), 6), np.float32)
    return np.concatenate([obs[:, :10], nobody, edges.reshape(len(obs), -1)], axis=1)


OF_THREE, OF_TWO_MORE = [0, 1, 2, 3, 6, 7, 8, 11], [4, 5, 9, 10]
"""Outputs for five entities: those that three have, too, and the others."""


@each_kind
def test_nobody_hears_of_an_entity_that_does_not_exist(name):
    few, many = network_of(name, entity_layout(3)), network_of(name, entity_layout(5))
    layers, obs = layers_of(few), entities_seen(3)
    assert many.fits(layers)
    outputs, expected = many.forward(layers, with_two_more(obs)), few.forward(layers, obs)
    np.testing.assert_allclose(outputs[:, OF_THREE], expected, rtol=1e-4, atol=1e-5)
    assert (outputs[:, OF_TWO_MORE] == -np.inf).all()
    critic = network_of(name, entity_layout(5, actions=False))
    assert np.isfinite(critic.forward(layers_of(critic), np.zeros((1, 41), np.float32))).all()


def agent_for(n: int, network: str) -> PPOAgent:
    layout = entity_layout(n)
    spaces = Spaces(layout.n_inputs, Categorical(layout.n_outputs), entities=layout)
    settings = {"network": network, "hidden_sizes": (6, 4), "minibatch_size": 5}
    return ppo_agent(spaces, **settings, normalise_obs=True)


@pytest.mark.parametrize("network", ["graph", "entities"])
def test_the_same_weights_play_and_go_on_learning_with_another_number(network):
    agent, larger, obs = agent_for(3, network), agent_for(5, network), entities_seen(3, 9)
    agent.update([acted_on(agent, obs)], 0.0)
    parameters = agent.policy_parameters()
    there = policy_on(parameters, entity_layout(5), Categorical(12))
    np.testing.assert_array_equal(there.obs_mean[:10], parameters.obs_mean[:10])
    np.testing.assert_array_equal(there.obs_mean[10:16], parameters.obs_mean[[1, 2, 3, 1, 2, 3]])
    outputs, expected = NumpyPolicy(there).outputs(with_two_more(obs)), NumpyPolicy(parameters)
    np.testing.assert_allclose(outputs[:, OF_THREE], expected.outputs(obs), rtol=1e-4, atol=1e-5)
    larger.load_policy(agent.state_dict())
    loaded = NumpyPolicy(larger.policy_parameters()).outputs(with_two_more(obs))
    np.testing.assert_array_equal(loaded, outputs)
    larger.update([acted_on(larger, entities_seen(5, 9))], 0.0)
    with pytest.raises(ValueError, match="entities are others"):
        larger.load_state_dict(agent.state_dict())
    without = layout_of({**entity_layout(5).to_plain(), "edges": {}})
    other = EntityLayout(4, {"features": [[0], [1]], "actions": [[0, 0], [0, 1]]})
    for layout, n_actions in ((without, 12), (other, 2)):
        with pytest.raises(ValueError, match="it learned with "):
            policy_on(parameters, layout, Categorical(n_actions))


def test_a_feature_does_not_pass_for_a_number_of_the_whole():
    """Both layouts have networks whose layers take as many numbers."""
    actions = [[0, 0], [0, 1]]
    two_and_one = EntityLayout(5, {"features": [[0, 1], [2, 3]], "actions": actions})
    one_and_two = EntityLayout(4, {"features": [[0], [1]], "actions": actions})
    with pytest.raises(ValueError, match="features: 2, and the environment has 1"):
        two_and_one.demand_like(one_and_two)
    two_and_one.demand_like(EntityLayout(5, {"features": [[0, 2], [4, 1]], "actions": actions}))


def test_fixed_edges_are_nothing_to_a_network_that_knows_none():
    tables = {"features": [[0], [1]], "actions": [[0, 0], [0, 1]]}
    plain, joined = EntityLayout(2, tables), EntityLayout(2, {**tables, "edges": {"a": [[0, 1]]}})
    agents = [
        ppo_agent(Spaces(2, Categorical(2), entities=layout), network="entities")
        for layout in (plain, joined)
    ]
    agents[1].load_state_dict(agents[0].state_dict())
    policy_on(agents[0].policy_parameters(), joined, Categorical(2))


def test_a_state_with_other_tables_is_refused():
    agent = agent_for(4, "entities")
    state = agent.state_dict()
    for wrong in (entity_layout(4, actions=False).to_plain(), {"features": 3}, None):
        with pytest.raises((ValueError, RuntimeError)):
            saved_policy(agent.config, {**state, "entities": wrong})


def test_the_networks_need_an_environment_with_entities_and_edges():
    layout = EntityLayout(2, {"features": [[0], [1]], "actions": [[0, 0], [0, 1]]})
    for network, spaces, words in (
        ("entities", Spaces(3, Categorical(2)), "declares its entities"),
        ("graph", Spaces(2, Categorical(2), entities=layout), "has no table `edges`"),
    ):
        with pytest.raises(ConfigError, match=words):
            find("ppo").distribution(spaces, PPOConfig(network=network))


@pytest.mark.parametrize(
    ("network", "args", "words"),
    [
        *(
            ("entities", {"heads": heads}, "does not divide the last hidden layer, 64, and is")
            for heads in (3, -1, "0")
        ),
        ("graph", {"rounds": 0}, "rounds=0 is not from 1 to"),
    ],
)
def test_wrong_arguments_are_refused(network, args, words):
    with pytest.raises(ConfigError, match=words):
        PPOConfig(network=network, network_args=args)


TWO = [[0], [1]]


@pytest.mark.parametrize(
    ("tables", "words"),
    [
        ({"features": [[0], [5]]}, "features holds 5"),
        ({"features": [0, 1]}, "no row for each entity"),
        ({"features": [[0.5]]}, "other things than integers"),
        ({"features": TWO, "actions": [[0, 2]]}, "names a verb or an entity"),
        ({"features": TWO, "present": [1]}, "present has not 2"),
        ({"features": TWO, "traits": [[1.0], [float("nan")]]}, "traits has not 2 rows"),
        ({"features": TWO, "traits": [[1.0], [10**400]]}, "traits has not 2 rows"),
        ({"features": TWO, "columns": 3}, "'columns' is none of"),
        ({"features": TWO, "edges": [[0, 1]]}, "no names of relations"),
        ({"features": TWO, "edges": {"a": [[0, 2]]}}, "'a' join an entity that is none"),
        ({"features": TWO, "edges": {"a": [[0, 1, 5]]}}, "'a' name a column that is none"),
        ({"features": TWO, "edges": {"a": [0, 1]}}, "no rows of 2 or 3 numbers"),
        ({"features": TWO, "edges": {"a": [[0.5, 1]]}}, "other things than integers"),
        (
            {"features": TWO, "edges": {str(n): [] for n in range(300_000)}},
            "could join more than",
        ),
    ],
)
def test_wrong_tables_are_refused(tables, words):
    with pytest.raises(ValueError, match=words):
        EntityLayout(5, tables)
