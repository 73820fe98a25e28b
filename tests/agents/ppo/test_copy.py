"""How an agent copies a teacher's episodes before its first update."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from workflow_rl.agents.algorithm import DivergedError, find
from workflow_rl.agents.policies.distributions import Categorical, Distribution
from workflow_rl.agents.policies.further_distributions import (
    DiagonalGaussian,
    Mixed,
    MultiCategorical,
)
from workflow_rl.agents.ppo.agent import PPOAgent
from workflow_rl.agents.ppo.config import PPOConfig
from workflow_rl.agents.ppo.losses import copy_weights
from workflow_rl.agents.spaces import Spaces
from workflow_rl.agents.trajectory import Trajectory

T, DISCOUNT = 12, 0.9


def agent_for(distribution: Distribution, masked: bool = False, **settings: Any) -> PPOAgent:
    small = {"hidden_sizes": (32,), "discount": DISCOUNT, "reward_scale": 1.0}
    spaces = Spaces(3, distribution, masked=masked)
    agent = find("ppo").make(PPOConfig(**{**small, **settings}), spaces, 1, "cpu", 1)
    assert isinstance(agent, PPOAgent)
    return agent


def lessons(act: Any, n: int, masks: int = 0) -> list[Trajectory]:
    """Return n episodes of a teacher, which acts on rows [T, 3]. Each step pays 1."""
    draw = np.random.default_rng(0)
    taught = []
    for episode in range(n):
        rows = draw.normal(size=(T + 1, 3)).astype(np.float32)
        action = np.stack([np.asarray(act(rows[: t + 1])) for t in range(T)])
        if masks:
            free = np.ones((T + 1, masks), np.float32)
            free[np.arange(T), (action + 1) % masks] = 0
            rows = np.concatenate([rows, free], axis=1)
        log_prob, reward = np.zeros(T, np.float32), np.ones(T)
        seen = rows[:-1], action, log_prob, reward, rows[-1]
        taught.append(Trajectory(episode, "", 0, *seen, terminated=True, truncated=False))
    return taught


def sign(rows: Any) -> int:
    return int(rows[-1, 0] > 0) + int(rows[-1, 1] > 0)


def first_sign(rows: Any) -> int:
    return int(rows[0, 0] > 0)


def both_signs(rows: Any) -> Any:
    return (rows[-1, :2] > 0).astype(np.int64)


def half(rows: Any) -> Any:
    return 0.5 * rows[-1, :2]


@pytest.mark.parametrize(
    ("distribution", "teacher", "settings", "passes"),
    [
        (Categorical(3), sign, {"shared_trunk": True, "normalise_obs": True}, 15),
        (Categorical(2), first_sign, {"network": "gru"}, 8),
        (MultiCategorical((2, 2)), both_signs, {"normalise_returns": True}, 4),
        (DiagonalGaussian(2), half, {}, 2),
    ],
)
def test_a_copy_acts_as_its_teacher_in_episodes_that_it_has_not_seen(
    distribution: Distribution, teacher: Any, settings: dict[str, Any], passes: int
) -> None:
    episodes = lessons(teacher, 100)
    agent = agent_for(distribution, **settings)
    rows = list(agent.copy(episodes[:80], episodes[80:], passes))
    assert len(rows) == passes
    assert rows[-1].agreement > 0.9
    assert rows[-1].policy_loss < rows[0].policy_loss
    assert agent.policy_version == 0


def test_the_same_seed_gives_the_same_copy() -> None:
    episodes = lessons(sign, 10)
    agents = [agent_for(Categorical(3)) for _ in range(2)]
    rows, again = (list(agent.copy(episodes[:8], episodes[8:], 2)) for agent in agents)
    assert rows == again
    weights, others = (agent.state_dict()["network"] for agent in agents)
    assert all(torch.equal(weights[name], others[name]) for name in weights)


def test_the_critic_learns_the_discounted_returns() -> None:
    agent = agent_for(Categorical(3))
    episodes = lessons(sign, 100)
    clock = np.linspace(-1, 1, T + 1, dtype=np.float32)
    for episode in episodes:
        episode.obs[:, 2], episode.last_obs[2] = clock[:-1], clock[-1]
    *_, last = agent.copy(episodes, episodes, 12)
    returns = [(1 - DISCOUNT ** (T - t)) / (1 - DISCOUNT) for t in range(T)]
    with torch.no_grad():
        values = agent.network.values(torch.from_numpy(episodes[0].obs)).numpy()
    assert np.abs(values - returns).max() < 0.5
    assert last.value_loss < 0.1


def test_a_truncated_episode_is_worth_what_its_last_observation_is() -> None:
    agent = agent_for(Categorical(3))
    cut = [one._replace(terminated=False, truncated=True) for one in lessons(sign, 100)]
    list(agent.copy(cut, cut, 10))
    with torch.no_grad():
        value = agent.network.values(torch.from_numpy(cut[0].obs)).mean()
    # A reward of 1 without end is worth 1 / (1 - DISCOUNT), and of 12 steps 4.7 on average.
    assert value > 7


def test_the_agreement_of_choices_and_numbers_is_that_of_the_worse_part() -> None:
    draw = np.random.default_rng(1)

    def guess(rows: Any) -> Any:
        return np.array([draw.integers(3), 20 * np.tanh(rows[-1, 0])], np.float32)

    agent = agent_for(Mixed((Categorical(3), DiagonalGaussian(1, (0.0,), (20.0,)))))
    taught, others = lessons(guess, 100), lessons(guess, 50)
    *_, last = agent.copy(taught, others, 20)
    # The numbers alone, which have nearly all of the variance, are copied well.
    assert last.agreement < 0.6


def test_masks_apply_and_an_action_that_they_rule_out_cannot_be_copied() -> None:
    episodes = lessons(sign, 60, masks=3)
    *_, last = agent_for(Categorical(3), masked=True).copy(episodes, episodes, 4)
    assert last.agreement > 0.95
    wrong = [one._replace(action=(one.action + 1) % 3) for one in episodes]
    with pytest.raises(DivergedError, match="policy's loss is inf"):
        list(agent_for(Categorical(3), masked=True).copy(wrong, wrong, 1))


def test_the_deviation_of_continuous_actions_stays() -> None:
    agent = agent_for(DiagonalGaussian(2), log_std_init=-0.5)
    episodes = lessons(half, 40)
    list(agent.copy(episodes, episodes, 1))
    assert torch.equal(agent.network.log_std, torch.full((2,), -0.5))


def test_the_critic_learns_the_returns_whoever_estimates_advantages() -> None:
    ours, own = agent_for(Categorical(3)), agent_for(Categorical(3))
    own.advantages = lambda episodes: (0 * episodes.reward, 0 * episodes.value)
    taught = lessons(sign, 20)
    for agent in (ours, own):
        assert len(list(agent.copy(taught, [], 2))) == 2
    for name, tensor in ours.network.state_dict().items():
        assert tensor.equal(own.network.state_dict()[name]), name


def test_weights_by_advantage_prefer_what_did_well() -> None:
    good = [one._replace(episode=100 + n) for n, one in enumerate(lessons(sign, 40))]
    bad = [one._replace(reward=0 * one.reward) for one in lessons(lambda rows: 0, 60)]

    def agreement(beta: float) -> float:
        agent = agent_for(Categorical(3), teacher_beta=beta)
        *_, last = agent.copy(bad + good, lessons(sign, 10), 10)
        return last.agreement

    assert agreement(0.5) > agreement(0.0) + 0.2


def test_weights_by_advantage_are_1_on_average() -> None:
    weights = copy_weights(torch.tensor([-1.0, 1.0, 0.0]), 0.5)
    assert weights.mean() == pytest.approx(1)
    assert weights[1] / weights[0] == pytest.approx(np.exp(2 / (0.5 * np.sqrt(2 / 3))))
    assert copy_weights(torch.ones(3), 0.5).tolist() == [1, 1, 1]
