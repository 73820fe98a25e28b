"""Actors and critics that share layers, and critics that see more than the actor."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from workflow_rl.agents.algorithm import find
from workflow_rl.agents.policies.distributions import Categorical
from workflow_rl.agents.policies.numpy_policy import NumpyPolicy
from workflow_rl.agents.policies.torch_memory import Packed
from workflow_rl.agents.ppo.agent import PPOAgent
from workflow_rl.agents.ppo.config import PPOConfig
from workflow_rl.agents.spaces import Spaces
from workflow_rl.agents.trajectory import Trajectory
from workflow_rl.errors import ConfigError

D, P, A = 4, 2, 3


def agent_for(spaces: Spaces, **settings: Any) -> PPOAgent:
    own = {"hidden_sizes": (8, 6), "minibatch_size": 8, "epochs": 2}
    agent = find("ppo").make(PPOConfig(**{**own, **settings}), spaces, 0, "cpu", 2)
    assert isinstance(agent, PPOAgent)
    return agent


def rows_of(spaces: Spaces, m: int = 9) -> Any:
    rows = np.random.default_rng(1).normal(size=(m, D + spaces.privileged)).astype(np.float32)
    masks = np.ones((m, A * spaces.masked), np.float32)
    masks[:, 1:2] = 0
    return np.concatenate([rows, masks], axis=1)


def trajectory_of(agent: PPOAgent, rows: Any) -> Trajectory:
    actor = agent.policy_parameters().actor()
    actor.reset(1)
    actions, log_probs = zip(*(actor.act(row[None]) for row in rows[:-1]), strict=True)
    taken = np.concatenate(actions), np.concatenate(log_probs), np.arange(8.0)
    return Trajectory(0, "", agent.policy_version, rows[:-1], *taken, rows[-1], True, False)


@pytest.mark.parametrize("network", ["mlp", "gru", "lstm", "frame-stack"])
def test_a_shared_trunk_learns_both_and_is_kept(network: str) -> None:
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
    losses = [agent.update([trajectory_of(agent, rows)], 0.0).value_loss for _ in range(12)]
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
def test_the_critics_loss_is_weighed_in_a_shared_trunk(value_coef: float) -> None:
    agent = agent_for(spaces := Spaces(D, Categorical(A)), shared_trunk=True, value_coef=value_coef)
    # The values are the last outputs of the network.
    bias = list(agent.network.actor.parameters())[-1]
    before = bias.detach().clone()
    agent.update([trajectory_of(agent, rows_of(spaces))], 0.0)
    assert len(bias) == A + 1
    assert bool(bias[-1] == before[-1]) == (value_coef == 0)
    assert (bias[:-1] != before[:-1]).all()


def test_what_cannot_share_layers_is_refused() -> None:
    with pytest.raises(ConfigError, match="entities cannot share"):
        PPOConfig(network="entities", shared_trunk=True)
    with pytest.raises(ConfigError, match="sees more than the actor"):
        agent_for(Spaces(D, Categorical(A), privileged=P), shared_trunk=True)
    sac = find("sac")
    with pytest.raises(ConfigError, match="sac has no critic"):
        sac.distribution(Spaces(D, Categorical(A), privileged=P), sac.settings())


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("network", ["mlp", "gru"])
def test_only_the_critic_sees_what_is_privileged(network: str, masked: bool) -> None:
    spaces = Spaces(D, Categorical(A), masked=masked, privileged=P)
    agent = agent_for(spaces, network=network, normalise_obs=True)
    rows = rows_of(spaces)
    agent.update([trajectory_of(agent, rows)], 0.0)
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


def test_a_critic_that_sees_what_is_hidden_teaches_the_actor_sooner() -> None:
    """Chance pays or costs 30 beside the 1 for the right action. The state alone shows which."""

    def learned(n_hidden: int, seed: int) -> float:
        spaces = Spaces(1, Categorical(2), privileged=n_hidden)
        settings = {"minibatch_size": 200, "learning_rate": 0.01, "discount": 0.5, "epochs": 5}
        agent = agent_for(spaces, **settings, hidden_sizes=(16,), reward_scale=0.03)
        draw = np.random.default_rng(seed)
        for _ in range(40):
            rows = draw.choice([-1.0, 1.0], (25, 9, 1 + n_hidden)).astype(np.float32)
            luck = rows[:, :8, 1] if n_hidden else draw.choice([-1.0, 1.0], (25, 8))
            actor, episodes = agent.policy_parameters().actor(agent.policy_version), []
            for number, (seen, pays) in enumerate(zip(rows, luck, strict=True)):
                actor.reset(int(draw.integers(2**32)))
                taken = [actor.act(row[None]) for row in seen[:-1]]
                action, log_prob = (np.concatenate(column) for column in zip(*taken, strict=True))
                reward = (action == (seen[:-1, 0] > 0)) + 30.0 * pays
                told = seen[:-1], action, log_prob, reward, seen[-1], False, True
                episodes.append(Trajectory(number, "", agent.policy_version, *told))
            agent.update(episodes, 0.0)
        both = np.array([[-1.0], [1.0]], np.float32)
        outputs = agent.policy_parameters().actor().outputs(both)
        right = np.exp(outputs[[0, 1], [0, 1]]) / np.exp(outputs).sum(axis=1)
        return float(right.mean())

    seeing, blind = ([learned(n, seed) for seed in range(3)] for n in (1, 0))
    assert np.mean(seeing) > 0.85
    assert np.mean(seeing) > np.mean(blind) + 0.1
