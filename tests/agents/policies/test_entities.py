"""A network on entities: the views agree, and neither the order nor absent entities matter."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from workflow_rl.agents.algorithm import find
from workflow_rl.agents.policies.distributions import Categorical
from workflow_rl.agents.policies.entities import Entities
from workflow_rl.agents.policies.entity_layout import EntityLayout
from workflow_rl.agents.policies.network import Layers
from workflow_rl.agents.policies.numpy_policy import NumpyPolicy
from workflow_rl.agents.policies.policy_file import load_policy, save_policy
from workflow_rl.agents.policies.torch_actor import TorchActor
from workflow_rl.agents.policy_from_checkpoint import saved_critic, saved_policy
from workflow_rl.agents.ppo.agent import PPOAgent
from workflow_rl.agents.ppo.config import PPOConfig
from workflow_rl.agents.spaces import Spaces
from workflow_rl.agents.trajectory import Trajectory
from workflow_rl.errors import ConfigError


def layout_for(n: int, actions: bool = True) -> EntityLayout:
    """Of n entities. An observation: one number of the whole; of each entity, whether it exists and
    two features. Actions: two of no entity, and two verbs."""
    rows = 1 + np.arange(3 * n).reshape(n, 3)
    verbs = [(verb, entity) for verb in range(2) for entity in range(n)]
    tables = {"present": rows[:, 0], "features": rows[:, 1:]}
    return EntityLayout(1 + 3 * n, {**tables, "actions": [(0, -1), *verbs, (1, -1)] * actions})


def network_of(layout: EntityLayout, heads: int = 2) -> Entities:
    args = {"heads": heads, "layout": layout.to_plain()}
    return Entities.of_sizes(layout.n_inputs, (6, 4), layout.n_outputs, "tanh", args)


def layers_of(network: Entities) -> Layers:
    return network.layers(network.module(1.0, torch.Generator().manual_seed(3)).state_dict())


def observations(n: int, m: int = 5) -> Any:
    obs = np.random.default_rng(0).normal(size=(m, 1 + 3 * n)).astype(np.float32)
    obs[:, 1::3] = np.arange(m * n).reshape(m, n) % 3 > 0
    return obs


attending_and_pooling = pytest.mark.parametrize("heads", [2, 0], ids=["attention", "pooling"])


@attending_and_pooling
@pytest.mark.parametrize("actions", [True, False], ids=["actor", "critic"])
def test_the_views_agree_and_a_row_has_the_same_bits_in_any_company(
    actions: bool, heads: int
) -> None:
    network = network_of(layout_for(5, actions), heads)
    module = network.module(1.0, torch.Generator().manual_seed(3))
    layers = network.layers(module.state_dict())
    assert network.knows(module.state_dict())
    assert network.fits(layers)
    again = Entities.of_layers(layers, "tanh", heads=heads, layout=network.layout)
    assert again == network
    obs = observations(5)
    outputs = network.forward(layers, obs)
    assert outputs.shape == (5, 12 if actions else 1)
    with torch.no_grad():
        torch.testing.assert_close(module(torch.from_numpy(obs)), torch.from_numpy(outputs))
    for n in range(5):
        np.testing.assert_array_equal(network.forward(layers, obs[n : n + 1])[0], outputs[n])


@attending_and_pooling
def test_a_row_has_the_same_bits_beside_others_that_lack_other_entities(heads: int) -> None:
    generator = np.random.default_rng(5)
    tables = {
        "features": np.arange(16 * 3).reshape(16, 3).tolist(),
        "actions": [*([0, n] for n in range(16)), [0, -1]],
        "present": list(range(0, 48, 3)),
    }
    layout = EntityLayout(60, tables).to_plain()
    network = Entities(60, (32,), 17, "tanh", heads=heads, layout=layout)
    layers = network.layers(network.module(1.0, torch.Generator().manual_seed(3)).state_dict())
    obs = generator.normal(size=(40, 60)).astype(np.float32)
    outputs = network.forward(layers, obs)
    for n in range(40):
        np.testing.assert_array_equal(network.forward(layers, obs[n : n + 1])[0], outputs[n])


def test_outputs_by_hand() -> None:
    tables = {"features": [[0], [-1]], "traits": [[0.0], [2.0]], "actions": [[0, 1], [0, 0]]}
    network = Entities(1, (1,), 2, "relu", 1, EntityLayout(1, tables).to_plain())
    weights = [[[1.0], [1.0]], [[1.0, 0.5, 3.0]], [[1.0], [1.0]], [[10.0]]]
    layers = Layers(
        tuple(np.array(one, np.float32) for one in weights),
        tuple(np.zeros(n, np.float32) for n in (1, 3, 1, 1)),
    )
    # The entities' hidden layers are 1 (the observation) and 2 (the trait): the first attends with
    # weights of exp(1 * 0.5) and exp(1 * 1) to the values 3 and 6.
    to_first, to_second = np.exp([[0.5, 1.0], [1.0, 2.0]])
    hidden = [1 + to_first @ [3, 6] / to_first.sum(), 2 + to_second @ [3, 6] / to_second.sum()]
    outputs = network.forward(layers, np.ones((1, 1), np.float32))
    np.testing.assert_allclose(outputs[0], [10 * hidden[1], 10 * hidden[0]], rtol=1e-5)
    module = network.module(1.0, None)
    module.load_state_dict({n: torch.from_numpy(x) for n, x in network.state(layers).items()})
    with torch.no_grad():
        torch.testing.assert_close(module(torch.ones(1, 1)), torch.from_numpy(outputs))


def test_the_mean_and_what_follows_by_hand() -> None:
    tables = {"features": [[0], [1]], "present": [0, 1]}
    network = Entities(2, (1,), 1, "relu", 1, EntityLayout(2, tables).to_plain())
    weights = [[[1.0]], [[0.0, 0.0, 1.0]], [[1.0], [1.0]], [[2.0]], [[5.0]]]
    biases = [np.zeros(n, np.float32) for n in (1, 3, 1, 1)] + [np.ones(1, np.float32)]
    layers = Layers(tuple(np.array(one, np.float32) for one in weights), tuple(biases))
    # All weights of the attention are equal: an entity gets the mean of those that exist.
    both, alone = network.forward(layers, np.array([[1, 3], [4, 0]], np.float32))[:, 0]
    assert both == pytest.approx(1 + 5 * 2 * ((1 + 2) + (3 + 2)) / 2)
    assert alone == pytest.approx(1 + 5 * 2 * (4 + 4))


def test_pooling_by_hand() -> None:
    """Two scores, and one output that belongs to no entity."""
    tables = {
        **{"features": [[0], [1]], "present": [0, 1], "traits": [[0.0], [10.0]]},
        "actions": [[0, 0], [0, 1], [0, -1]],
    }
    network = Entities(3, (1,), 3, "relu", 0, EntityLayout(3, tables).to_plain())
    weights = [[[1.0], [1.0], [0.5]], [[1.0], [2.0], [3.0]], [[7.0]], [[1.0], [2.0]], [[5.0]]]
    biases = [[0.0], [1.0], [0.0], [0.0], [4.0]]
    layers = Layers(
        tuple(np.array(weight, np.float32) for weight in weights),
        tuple(np.array(bias, np.float32) for bias in biases),
    )
    assert network.fits(layers)
    both, alone, none = network.forward(layers, np.array([[1, 3, 2], [4, 0, 2], [0, 0, 2]], "f4"))
    # Hidden: 0 + 1 + 1 and 10 + 3 + 1, of which the mean is 8 and the maximum 14.
    joined = 1 + 2 + 2 * 8 + 3 * 14, 1 + 14 + 2 * 8 + 3 * 14
    mean = sum(joined) / 2
    assert both.tolist() == [7 * joined[0], 7 * joined[1], 4 + 5 * (mean + 2 * joined[1])]
    own = 1 + 5 + 2 * 5 + 3 * 5
    assert alone.tolist() == [7 * own, -np.inf, 4 + 5 * (own + 2 * own)]
    assert none.tolist() == [-np.inf, -np.inf, 4]


@attending_and_pooling
@given(order=st.permutations(range(5)))
def test_the_order_of_the_entities_does_not_matter(heads: int, order: list[int]) -> None:
    for layout in (layout_for(5), layout_for(5, actions=False)):
        network, obs = network_of(layout, heads), observations(5)
        layers = layers_of(network)
        moved = obs.copy()
        moved[:, 1:] = obs[:, 1:].reshape(-1, 5, 3)[:, order].reshape(len(obs), -1)
        outputs, expected = (network.forward(layers, one) for one in (moved, obs))
        if len(layout.actions):
            scores = expected[:, 1:11].reshape(-1, 2, 5)[:, :, order].reshape(-1, 10)
            expected = np.concatenate([expected[:, :1], scores, expected[:, 11:]], axis=1)
        np.testing.assert_allclose(outputs, expected, rtol=1e-4, atol=1e-5)


@attending_and_pooling
def test_entities_that_do_not_exist_change_nothing_and_nothing_is_done_to_them(heads: int) -> None:
    few, many = network_of(layout_for(3), heads), network_of(layout_for(5), heads)
    layers, obs = layers_of(few), observations(3)
    assert many.fits(layers)
    padded = np.concatenate([obs, np.zeros((5, 6), np.float32)], axis=1)
    outputs, expected = many.forward(layers, padded), few.forward(layers, obs)
    np.testing.assert_allclose(
        outputs[:, [0, 1, 2, 3, 6, 7, 8, 11]], expected, rtol=1e-4, atol=1e-5
    )
    assert (outputs[:, [4, 5, 9, 10]] == -np.inf).all()
    nobody = np.zeros((1, 16), np.float32)
    critic = network_of(layout_for(5, actions=False), heads)
    assert np.isfinite(critic.forward(layers_of(critic), nobody)).all()


def agent_for(n: int, **settings: Any) -> PPOAgent:
    own = {"network": "entities", "hidden_sizes": (6, 4), "network_args": {"heads": 2}}
    config = PPOConfig(**{**own, "minibatch_size": 5, "normalise_obs": True, **settings})
    spaces = Spaces(1 + 3 * n, Categorical(2 + 2 * n), entities=layout_for(n))
    agent = find("ppo").make(config, spaces, 0, "cpu", 1)
    assert isinstance(agent, PPOAgent)
    return agent


def trajectory_of(agent: PPOAgent, n: int) -> Trajectory:
    obs, actor = observations(n, 9), agent.policy_parameters().actor()
    actor.reset(1)
    actions, log_probs = actor.act(obs[:-1], (0,) * 8)
    rewards = np.arange(8.0)
    return Trajectory(0, "", 0, obs[:-1], actions, log_probs, rewards, obs[-1], True, False)


@attending_and_pooling
def test_an_agent_learns_and_is_kept(tmp_path: Path, heads: int) -> None:
    agent = agent_for(4, network_args={"heads": heads})
    before = agent.policy_parameters()
    agent.update([trajectory_of(agent, 4)], 0.0)
    parameters = agent.policy_parameters()
    changed = zip(before.weights, parameters.weights, strict=True)
    assert all((one != other).any() for one, other in changed)
    state, settings = agent.state_dict(), agent.config
    saved = find("ppo").saved_policy(settings, state)
    obs = observations(4)
    expected = NumpyPolicy(parameters).outputs(obs)
    np.testing.assert_array_equal(NumpyPolicy(saved).outputs(obs), expected)
    critic = NumpyPolicy(saved_critic(settings, state)).outputs(obs)
    with torch.no_grad():
        values = agent.network.values(torch.from_numpy(obs))
    torch.testing.assert_close(values, torch.from_numpy(critic[:, 0]))
    save_policy(tmp_path / "policy.npz", parameters, {})
    loaded, _ = load_policy(tmp_path / "policy.npz")
    np.testing.assert_array_equal(NumpyPolicy(loaded).outputs(obs), expected)
    with torch.no_grad():
        torch.testing.assert_close(
            TorchActor(parameters)(torch.from_numpy(obs)), torch.from_numpy(expected)
        )


def test_the_same_weights_play_and_go_on_learning_with_another_number() -> None:
    agent, larger = agent_for(4), agent_for(6)
    agent.update([trajectory_of(agent, 4)], 0.0)
    parameters = agent.policy_parameters()
    there = parameters.on(layout_for(6), Categorical(14))
    assert there.obs_mean is not None
    assert parameters.obs_mean is not None
    np.testing.assert_array_equal(there.obs_mean[:13], parameters.obs_mean)
    np.testing.assert_array_equal(there.obs_mean[13:], parameters.obs_mean[[1, 2, 3, 1, 2, 3]])
    few = observations(4)
    padded = np.concatenate([few, np.zeros((5, 6), np.float32)], axis=1)
    outputs, expected = NumpyPolicy(there).outputs(padded), NumpyPolicy(parameters).outputs(few)
    np.testing.assert_allclose(outputs[:, :5], expected[:, :5], rtol=1e-4, atol=1e-5)
    larger.load_policy(agent.state_dict())
    np.testing.assert_array_equal(NumpyPolicy(larger.policy_parameters()).outputs(padded), outputs)
    larger.update([trajectory_of(larger, 6)], 0.0)
    with pytest.raises(ValueError, match="entities are others"):
        larger.load_state_dict(agent.state_dict())
    other = EntityLayout(4, {"features": [[0], [1]], "actions": [[0, 0], [0, 1]]})
    with pytest.raises(ValueError, match="it learned with "):
        parameters.on(other, Categorical(2))


def test_a_feature_does_not_pass_for_a_number_of_the_whole() -> None:
    """Both layouts have networks whose layers take as many numbers."""
    actions = [[0, 0], [0, 1]]
    two_and_one = EntityLayout(5, {"features": [[0, 1], [2, 3]], "actions": actions})
    one_and_two = EntityLayout(4, {"features": [[0], [1]], "actions": actions})
    with pytest.raises(ValueError, match="features: 2, and the environment has 1"):
        two_and_one.demand_like(one_and_two)
    two_and_one.demand_like(EntityLayout(5, {"features": [[0, 2], [4, 1]], "actions": actions}))


def test_a_state_with_other_tables_is_refused() -> None:
    agent = agent_for(4)
    state = agent.state_dict()
    for wrong in (layout_for(4, actions=False).to_plain(), {"features": 3}, None):
        with pytest.raises((ValueError, RuntimeError)):
            saved_policy(agent.config, {**state, "entities": wrong})


def test_the_network_needs_an_environment_with_entities() -> None:
    with pytest.raises(ConfigError, match="declares its entities"):
        find("ppo").distribution(Spaces(3, Categorical(2)), PPOConfig(network="entities"))
    for heads in (3, -1, "0"):
        with pytest.raises(ConfigError, match="does not divide the last hidden layer, 64, and is"):
            PPOConfig(network="entities", network_args={"heads": heads})


@pytest.mark.parametrize(
    ("tables", "words"),
    [
        ({"features": [[0], [5]]}, "features holds 5"),
        ({"features": [0, 1]}, "no row for each entity"),
        ({"features": [[0.5]]}, "other things than integers"),
        ({"features": [[0], [1]], "actions": [[0, 2]]}, "names a verb or an entity"),
        ({"features": [[0], [1]], "present": [1]}, "present has not 2"),
        ({"features": [[0], [1]], "traits": [[1.0], [float("nan")]]}, "traits has not 2 rows"),
        ({"features": [[0], [1]], "traits": [[1.0], [10**400]]}, "traits has not 2 rows"),
        ({"features": [[0], [1]], "columns": 3}, "'columns' is none of"),
    ],
)
def test_wrong_tables_are_refused(tables: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        EntityLayout(5, tables)
