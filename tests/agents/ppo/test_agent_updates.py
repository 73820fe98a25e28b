import copy
import math
import pickle
from collections.abc import Iterator
from typing import Any

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
    optimizer_steps,
    policy_trajectory,
    silence_critic,
    weights,
)
from tests.tiny_envs import CountingEnv
from workflow_rl.agents.policies.distributions import Categorical
from workflow_rl.agents.ppo.advantages import estimate_advantages
from workflow_rl.agents.ppo.agent import PPOAgent
from workflow_rl.agents.ppo.config import PPOMetrics
from workflow_rl.agents.ppo.minibatches import Minibatch, RolloutObs, stack_obs
from workflow_rl.agents.spaces import Spaces
from workflow_rl.agents.trajectory import Trajectory


def test_an_update_leaves_the_trajectories_as_they_were():
    before = pickle.dumps(TRAJECTORIES)
    example_agent().update(TRAJECTORIES, 0.0)
    assert pickle.dumps(TRAJECTORIES) == before


def orders_of_update(seed: int = 0, policy_version: int = 0) -> list[list[float]]:
    """The order of the steps in each epoch of one update: their advantages, which all differ."""
    agent = example_agent(seed=seed)
    agent.policy_version = policy_version
    orders: list[list[float]] = []
    minibatches = RolloutObs.minibatches

    def record(*arguments: Any) -> Iterator[Minibatch]:
        orders.append([])
        for minibatch in minibatches(*arguments):
            orders[-1] += minibatch.steps.advantage.tolist()
            yield minibatch

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(RolloutObs, "minibatches", record)
        agent.update(TRAJECTORIES, 0.0)
    return orders


def test_every_epoch_takes_every_step_once_in_an_order_of_its_own():
    first, second = orders_of_update()
    assert sorted(first) == sorted(second)
    assert len(set(first)) == 40
    assert first != second


def test_the_order_follows_from_the_seed_and_the_number_of_the_update():
    orders = orders_of_update(seed=1, policy_version=3)
    torch.manual_seed(99)
    assert orders_of_update(seed=1, policy_version=3) == orders
    assert orders_of_update(seed=1, policy_version=4)[0] not in orders
    assert orders_of_update(seed=2, policy_version=3)[0] not in orders


@pytest.mark.parametrize(
    ("minibatch_size", "steps"), [(16, 2 * 3), (40, 2 * 1), (1000, 2 * 1), (39, 2 * 2), (1, 2 * 40)]
)
def test_one_optimizer_step_for_each_minibatch_of_each_epoch(minibatch_size, steps):
    agent = example_agent(minibatch_size=minibatch_size, normalise_advantage=minibatch_size > 1)
    agent.update(TRAJECTORIES, 0.0)
    assert optimizer_steps(agent) == steps


@pytest.mark.parametrize(("progress", "expected"), [(0.0, 1e-3), (0.25, 7.75e-4), (1.0, 1e-4)])
def test_the_learning_rate_falls_linearly(progress, expected):
    # 1e-3 + progress * (1e-4 - 1e-3)
    agent = example_agent(learning_rate=1e-3, learning_rate_final=1e-4)
    assert agent.update(TRAJECTORIES, progress).learning_rate == pytest.approx(expected)
    assert agent.optimizer.learning_rate == pytest.approx(expected)


def test_adams_first_step_is_the_learning_rate_against_the_gradients_sign():
    # m = (1 - beta1) g and v = (1 - beta2) g^2, bias-corrected: a step of lr * g / (|g| + 1e-5).
    agent = example_agent(ONE_STEP, learning_rate=0.01)
    before = {name: p.detach().clone() for name, p in agent.network.named_parameters()}
    (gradients,) = gradients_of_steps(agent, TRAJECTORIES)
    for name, parameter in agent.network.named_parameters():
        step = 0.01 * gradients[name] / (gradients[name].abs() + 1e-5)
        torch.testing.assert_close(parameter, before[name] - step, rtol=1e-4, atol=1e-6)


def test_target_kl_is_exceeded_by_half_before_it_stops():
    # Every ratio is e, so the estimated KL is e - 1 - 1 = 0.718.
    agent = example_agent(ONE_STEP)
    stale = [policy_trajectory(agent, t, log_ratio=1.0) for t in TRAJECTORIES]
    for target_kl, steps in ((0.47, 0), (0.49, 1)):
        agent = example_agent(ONE_STEP, target_kl=target_kl)
        metrics = agent.update(stale, 0.0)
        assert optimizer_steps(agent) == steps
        assert agent.policy_version == 1
        assert metrics.approx_kl == pytest.approx(math.e - 2, rel=1e-4)


def test_the_second_thread_sums_as_the_first_does():
    """Matrix products large enough for their library to split among cores, if it may."""
    random = np.random.default_rng(0)
    trajectory = example_trajectory(random.normal(size=200).tolist())
    wide = trajectory._replace(
        obs=random.normal(size=(200, 3000)).astype(np.float32),
        last_obs=random.normal(size=3000).astype(np.float32),
    )
    config = CONFIG.changed(activation="relu", hidden_sizes=(64, 64))
    one, two = (PPOAgent(config, Spaces(3000, Categorical(4)), seed=0) for _ in range(2))
    two.two_threads = True
    assert one.update([wide], 0.0) == two.update([wide], 0.0)
    assert weights(one) == weights(two)


@pytest.mark.parametrize("two_threads", [False, True])
def test_the_norms_told_are_those_of_the_gradients_before_they_are_clipped(two_threads):
    (step,) = gradients_of_steps(example_agent(ONE_STEP, max_grad_norm=NO_CLIPPING), TRAJECTORIES)
    clipped = example_agent(ONE_STEP, max_grad_norm=1e-3)
    clipped.two_threads = two_threads
    told = clipped.update(TRAJECTORIES, 0.0)
    assert told.policy_gradient_norm == pytest.approx(norm(step, "actor"), rel=1e-4)
    assert told.value_gradient_norm == pytest.approx(norm(step, "critic"), rel=1e-4)
    # Over several steps it is their mean.
    steps = gradients_of_steps(example_agent(max_grad_norm=NO_CLIPPING), TRAJECTORIES)
    told = example_agent(max_grad_norm=NO_CLIPPING).update(TRAJECTORIES, 0.0)
    mean = sum(norm(step, "critic") for step in steps) / 6
    assert told.value_gradient_norm == pytest.approx(mean, rel=1e-4)
    assert told.gradient_steps == len(steps) == 6


@pytest.mark.parametrize(("target_kl", "steps"), [(1e-9, 1), (0.01, 1), (1e9, 5), (None, 5)])
def test_target_kl_stops_an_update_early(target_kl, steps):
    # In the first epoch the policy is still the one that acted; a step of 0.1 overshoots.
    agent = counting_agent(ONE_STEP, learning_rate=0.1, epochs=5, target_kl=target_kl)
    metrics = agent.update(collect(agent, CountingEnv, range(6)), 0.0)
    assert metrics.gradient_steps == optimizer_steps(agent) == steps


def test_a_shared_trunk_has_one_gradient():
    shared = example_agent(shared_trunk=True).update(TRAJECTORIES, 0.0)
    assert shared.policy_gradient_norm > 0
    assert math.isnan(shared.value_gradient_norm)


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


def repeating_trajectories() -> list[Trajectory]:
    """Of few observations, of a kind that repeats."""
    trajectories = [example_trajectory(np.sin(np.arange(20.0) + n), seed=n) for n in range(3)]
    bits = np.random.default_rng(0).integers(2, size=(5, 6)).astype(np.uint8)
    return [
        t._replace(obs=bits[(np.arange(t.length) + n) % 5], last_obs=bits[n])
        for n, t in enumerate(trajectories)
    ]


def test_a_minibatch_of_whole_observations_has_the_gradient_of_its_steps():
    steps, observations = (
        gradients_of_steps(
            example_agent(ONE_STEP, minibatches_of=kind, max_grad_norm=NO_CLIPPING),
            repeating_trajectories(),
        )[0]
        for kind in ("steps", "observations")
    )
    for name, gradient in observations.items():
        assert torch.allclose(gradient, steps[name], rtol=1e-4, atol=1e-6)


def test_minibatches_of_whole_observations_share_none(monkeypatch):
    agent = example_agent(epochs=2, minibatch_size=20, minibatches_of="observations")
    seen = []
    learn = agent._learn_values

    def watched(minibatch: Minibatch) -> torch.Tensor:
        seen.append({row.tobytes() for row in minibatch.obs.numpy()})
        return learn(minibatch)

    monkeypatch.setattr(agent, "_learn_values", watched)
    agent.update(repeating_trajectories(), 0.0)
    assert len(seen) == 6
    for epoch in (seen[:3], seen[3:]):
        assert sum(map(len, epoch)) == len(set.union(*epoch)) == 5
    assert seen[:3] != seen[3:]


def test_repeated_observations_learn_as_if_each_were_computed_by_itself(monkeypatch):
    trajectories = [example_trajectory(np.sin(np.arange(20.0) + n), seed=n) for n in range(3)]
    repeated = [t._replace(obs=t.obs[np.arange(t.length) % 4]) for t in trajectories]
    agent, plain = example_agent(), example_agent()
    metrics = agent.update(repeated, 0.0)

    def every_row(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return rows, np.arange(len(rows))

    monkeypatch.setattr("workflow_rl.agents.ppo.agent.distinct_rows", every_row)
    expected = pytest.approx(metrics, rel=1e-4, abs=1e-5, nan_ok=True)
    assert plain.update(repeated, 0.0) == expected
    for ours, theirs in zip(agent.network.parameters(), plain.network.parameters(), strict=True):
        assert torch.allclose(ours, theirs, atol=1e-5)
