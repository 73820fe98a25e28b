from typing import Any

import numpy as np
import pytest
import torch

from tests.agents.examples import episode_of, ppo_agent, same_networks
from workflow_rl.agents.algorithm import DivergedError
from workflow_rl.agents.policies.distributions import Categorical, Distribution
from workflow_rl.agents.policies.further_distributions import (
    DiagonalGaussian,
    Mixed,
    MultiCategorical,
)
from workflow_rl.agents.ppo.agent import PPOAgent
from workflow_rl.agents.ppo.config import PPOConfig
from workflow_rl.agents.spaces import Spaces
from workflow_rl.agents.trajectory import Trajectory

T, DISCOUNT = 12, 0.9


def agent_for(distribution: Distribution, masked: bool = False, **settings: Any) -> PPOAgent:
    small = {"hidden_sizes": (32,), "discount": DISCOUNT, "reward_scale": 1.0}
    return ppo_agent(Spaces(3, distribution, masked=masked), 1, **{**small, **settings})


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
        log_prob = np.zeros(T, np.float32)
        lesson = episode_of(rows, action, np.ones(T), log_prob, terminated=True, episode=episode)
        taught.append(lesson)
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
        (DiagonalGaussian(2), half, {"log_std_init": -0.5}, 2),
    ],
)
def test_a_copy_acts_as_its_teacher_in_other_episodes(distribution, teacher, settings, passes):
    episodes = lessons(teacher, 100)
    agent = agent_for(distribution, **settings)
    rows = list(agent.copy(episodes[:80], episodes[80:], passes))
    assert len(rows) == passes
    assert rows[-1].agreement > 0.9
    assert rows[-1].policy_loss < rows[0].policy_loss
    assert agent.policy_version == 0
    if distribution.has_log_std:  # The deviation stays.
        assert torch.equal(agent.network.log_std, torch.full((2,), -0.5))


def test_the_critic_learns_the_discounted_returns():
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


def test_a_truncated_episode_is_worth_what_its_last_observation_is():
    agent = agent_for(Categorical(3))
    cut = [one._replace(terminated=False, truncated=True) for one in lessons(sign, 100)]
    list(agent.copy(cut, cut, 10))
    with torch.no_grad():
        value = agent.network.values(torch.from_numpy(cut[0].obs)).mean()
    # A reward of 1 without end is worth 1 / (1 - DISCOUNT), and of 12 steps 4.7 on average.
    assert value > 7


def test_the_agreement_of_choices_and_numbers_is_that_of_the_worse_part():
    draw = np.random.default_rng(1)

    def guess(rows: Any) -> Any:
        return np.array([draw.integers(3), 20 * np.tanh(rows[-1, 0])], np.float32)

    agent = agent_for(Mixed((Categorical(3), DiagonalGaussian(1, (0.0,), (20.0,)))))
    taught, others = lessons(guess, 100), lessons(guess, 50)
    *_, last = agent.copy(taught, others, 20)
    # The numbers alone, which have nearly all of the variance, are copied well.
    assert last.agreement < 0.6


def test_masks_apply_and_an_action_that_they_rule_out_cannot_be_copied():
    episodes = lessons(sign, 60, masks=3)
    *_, last = agent_for(Categorical(3), masked=True).copy(episodes, episodes, 4)
    assert last.agreement > 0.95
    wrong = [one._replace(action=(one.action + 1) % 3) for one in episodes]
    with pytest.raises(DivergedError, match="policy's loss is inf"):
        list(agent_for(Categorical(3), masked=True).copy(wrong, wrong, 1))


def test_the_critic_learns_the_returns_whoever_estimates_advantages():
    ours, own = agent_for(Categorical(3)), agent_for(Categorical(3))
    own.advantages = lambda episodes: (0 * episodes.reward, 0 * episodes.value)
    taught = lessons(sign, 20)
    for agent in (ours, own):
        assert len(list(agent.copy(taught, [], 2))) == 2
    assert same_networks(ours, own)


def test_weights_by_advantage_prefer_what_did_well():
    good = [one._replace(episode=100 + n) for n, one in enumerate(lessons(sign, 40))]
    bad = [one._replace(reward=0 * one.reward) for one in lessons(lambda rows: 0, 60)]

    def agreement(beta: float) -> float:
        agent = agent_for(Categorical(3), teacher_beta=beta)
        *_, last = agent.copy(bad + good, lessons(sign, 10), 10)
        return last.agreement

    assert agreement(0.5) > agreement(0.0) + 0.2


CHOICES = Categorical(3)


def taught_agent(distribution: Any = CHOICES, **settings: Any) -> PPOAgent:
    agent = agent_for(distribution, learning_rate_final=3e-3, entropy_coef=0.0, **settings)
    act = half if isinstance(distribution, DiagonalGaussian) else sign
    episodes = lessons(act, 20)
    list(agent.copy(episodes[:18], episodes[18:], 2))
    return agent


def rollout(agent: PPOAgent) -> list[Trajectory]:
    """Episodes that pay for the first action, which the teacher takes seldom."""
    episodes = lessons(lambda rows: 0, 8)
    if isinstance(agent.distribution, DiagonalGaussian):
        episodes = lessons(lambda rows: np.ones(2, np.float32), 8)
    draw = np.random.default_rng(1)
    return [
        one._replace(policy_version=agent.policy_version, reward=draw.normal(size=T))
        for one in episodes
    ]


def likeliest(agent: PPOAgent) -> Any:
    actor, actions = agent.policy_parameters().actor(greedy=True), []
    for episode in rollout(agent):
        actor.reset(0)
        actions += [actor.act(row[None])[0][0] for row in episode.obs]
    return np.array(actions)


def test_the_weight_falls_linearly_to_nothing():
    config = PPOConfig(teacher_coef=2.0, teacher_until=0.4)
    weights = [config.at(progress).teacher_coef for progress in (0.0, 0.1, 0.2, 0.4, 1.0)]
    assert weights == pytest.approx([2.0, 1.5, 1.0, 0.0, 0.0])


@pytest.mark.parametrize(
    ("distribution", "settings"),
    [
        (Categorical(3), {}),
        (Categorical(3), {"normalise_obs": True, "shared_trunk": True}),
        (Categorical(3), {"network": "gru"}),
        (DiagonalGaussian(2), {}),
    ],
)
def test_the_loss_keeps_the_policy_close_to_the_copy(distribution, settings):
    def moved(coef: float) -> float:
        agent = taught_agent(distribution, teacher_coef=coef, **settings)
        before = likeliest(agent)
        told = [agent.update(rollout(agent), 0.0).teacher_loss for _ in range(6)]
        assert (told[-1] > 0) == (coef > 0)
        return float(np.abs(likeliest(agent) - before).mean())

    assert moved(100.0) < 0.5 * moved(0.0)


def test_a_loss_that_has_faded_changes_no_bit():
    agents = [taught_agent(teacher_coef=coef, teacher_until=0.5) for coef in (0.0, 5.0)]
    for agent in agents:
        assert agent.update(rollout(agent), 0.5).teacher_loss == 0
    assert same_networks(*agents)


@pytest.mark.parametrize("settings", [{}, {"normalise_obs": True}, {"network": "gru"}])
def test_a_restored_agent_goes_on_towards_the_same_copy(settings):
    agent = taught_agent(teacher_coef=3.0, **settings)
    agent.update(rollout(agent), 0.1)
    restored = agent_for(
        Categorical(3), learning_rate_final=3e-3, entropy_coef=0.0, teacher_coef=3.0, **settings
    )
    restored.load_state_dict(agent.state_dict())
    metrics = [one.update(rollout(one), 0.2) for one in (agent, restored)]
    assert metrics[0] == metrics[1]
    assert metrics[0].teacher_loss > 0
    assert same_networks(agent, restored)


def test_a_new_run_that_begins_with_the_agent_has_no_teacher():
    agent = taught_agent(teacher_coef=3.0)
    begun = agent_for(Categorical(3), teacher_coef=3.0)
    begun.load_policy(agent.state_dict())
    assert begun.update(rollout(begun), 0.0).teacher_loss == 0
