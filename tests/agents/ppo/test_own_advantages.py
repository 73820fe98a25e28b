from typing import Any

import numpy as np
import pytest

from examples.own_advantages import DECOUPLED
from tests.agents.examples import episode_of, example_trajectory
from tests.agents.ppo.small_agents import (
    CONFIG,
    TRAJECTORIES,
    example_agent,
    older_trajectory,
    team_spaces,
    weights,
)
from workflow_rl.agents.policies.distributions import Categorical
from workflow_rl.agents.ppo.advantages import ValuedEpisodes, gae, gae_with_vtrace
from workflow_rl.agents.ppo.agent import PPOAgent
from workflow_rl.agents.ppo.algorithm import PPO
from workflow_rl.agents.spaces import Spaces
from workflow_rl.agents.team import ABSENT, ACTS, BUSY
from workflow_rl.agents.trajectory import Trajectory
from workflow_rl.errors import ConfigError

Pair = tuple[np.ndarray, np.ndarray]


def own_gae(episodes: ValuedEpisodes) -> Pair:
    return gae(episodes)


@pytest.mark.parametrize(
    "changes",
    [{}, {"network": "gru"}, {"shared_trunk": True}, {"normalise_returns": True}],
    ids=["mlp", "gru", "shared", "normalised"],
)
@pytest.mark.parametrize(("correction", "other"), [("none", "vtrace"), ("vtrace", "none")])
def test_what_an_own_estimator_repeats_gives_the_same_weights(correction, other, changes):
    # What is assigned counts, whatever the setting.
    ours, own = (example_agent(correction=one, **changes) for one in (correction, other))
    own.advantages = gae_with_vtrace if correction == "vtrace" else own_gae
    rewards = np.random.default_rng(1).normal(size=5).tolist()
    short = example_trajectory(rewards, seed=9, terminated=True)
    for _ in range(2):
        lagging = [older_trajectory(ours, TRAJECTORIES[0], 0.5)] if not changes else []
        rollout = [*TRAJECTORIES, short, *lagging]
        assert ours.update(rollout, 0.0) == own.update(rollout, 0.0)
    assert weights(ours) == weights(own)


def acted_in_a_team(seed: int) -> Trajectory:
    random = np.random.default_rng(seed)
    status = [
        (ACTS, ACTS),
        (BUSY, ACTS),
        (ACTS, BUSY),
        (ACTS, ACTS),
        (BUSY, ABSENT),
        (ACTS, ABSENT),
    ]
    rows = np.array([[*random.normal(size=2), *of] for of in status], np.float32)
    action = random.integers(2, size=(5, 2))
    log_prob = np.full((5, 2), np.log(0.5), np.float32)
    return episode_of(rows, action, random.normal(size=5), log_prob, episode=seed)


@pytest.mark.parametrize("policy_of", ["", "a=one,b=two"])
def test_an_own_estimator_serves_every_policy_of_a_team(policy_of):
    settings = CONFIG.changed(policy_of=policy_of)
    ours, own = (PPO().make(settings, team_spaces(), 0, "cpu", 1) for _ in range(2))
    durations = set()

    def noting(episodes: ValuedEpisodes) -> Pair:
        durations.update(episodes.discount.ravel().tolist())
        return own_gae(episodes)

    own.advantages = noting
    assert own.advantages is noting
    rollout = [acted_in_a_team(seed) for seed in range(6)]
    ours.update(rollout, 0.0)
    own.update(rollout, 0.0)
    assert durations == {0.99, 0.99**2}
    for name, tensor in ours.state_dict()["network"].items():
        assert tensor.equal(own.state_dict()["network"][name]), name


def test_the_two_lambdas_of_the_example_by_hand():
    # delta_t = r_t + 0.5 v_{t+1} - v_t is -2, 4, -2. At lambda 0.5: A_2 = -2, A_1 = 4 - 0.5,
    # A_0 = -2 + 0.875. At lambda 1, v + A are the discounted returns: 3 + 3, 2 + 3, 1 + 2.5.
    agent: Any = DECOUPLED.make(
        DECOUPLED.settings(critic_lambda=1.0), Spaces(6, Categorical(4)), 0, "cpu", 1
    )
    reward, value = np.array([[1.0], [2.0], [3.0]]), np.array([[4.0], [2.0], [8.0]])
    discount, ratio = np.full((3, 1), 0.5), np.ones((3, 1))
    episodes = ValuedEpisodes(reward, value, np.array([6.0]), discount, 0.5, ratio)
    advantage, target = agent.advantages(episodes)
    assert advantage.tolist() == [[-1.125], [3.5], [-2.0]]
    assert target.tolist() == [[3.5], [5.0], [6.0]]


@pytest.mark.parametrize(
    ("estimate", "found"),
    [
        (lambda episodes: episodes.reward, "returns a ndarray"),
        (lambda episodes: None, "returns a NoneType"),
        (lambda episodes: (episodes.reward[0], episodes.reward), r"shapes \[\(4,\), \(10, 4\)\]"),
        (lambda episodes: (episodes.reward,), r"shapes \[\(10, 4\)\]"),
    ],
)
def test_what_is_no_estimate_is_refused(estimate, found):
    agent = example_agent()
    agent.advantages = estimate
    with pytest.raises(ConfigError, match=found) as error:
        agent.update(TRAJECTORIES, 0.0)
    assert error.value.field_name == "algorithm"


def test_a_subclass_gives_its_estimator_as_it_gives_its_losses():
    class Own(PPOAgent):
        advantages = staticmethod(own_gae)

    made = Own(CONFIG.changed(correction="vtrace"), Spaces(2, Categorical(2)), seed=0)
    assert made.advantages is own_gae
