"""A critic that sees more than its actor."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from workflow_rl.agents.policies.actor_critic import ActorCritic
from workflow_rl.agents.policies.distributions import Categorical
from workflow_rl.agents.ppo.algorithm import PPO
from workflow_rl.agents.ppo.config import PPOConfig
from workflow_rl.agents.spaces import Spaces
from workflow_rl.agents.team import ACTS, TeamLayout
from workflow_rl.agents.trajectory import Trajectory


def test_the_critic_sees_further_numbers_and_the_actor_does_not() -> None:
    network = ActorCritic(1, Categorical(2), (), "tanh", 0, masked=True, n_further=2)
    with torch.no_grad():
        network.actor[0].weight[:] = torch.tensor([[1.0], [2.0]])
        network.critic[0].weight[:] = torch.tensor([[1.0, 10.0, 100.0]])
    rows = torch.tensor([[3.0, 4.0, 5.0, 1.0, 0.0], [1.0, 0.0, 2.0, 1.0, 1.0]])
    assert network.values(rows).tolist() == [543, 201]
    assert network.outputs(rows).tolist() == [[3, -np.inf], [1, 2]]
    assert network.policy_parameters().weights[0].shape == (1, 2)


def guessed(reward_of: np.ndarray, seed: int) -> Trajectory:
    """One step of two agents, who see nothing; the state, which is random, is the reward."""
    rows = np.array([[0, 0, ACTS, ACTS, reward_of[0]], [0, 0, ACTS, ACTS, 0]], np.float32)
    action = np.random.default_rng(seed).integers(2, size=(1, 2))
    log_prob = np.full((1, 2), np.log(0.5), np.float32)
    return Trajectory(seed, "", 0, rows[:1], action, log_prob, reward_of, rows[1], True, False)


def test_only_a_central_critic_learns_what_the_state_says() -> None:
    layout = TeamLayout(("a", "b"), (1, 1), (2, 2), state_size=1)
    spaces = Spaces(layout.obs_dim, Categorical(4), team=layout)
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


def test_losses_of_your_own_are_those_of_every_policy_of_a_team() -> None:
    layout = TeamLayout(("a", "b"), (1, 1), (2, 2), state_size=1)
    spaces = Spaces(layout.obs_dim, Categorical(4), team=layout)
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
