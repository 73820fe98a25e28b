"""The losses and gradients of an update of PPO, beside those computed here."""

from __future__ import annotations

import copy
import math

import numpy as np
import pytest
import torch
from torch import Tensor

from tests.agents.examples import example_trajectory
from tests.agents.ppo.small_agents import (
    CONFIG,
    NO_CLIPPING,
    ONE_STEP,
    TRAJECTORIES,
    collect,
    counting_agent,
    example_agent,
    gradients_of,
    gradients_of_steps,
    norm,
    policy_trajectory,
    silence_critic,
)
from tests.tiny_envs import CountingEnv
from workflow_rl.agents.ppo.advantages import estimate_advantages
from workflow_rl.agents.ppo.config import PPOMetrics
from workflow_rl.agents.ppo.minibatches import stack_obs


def test_metrics_of_off_policy_steps_by_hand():
    # Every ratio is 2, beyond the clip range 0.2. One step of reward 3 that terminates, a critic
    # that answers 0: the advantage and the return are 3.
    agent = example_agent(ONE_STEP, normalise_advantage=False, entropy_coef=0.0)
    silence_critic(agent)
    before = copy.deepcopy(agent.network.critic)[:-1].requires_grad_(False)
    trajectory = example_trajectory([3.0], terminated=True)
    metrics = agent.update([policy_trajectory(agent, trajectory, math.log(2))], 0.0)
    # The clipped objective is constant. The critic's gradient is -3 by its last bias and -3 h by
    # its last weights, where h is its hidden layer, and 0.5 times that with value_coef.
    assert agent.config.value_coef == 0.5
    hidden = before(torch.from_numpy(trajectory.obs).float()).numpy()
    expected = PPOMetrics(
        policy_loss=-1.2 * 3,
        value_loss=0.5 * 3**2,
        entropy=math.log(4),
        approx_kl=1 - math.log(2),
        clip_fraction=1.0,
        explained_variance=math.nan,
        learning_rate=1e-3,
        policy_lag_min=0,
        policy_lag_mean=0.0,
        policy_lag_max=0,
        stale_fraction=0.0,
        policy_gradient_norm=0.0,
        value_gradient_norm=0.5 * 3 * math.sqrt(1 + float((hidden**2).sum())),
        effective_share=1.0,
        gradient_steps=1,
    )
    assert tuple(metrics) == pytest.approx(tuple(expected), rel=1e-3, nan_ok=True)


def test_the_gradient_at_ratio_1_is_the_policy_gradient():
    agent = counting_agent(
        ONE_STEP, entropy_coef=0.02, value_coef=0.7, max_grad_norm=NO_CLIPPING, reward_scale=0.5
    )
    trajectories = collect(agent, CountingEnv, range(6))
    obs, last_obs = (torch.from_numpy(array).float() for array in stack_obs(trajectories))
    logits, value = agent.network(obs)
    with torch.no_grad():
        last_value = agent.network.critic(last_obs).squeeze(-1)
    batch = estimate_advantages(
        trajectories,
        value.detach().double().numpy(),
        last_value.double().numpy(),
        agent.config.discount,
        agent.config.gae_lambda,
        lambda reward: 0.5 * reward,
    )
    advantage = torch.from_numpy((batch.advantage - batch.advantage.mean()) / batch.advantage.std())
    policy = torch.distributions.Categorical(logits=logits)
    log_prob = policy.log_prob(torch.from_numpy(np.concatenate([t.action for t in trajectories])))
    squared_error = (value - torch.from_numpy(batch.return_)) ** 2
    loss = (
        -(advantage * log_prob).mean()
        + 0.7 * squared_error.mean() / 2
        - 0.02 * policy.entropy().mean()
    )
    loss.backward()
    expected = gradients_of(agent)

    (gradients,) = gradients_of_steps(agent, trajectories)
    assert gradients.keys() == expected.keys() == dict(agent.network.named_parameters()).keys()
    for name, gradient in gradients.items():
        torch.testing.assert_close(gradient, expected[name], rtol=1e-4, atol=1e-6)
        assert gradient.abs().max() > 1e-4


def test_gradients_are_clipped_for_actor_and_critic_apart():
    def gradients(max_grad_norm: float) -> list[dict[str, Tensor]]:
        agent = example_agent(
            reward_scale=50.0, normalise_advantage=False, max_grad_norm=max_grad_norm
        )
        return gradients_of_steps(agent, TRAJECTORIES)

    unclipped, clipped = gradients(NO_CLIPPING), gradients(0.3)
    assert len(clipped) == 6
    for part in ("actor", "critic"):
        assert all(norm(step, part) > 1.0 for step in unclipped)
        assert [norm(step, part) for step in clipped] == pytest.approx([0.3] * 6, rel=1e-4)
        # The direction stays: the first step starts from the same weights.
        scale = 0.3 / norm(unclipped[0], part)
        for name in (name for name in clipped[0] if name.startswith(part)):
            torch.testing.assert_close(
                clipped[0][name], scale * unclipped[0][name], rtol=1e-3, atol=1e-7
            )


def test_losses_of_ones_own_are_learned_from():
    agent = example_agent()
    agent.policy_loss = lambda ratio, advantage, clip_range: 0 * ratio.sum() + clip_range
    agent.value_loss = lambda value, return_: 0 * value.sum() + len(return_)
    metrics = agent.update(TRAJECTORIES, 0.0)
    assert metrics.policy_loss == pytest.approx(CONFIG.clip_range)
    assert metrics.value_loss == pytest.approx((16 + 16 + 8) / 3)
    before = example_agent().network.critic.state_dict()
    after = agent.network.critic.state_dict()
    assert all(torch.equal(after[name], one) for name, one in before.items())
