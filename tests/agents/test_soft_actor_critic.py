from __future__ import annotations

import copy
import math

import numpy as np
import pytest
import torch

from agents.distributions import Categorical
from agents.networks import ActorCritic
from agents.replay import Transitions
from agents.soft_actor_critic import SoftActorCritic, Steps, soft_value, steps_of


def learner(target_entropy: float = 0.3, seed: int = 0) -> SoftActorCritic:
    network = ActorCritic(2, Categorical(2), (16,), "relu", seed)
    return SoftActorCritic(network, (16,), 0.5, 3e-3, 0.05, target_entropy, seed)


def bandit(n_steps: int = 64) -> Steps:
    """In either state, action 1 brings 1 and ends the episode; action 0 brings 0 and goes on."""
    random = np.random.default_rng(0)
    state = random.integers(0, 2, n_steps)
    obs = np.eye(2, dtype=np.uint8)[state]
    action = random.integers(0, 2, n_steps)
    reward = action.astype(float)
    return steps_of(Transitions(obs, action, reward, obs, action == 1), reward_scale=1.0)


def test_soft_value_by_hand() -> None:
    q, log_prob = torch.tensor([[1.0, 3.0]]), torch.log(torch.tensor([[0.25, 0.75]]))
    value = soft_value(q, log_prob, torch.tensor(2.0))
    entropy = -(0.25 * math.log(0.25) + 0.75 * math.log(0.75))
    assert value.tolist() == pytest.approx([0.25 + 2.25 + 2 * entropy])


def test_target_by_hand() -> None:
    one = learner()
    with torch.no_grad():
        for module, bias in zip(one.targets, ([1.0, 2.0], [3.0, 0.0]), strict=True):
            for weight in module.parameters():
                weight.zero_()
            module[-1].bias.copy_(torch.tensor(bias))
        for weight in one.network.actor.parameters():
            weight.zero_()
    steps = bandit(4)
    # The lesser of both, for a policy that chooses either with 1/2: (1 + 0) / 2.
    ahead = 0.5 * (0.5 + 0.2 * math.log(2))
    expected = steps.reward + steps.going_on * ahead
    assert one.target_of(steps, torch.tensor(0.2)).tolist() == pytest.approx(expected.tolist())


def test_it_learns_what_pays() -> None:
    one = learner(target_entropy=0.05)
    steps = bandit()
    for _ in range(600):
        metrics = one.learn(steps)
    probability = torch.softmax(one.network.actor(steps.obs), dim=-1)[:, 1]
    assert probability.min() > 0.9
    assert metrics.entropy.item() < 0.3
    # Action 1 brings 1; the state's value is about that.
    assert one.network.critic(steps.obs).detach().numpy() == pytest.approx(1.0, abs=0.15)


def test_the_temperature_holds_the_entropy() -> None:
    high, low = learner(target_entropy=0.65), learner(target_entropy=0.1)
    for _ in range(800):
        metrics = [one.learn(bandit()) for one in (high, low)]
    assert metrics[0].entropy > 0.55
    assert metrics[1].entropy < 0.25
    assert metrics[0].temperature > metrics[1].temperature


def test_targets_follow_slowly() -> None:
    one = learner()
    before = one.targets[0][0].weight.clone()
    one.learn(bandit())
    now, target = one.critics[0][0].weight, one.targets[0][0].weight
    torch.testing.assert_close(target, before + 0.05 * (now - before))


def test_a_loaded_learner_goes_on_alike() -> None:
    one, other = learner(), learner(seed=7)
    for _ in range(3):
        one.learn(bandit())
    other.network.load_state_dict(one.network.state_dict())
    other.load_state_dict(copy.deepcopy(one.state_dict()))

    metrics = [it.learn(bandit()) for it in (one, other)]

    assert metrics[0] == metrics[1]
    for ours, theirs in zip(
        [*one.network.parameters(), *one.targets.parameters(), one.log_temperature],
        [*other.network.parameters(), *other.targets.parameters(), other.log_temperature],
        strict=True,
    ):
        assert torch.equal(ours, theirs)
