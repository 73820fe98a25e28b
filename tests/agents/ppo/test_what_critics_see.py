from typing import Any

import numpy as np
import pytest
import torch

from tests.agents.examples import acted_on, episode_of, ppo_agent
from tests.agents.ppo.small_agents import team_spaces
from workflow_rl.agents.algorithm import find
from workflow_rl.agents.policies.distributions import Categorical
from workflow_rl.agents.policies.numpy_policy import NumpyPolicy
from workflow_rl.agents.policies.torch_memory import Packed
from workflow_rl.agents.ppo.agent import PPOAgent
from workflow_rl.agents.ppo.algorithm import PPO
from workflow_rl.agents.ppo.config import PPOConfig
from workflow_rl.agents.spaces import Spaces
from workflow_rl.agents.team import ACTS
from workflow_rl.agents.trajectory import Trajectory
from workflow_rl.errors import ConfigError

D, P, A = 4, 2, 3


def agent_for(spaces: Spaces, **settings: Any) -> PPOAgent:
    small = {"hidden_sizes": (8, 6), "minibatch_size": 8, "epochs": 2}
    return ppo_agent(spaces, threads=2, **{**small, **settings})


def rows_of(spaces: Spaces, m: int = 9) -> Any:
    rows = np.random.default_rng(1).normal(size=(m, D + spaces.privileged)).astype(np.float32)
    masks = np.ones((m, A * spaces.masked), np.float32)
    masks[:, 1:2] = 0
    return np.concatenate([rows, masks], axis=1)


@pytest.mark.parametrize("network", ["mlp", "gru", "lstm", "frame-stack"])
def test_a_shared_trunk_learns_both_and_is_kept(network):
    spaces = Spaces(D, Categorical(A), masked=True)
    agent, apart = (
        agent_for(spaces, network=network, shared_trunk=shared, epochs=20)
        for shared in (True, False)
    )
    n_parameters, n_apart = (
        sum(one.numel() for one in an_agent.network.parameters()) for an_agent in (agent, apart)
    )
    last = agent.network.actor_network.hidden_sizes[-1] + 1
    assert n_apart == 2 * (n_parameters - (A + 1) * last) + (A + 1) * last
    rows = rows_of(spaces)
    losses = [agent.update([acted_on(agent, rows)], 0.0).value_loss for _ in range(12)]
    assert losses[-1] < losses[0] / 2
    state, settings = agent.state_dict(), agent.config
    policy: Any = find("ppo").saved_policy(settings, state)
    critic, _ = find("ppo").saved_critic(settings, state)
    seen: Any = torch.from_numpy(rows[:1])
    with torch.no_grad():
        outputs, values = agent.network(Packed(seen, (1,)) if agent.network.has_memory else seen)
    own = NumpyPolicy(policy).outputs(rows[:1])
    assert own[0, 1] == -np.inf
    np.testing.assert_allclose(outputs.numpy(), own, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(
        values.numpy(), NumpyPolicy(critic).outputs(rows[:1, :D])[:, 0], rtol=1e-4, atol=1e-5
    )
    again = agent_for(spaces, network=network, shared_trunk=True)
    again.load_state_dict(state)
    np.testing.assert_array_equal(NumpyPolicy(again.policy_parameters()).outputs(rows[:1]), own)
    with pytest.raises((RuntimeError, ValueError)):
        apart.load_state_dict(state)


@pytest.mark.parametrize("value_coef", [0.0, 0.5])
def test_the_critics_loss_is_weighed_in_a_shared_trunk(value_coef):
    agent = agent_for(spaces := Spaces(D, Categorical(A)), shared_trunk=True, value_coef=value_coef)
    # The values are the last outputs of the network.
    bias = list(agent.network.actor.parameters())[-1]
    before = bias.detach().clone()
    agent.update([acted_on(agent, rows_of(spaces))], 0.0)
    assert len(bias) == A + 1
    assert bool(bias[-1] == before[-1]) == (value_coef == 0)
    assert (bias[:-1] != before[:-1]).all()


def test_what_cannot_share_layers_is_refused():
    with pytest.raises(ConfigError, match="entities cannot share"):
        PPOConfig(network="entities", shared_trunk=True)
    with pytest.raises(ConfigError, match="sees more than the actor"):
        agent_for(Spaces(D, Categorical(A), privileged=P), shared_trunk=True)
    sac = find("sac")
    with pytest.raises(ConfigError, match="sac has no critic"):
        sac.distribution(Spaces(D, Categorical(A), privileged=P), sac.settings())


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("network", ["mlp", "gru"])
def test_only_the_critic_sees_what_is_privileged(network, masked):
    spaces = Spaces(D, Categorical(A), masked=masked, privileged=P)
    agent = agent_for(spaces, network=network, normalise_obs=True)
    rows = rows_of(spaces)
    agent.update([acted_on(agent, rows)], 0.0)
    other = rows.copy()
    other[:, D : D + P] += 1
    seen, changed = (
        Packed(torch.from_numpy(one), (1,) * 9)
        if agent.network.has_memory
        else torch.from_numpy(one)
        for one in (rows, other)
    )
    with torch.no_grad():
        (outputs, values), (same, others) = (agent.network(one) for one in (seen, changed))
    assert torch.equal(outputs, same)
    assert not torch.equal(values, others)
    critic, _ = find("ppo").saved_critic(agent.config, agent.state_dict())
    assert critic.described().n_inputs == D + P
    parameters = agent.policy_parameters()
    saved: Any = find("ppo").saved_policy(agent.config, agent.state_dict())
    np.testing.assert_array_equal(saved.obs_mean, parameters.obs_mean)
    with_it, without, in_file = parameters.actor(), parameters.actor(), saved.actor()
    for row in rows:
        own = np.delete(row, slice(D, D + P))
        taken = [one.act(x) for one, x in ((with_it, row), (without, own), (in_file, row))]
        assert {int(action[0]) for action, _ in taken} == {int(taken[0][0][0])}
        assert {float(log_prob[0]) for _, log_prob in taken} == {float(taken[0][1][0])}
    with pytest.raises(ValueError, match="observations of shape"):
        with_it.act(rows[0, 1:])
    plain = agent_for(Spaces(D, Categorical(A), masked=masked), network=network, normalise_obs=True)
    with pytest.raises(ValueError, match="sees other numbers"):
        plain.load_policy(agent.state_dict())


def guessed(reward_of: np.ndarray, seed: int) -> Trajectory:
    """One step of two agents, who see nothing; the state, which is random, is the reward."""
    rows = np.array([[0, 0, ACTS, ACTS, reward_of[0]], [0, 0, ACTS, ACTS, 0]], np.float32)
    action = np.random.default_rng(seed).integers(2, size=(1, 2))
    log_prob = np.full((1, 2), np.log(0.5), np.float32)
    return episode_of(rows, action, reward_of, log_prob, terminated=True, episode=seed)


def test_only_a_central_critic_learns_what_the_state_says():
    spaces = team_spaces(state_size=1)
    losses = {}
    for critic in ("own", "central"):
        settings = PPOConfig(
            critic=critic, hidden_sizes=(16,), epochs=20, minibatch_size=64, learning_rate=0.02,
            normalise_obs=True, reward_scale=1.0,
        )  # fmt: skip
        agent = PPO().make(settings, spaces, 0, "cpu", 1)
        rewards = np.random.default_rng(0).choice([-1.0, 1.0], size=(64, 1))
        for _ in range(3):
            metrics = agent.update([guessed(one, n) for n, one in enumerate(rewards)], 0.0)
        losses[critic] = metrics.whole.value_loss
        # Workers need nothing of the critic.
        saved = PPO().saved_policy(settings, agent.state_dict())
        assert saved.parameters["a"].described().n_inputs == 3
        acting = agent.policy_parameters().parameters["a"]
        assert np.array_equal(saved.parameters["a"].weights[0], acting.weights[0])
        assert np.array_equal(saved.parameters["a"].obs_mean, acting.obs_mean)
        again = PPO().make(settings, spaces, 1, "cpu", 1)
        again.load_state_dict(agent.state_dict())
        again.load_policy(agent.state_dict())
    assert losses["central"] < 0.05
    assert losses["own"] > 0.3


def test_losses_of_your_own_are_those_of_every_policy_of_a_team():
    spaces = team_spaces(state_size=1)
    agent: Any = PPO().make(PPOConfig(policy_of="a=one,b=two"), spaces, 0, "cpu", 1)
    agent.policy_loss = lambda ratio, advantage, clip_range: (ratio * 0).mean() + 7
    agent.value_loss = lambda value, return_: (value * 0).mean() + 5
    metrics = agent.update([guessed(np.ones(1), 0)], 0.0)
    for policy in metrics.of_each.values():
        assert (policy.policy_loss, policy.value_loss) == (7, 5)
    # The whole's gradient steps are those of all policies, and each has columns of its own.
    steps = [policy.gradient_steps for policy in metrics.of_each.values()]
    told = metrics._asdict()
    assert told["gradient_steps"] == sum(steps) >= 2
    assert [told["gradient_steps_one"], told["gradient_steps_two"]] == steps
    assert told["value_gradient_norm_one"] == 0  # The losses are constant.
    assert {*PPO().metrics_of(agent.learners["one"].config, spaces)} == {*told}
