"""The teacher stays: a loss towards its copy, which fades."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.agents.ppo.test_copy import T, agent_for, lessons, sign
from workflow_rl.agents.policies.distributions import Categorical
from workflow_rl.agents.policies.further_distributions import DiagonalGaussian
from workflow_rl.agents.ppo.agent import PPOAgent
from workflow_rl.agents.ppo.config import PPOConfig
from workflow_rl.agents.trajectory import Trajectory

CHOICES = Categorical(3)


def half(rows: Any) -> Any:
    return 0.5 * rows[-1, :2]


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


def test_the_weight_falls_linearly_to_nothing() -> None:
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
def test_the_loss_keeps_the_policy_close_to_the_copy(
    distribution: Any, settings: dict[str, Any]
) -> None:
    def moved(coef: float) -> float:
        """Return how far the likeliest actions have moved from those of the copy."""
        agent = taught_agent(distribution, teacher_coef=coef, **settings)
        before = likeliest(agent)
        told = [agent.update(rollout(agent), 0.0).teacher_loss for _ in range(6)]
        assert (told[-1] > 0) == (coef > 0)
        return float(np.abs(likeliest(agent) - before).mean())

    assert moved(100.0) < 0.5 * moved(0.0)


def test_a_loss_that_has_faded_changes_no_bit() -> None:
    ends = []
    for coef in (0.0, 5.0):
        agent = taught_agent(teacher_coef=coef, teacher_until=0.5)
        assert agent.update(rollout(agent), 0.5).teacher_loss == 0
        ends.append(agent.network.state_dict())
    assert all(tensor.equal(ends[1][name]) for name, tensor in ends[0].items())


@pytest.mark.parametrize("settings", [{}, {"normalise_obs": True}, {"network": "gru"}])
def test_a_restored_agent_goes_on_towards_the_same_copy(settings: dict[str, Any]) -> None:
    agent = taught_agent(teacher_coef=3.0, **settings)
    agent.update(rollout(agent), 0.1)
    restored = agent_for(
        Categorical(3), learning_rate_final=3e-3, entropy_coef=0.0, teacher_coef=3.0, **settings
    )
    restored.load_state_dict(agent.state_dict())
    metrics = [one.update(rollout(one), 0.2) for one in (agent, restored)]
    assert metrics[0] == metrics[1]
    assert metrics[0].teacher_loss > 0
    weights, others = (one.network.state_dict() for one in (agent, restored))
    assert all(tensor.equal(others[name]) for name, tensor in weights.items())


def test_a_new_run_that_begins_with_the_agent_has_no_teacher() -> None:
    agent = taught_agent(teacher_coef=3.0)
    begun = agent_for(Categorical(3), teacher_coef=3.0)
    begun.load_policy(agent.state_dict())
    assert begun.update(rollout(begun), 0.0).teacher_loss == 0
