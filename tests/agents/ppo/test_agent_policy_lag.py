import math
from typing import Any

import numpy as np
import pytest
import torch

from tests.agents.examples import example_trajectory
from tests.agents.ppo.small_agents import (
    ONE_STEP,
    TRAJECTORIES,
    collect,
    counting_agent,
    example_agent,
    older_trajectory,
    silence_critic,
    weights,
)
from tests.tiny_envs import CountingEnv
from workflow_rl.agents.ppo.advantages import estimate_advantages, gae_with_vtrace
from workflow_rl.agents.ppo.agent import PPOAgent
from workflow_rl.agents.ppo.minibatches import stack_obs
from workflow_rl.agents.trajectory import Trajectory


def test_vtrace_takes_each_steps_own_ratio():
    agent = example_agent(correction="vtrace")
    log_ratios = np.linspace(-2, 1, 10, dtype=np.float32)
    acted = [older_trajectory(agent, t, 0.0) for t in TRAJECTORIES]
    acted = [t._replace(log_prob=t.log_prob - log_ratios) for t in acted]
    obs, last_obs = stack_obs(acted)
    with torch.no_grad():
        value, last_value = (
            agent.network(torch.from_numpy(rows).float())[1].double().numpy()
            for rows in (obs, last_obs)
        )
    ratio = np.tile(np.exp(log_ratios), 4)
    expected = estimate_advantages(
        acted, value, last_value, 0.99, 0.95, ratio=ratio, estimate=gae_with_vtrace
    )
    _, batch, _ = agent.make_batch(acted)
    np.testing.assert_allclose(batch.advantage, expected.advantage, atol=1e-5)
    np.testing.assert_allclose(batch.return_, expected.return_, atol=1e-5)
    uncorrected = estimate_advantages(acted, value, last_value, 0.99, 0.95)
    assert np.abs(expected.return_ - uncorrected.return_).max() > 0.1


@pytest.mark.parametrize(
    ("log_ratio", "decoupled_clip", "policy_loss"),
    [
        # Twice as likely as when it was taken: the weight is at most 1, and so is the ratio to the
        # policy at the start. Around the one that acted, the ratio 2 is clipped to 1.2.
        (math.log(2), True, -3.0),
        (math.log(2), False, -3.6),
        # Half as likely: the weight is a half. Around the one that acted, so is the ratio.
        (-math.log(2), True, -1.5),
        (-math.log(2), False, -1.5),
    ],
)
def test_decoupled_clip_by_hand(log_ratio, decoupled_clip, policy_loss):
    agent = example_agent(ONE_STEP, normalise_advantage=False, decoupled_clip=decoupled_clip)
    silence_critic(agent)
    trajectory = example_trajectory([3.0], terminated=True)
    lagging = older_trajectory(agent, trajectory, log_ratio)
    metrics = agent.update([lagging], 0.0)
    assert metrics.policy_loss == pytest.approx(policy_loss, rel=1e-5)
    is_clipped = log_ratio > 0 and not decoupled_clip
    assert metrics.clip_fraction == (1 if not decoupled_clip else 0)
    # What is clipped away has no gradient; the entropy bonus is left.
    assert (metrics.policy_gradient_norm < 0.05) is is_clipped


def test_without_lag_both_clips_are_the_same_bit_for_bit():
    agents = [counting_agent(decoupled_clip=decoupled) for decoupled in (True, False)]
    for _ in range(2):
        trajectories = collect(agents[0], CountingEnv, range(6))
        metrics = [agent.update(trajectories, 0.0) for agent in agents]
        assert metrics[0] == metrics[1]
    assert weights(agents[0]) == weights(agents[1])


def trajectory_of_version(policy_version: int, length: int) -> Trajectory:
    rewards = np.random.default_rng(policy_version).normal(size=length)
    trajectory = example_trajectory(rewards.tolist(), seed=policy_version)
    return trajectory._replace(policy_version=policy_version)


def agent_at_version_5(**changes: Any) -> PPOAgent:
    """An agent that has learned before, so that Adam's state is not empty."""
    agent = example_agent(**changes)
    agent.update(TRAJECTORIES, 0.0)
    agent.policy_version = 5
    return agent


def test_stale_steps_are_left_out_and_the_learning_rate_scaled_by_the_share_that_remains():
    # Lag 2 is within the limit, lags 3 and 5 are beyond. 10 of 40 steps remain.
    valid, stale, staler = (
        trajectory_of_version(version, length) for version, length in ((3, 10), (2, 18), (0, 12))
    )
    agent, alone = agent_at_version_5(max_policy_lag=2), agent_at_version_5()
    metrics = agent.update([stale, valid, staler], progress=0.5)
    assert metrics.stale_fraction == 0.75
    assert metrics.learning_rate == 0.25 * 0.5e-3

    alone.config = alone.config.changed(learning_rate=0.25 * 1e-3)
    assert alone.update([valid], progress=0.5)[:7] == metrics[:7]
    assert weights(agent) == weights(alone)


def test_a_lag_within_the_limit_changes_no_bit():
    rollout = [trajectory_of_version(version, 10) for version in (5, 3, 0)]
    agents = [agent_at_version_5(decoupled_clip=False, max_policy_lag=limit) for limit in (None, 5)]
    expected = agents[0].update([t._replace(policy_version=5) for t in rollout], 0.0)
    assert agents[1].update(rollout, 0.0)[:7] == expected[:7]
    assert weights(agents[0]) == weights(agents[1])


@pytest.mark.parametrize(("limit", "stale_fraction"), [(None, 0.0), (4, 0.75)])
def test_the_lag_is_measured_over_all_steps(limit, stale_fraction):
    # Lags 1 and 5 over 10 and 30 steps.
    rollout = [trajectory_of_version(4, 10), trajectory_of_version(0, 30)]
    metrics = agent_at_version_5(max_policy_lag=limit).update(rollout, 0.0)
    assert metrics[7:11] == (1, 4.0, 5, stale_fraction)


def test_a_wholly_stale_rollout_teaches_nothing_but_counts():
    def learned(agent: PPOAgent) -> list[Any]:
        states = agent.optimizer.state.values()
        moments = [tensor.tolist() for state in states for tensor in state.values()]
        return [weights(agent), moments, agent.optimizer.learning_rate]

    agent = agent_at_version_5(max_policy_lag=0)
    before = learned(agent)
    rollout = [trajectory_of_version(4, 10), trajectory_of_version(2, 30)]
    metrics = agent.update(rollout, progress=0.5)
    assert learned(agent) == before
    assert agent.policy_version == 6
    assert all(math.isnan(value) for value in metrics[:6])
    assert metrics[6:11] == (0.0, 1, 2.5, 3, 1.0)

    agent.update([trajectory_of_version(6, 10)], progress=0.5)
    assert learned(agent) != before
