from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.agents.examples import episode_of, same_networks
from tests.agents.policies.layouts import ATARI, GRID, TWO, bytes_of
from workflow_rl.agents.policies.convolutional import CNN, Image, ImageLayout, image_layout_of
from workflow_rl.agents.policies.distributions import Categorical
from workflow_rl.agents.policies.network import Layers
from workflow_rl.agents.policies.numpy_policy import NumpyPolicy
from workflow_rl.agents.policies.policy_file import load_policy, save_policy
from workflow_rl.agents.policies.torch_actor import TorchActor
from workflow_rl.agents.ppo import minibatches
from workflow_rl.agents.ppo.agent import PPOAgent
from workflow_rl.agents.ppo.config import PPOConfig
from workflow_rl.agents.spaces import Spaces
from workflow_rl.agents.trajectory import Trajectory
from workflow_rl.errors import UserError


def network_of(layout: ImageLayout, **args: Any) -> CNN:
    args["layout"] = layout.to_plain()
    return CNN.of_sizes(layout.n_inputs, (6, 4), 5, "tanh", args)


def agent_of(layout: ImageLayout, **settings: Any) -> PPOAgent:
    settings = {"hidden_sizes": (8,), "minibatch_size": 8, "epochs": 2, **settings}
    config = PPOConfig(network="cnn", **settings)
    return PPOAgent(config, Spaces(layout.n_inputs, Categorical(3), images=layout), 1)


def episode(layout: ImageLayout, dtype: Any = np.uint8) -> Trajectory:
    chance, obs = np.random.default_rng(1), bytes_of(layout, 21).astype(dtype)
    log_prob = np.full(20, -np.log(3), np.float32)
    reward, action = chance.normal(size=20), chance.integers(3, size=20)
    return episode_of(obs, action, reward, log_prob, terminated=True)


def test_a_convolution_by_hand():
    """One filter of 2 x 2 on 3 x 4 numbers, one step apart; the output adds what it puts out."""
    layout = ImageLayout(13, [Image(0, 3, 4, 1, False, 2.0)])
    args = {"convolutions": [[1, 2, 1]], "layout": layout.to_plain()}
    network = CNN.of_sizes(13, (), 1, "tanh", args)
    rows = np.array([[1.0, 2.0], [3.0, -4.0]], np.float32)  # As an image: row, column.
    after = np.array([[1], [2], [3], [4], [5], [6], [10]], np.float32)
    layers = Layers(
        (rows.T[:, :, None, None], after), (np.array([-1], np.float32), np.zeros(1, np.float32))
    )
    assert network.fits(layers)
    image = np.array([[2, 0, 4, 0], [0, 2, 0, 0], [4, 0, 0, 2]], np.float32)
    # Halved: [[1, 0, 2, 0], [0, 1, 0, 0], [2, 0, 0, 1]].
    places = [
        *(1 - 4 - 1, 2 * 2 + 3 - 1, 2 - 1),
        *(2 + 3 * 2 - 1, 1 - 1, -4 - 1),
    ]
    seen = np.maximum(places, 0)
    expected = float(seen @ [1, 2, 3, 4, 5, 6]) + 10 * 7
    obs = np.append(image.ravel(), np.float32(7))[None]
    assert network.forward(layers, obs).tolist() == [[expected]]
    module = network.module(1.0, None)
    module.load_state_dict({n: torch.from_numpy(x) for n, x in network.state(layers).items()})
    with torch.no_grad():
        assert module(torch.from_numpy(obs)).tolist() == [[expected]]


@given(st.integers(3, 9), st.integers(3, 9), st.integers(1, 4))
def test_the_order_of_the_channels_does_not_matter(height, width, channels):
    n = height * width * channels
    last, first = (
        network_of(ImageLayout(n, [Image(0, height, width, channels, is_first, 255.0)]))
        for is_first in (False, True)
    )
    layers = last.layers(last.module(1.0, torch.Generator().manual_seed(1)).state_dict())
    obs = np.random.default_rng(n).normal(size=(2, height, width, channels)).astype(np.float32)
    np.testing.assert_array_equal(
        last.forward(layers, obs.reshape(2, n)),
        first.forward(layers, obs.transpose(0, 3, 1, 2).reshape(2, n)),
    )


def test_the_layers_are_those_of_the_paper():
    shapes = [weight for weight, _ in network_of(ATARI).shapes()]
    assert shapes[:4] == [(8, 8, 4, 32), (4, 4, 32, 64), (3, 3, 64, 64), (7 * 7 * 64, 6)]


@pytest.mark.parametrize(
    ("convolutions", "words"),
    [
        ([[4, 8, 1]], "size 8 do not fit into the 7 x 7"),
        ([[4, 3, 2], [4, 4, 1]], "size 4 do not fit into the 3 x 3"),
    ],
)
def test_filters_that_do_not_fit_are_refused(convolutions, words):
    with pytest.raises(UserError, match=words):
        network_of(GRID, convolutions=convolutions)


@pytest.mark.parametrize(
    "convolutions", [[], 3, "a", [[1, 2]], [[1, 2, 0]], [[1, 2, 1.5]], [[True, 2, 1]], [1, 2, 3]]
)
def test_what_are_no_convolutions_is_refused(convolutions):
    with pytest.raises(ValueError, match="are no rows of filters, size and stride"):
        PPOConfig(network="cnn", network_args={"convolutions": convolutions})


@pytest.mark.parametrize(
    "damage",
    [
        *({"n_inputs": 146}, {"n_inputs": "147"}, {"images": []}, {"images": 3}, {"images": [[0]]}),
        *({"images": [[0, 7, 7, "3", False, 255.0]]}, {"images": [[0, 7, 7, 3, 0, 255.0]]}),
        *({"images": [[0, 7, 7, 3, False, 0.0]]}, {"images": [[0, 7, 7, 3, False, np.nan]]}),
        *({"images": [[0, 2, 7, 3, False, 1.0]]}, {"images": [[-1, 7, 7, 3, False, 1.0]]}),
        {"images": [[0, 3, 3, 3, False, 1.0], [26, 3, 3, 3, False, 1.0]]},
    ],
)
def test_damaged_layouts_are_refused(damage):
    assert image_layout_of(GRID.to_plain()).to_plain() == GRID.to_plain()
    with pytest.raises(ValueError, match="images: "):
        image_layout_of({**GRID.to_plain(), **damage})


def test_numbers_are_normalised_and_images_are_not(tmp_path):
    agent = agent_of(TWO, normalise_obs=True)
    trajectory = episode(TWO, np.float32)
    agent.update([trajectory], 0.0)
    normalised = np.flatnonzero(agent.obs_moments.mean).tolist()
    assert normalised == TWO.numbers.tolist() == [0, 1, 2, 79]
    policy = agent.policy_parameters()
    save_policy(tmp_path / "policy.npz", policy, {})
    loaded, _ = load_policy(tmp_path / "policy.npz")
    obs = trajectory.obs.copy()
    obs[0, 0] = 1e6  # Beyond what is clipped.
    outputs = NumpyPolicy(loaded).outputs(obs)
    with torch.no_grad():
        exported = TorchActor(policy).eval()(torch.from_numpy(obs))
        learned = agent.network.outputs(agent._on_device(obs))
    np.testing.assert_allclose(outputs, exported, atol=1e-5)
    np.testing.assert_allclose(outputs, learned, atol=1e-5)
    further = obs.copy()
    further[0, 0] = 1e7
    np.testing.assert_array_equal(NumpyPolicy(loaded).outputs(further), outputs)
    images = np.tile(trajectory.obs[:1], (2, 1))
    images[:, 3:79] = [[20.0], [30.0]]  # Beyond the limit of numbers.
    darker, brighter = NumpyPolicy(loaded).outputs(images)
    assert not np.array_equal(darker, brighter)


def test_bytes_stay_bytes_until_the_network_and_give_the_same_weights():
    agents = [agent_of(GRID, normalise_obs=normalise) for normalise in (True, False)]
    assert agents[0].obs_moments is None
    assert agents[0]._on_device(bytes_of(GRID)).dtype == torch.uint8
    for agent, dtype in zip(agents, (np.uint8, np.float32), strict=True):
        agent.update([episode(GRID, dtype)], 0.0)
    # Rows that may repeat come in another order.
    assert same_networks(*agents, atol=1e-5)


def test_many_images_are_valued_in_parts(monkeypatch):
    whole, parts = agent_of(ATARI, epochs=1), agent_of(ATARI, epochs=1)
    whole.update([episode(ATARI)], 0.0)
    monkeypatch.setattr(minibatches, "MOST_NUMBERS", 5 * ATARI.n_inputs)
    parts.update([episode(ATARI)], 0.0)
    assert same_networks(whole, parts, atol=1e-5)


def test_an_agent_that_learned_on_other_images_is_refused():
    state = agent_of(TWO).state_dict()
    with pytest.raises(ValueError, match="its images are others"):
        agent_of(GRID).load_state_dict(state)
    with pytest.raises(ValueError, match="it learned on images of 2 channels x 5 x 6"):
        agent_of(GRID).load_policy(state)
