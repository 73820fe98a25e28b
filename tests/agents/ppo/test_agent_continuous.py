from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import torch

from tests.agents.examples import episode_of, through_a_file
from tests.agents.ppo.small_agents import collect
from tests.any_envs import TargetEnv
from workflow_rl.agents.policies.distributions import Categorical, Distribution
from workflow_rl.agents.policies.further_distributions import (
    DiagonalGaussian,
    Mixed,
    MultiCategorical,
)
from workflow_rl.agents.policies.numpy_policy import NumpyPolicy
from workflow_rl.agents.ppo.agent import PPOAgent
from workflow_rl.agents.ppo.config import PPOConfig
from workflow_rl.agents.ppo.minibatches import stack_obs
from workflow_rl.agents.spaces import Spaces
from workflow_rl.agents.trajectory import Trajectory
from workflow_rl.environments.flat_env import FlatEnv

CONFIG = PPOConfig(
    hidden_sizes=(16,),
    learning_rate=1e-2,
    learning_rate_final=1e-2,
    epochs=2,
    minibatch_size=1000,
    entropy_coef=0.0,
    reward_scale=1.0,
    normalise_obs=True,
    normalise_returns=True,
)


def example_agent(
    distribution: Distribution | None = None, obs_dim: int = 2, **changes: Any
) -> PPOAgent:
    config = CONFIG.changed(**changes)
    return PPOAgent(config, Spaces(obs_dim, distribution or DiagonalGaussian(2)), seed=0)


def collect_targets(agent: PPOAgent, numbers: Sequence[int]) -> list[Trajectory]:
    return collect(agent, lambda: FlatEnv(TargetEnv(offset=50.0, scale=7.0)), numbers)


def trained_agent(updates: int = 2, **changes: Any) -> PPOAgent:
    agent = example_agent(**changes)
    for update in range(updates):
        agent.update(collect_targets(agent, range(4 * update, 4 * update + 4)), 0.0)
    return agent


def everything(agent: PPOAgent) -> list[Any]:
    weights = [p.detach().numpy().tobytes() for p in agent.network.parameters()]
    return [weights, agent.obs_moments.state_dict(), agent.return_scale.state_dict()]


def test_the_policy_carries_mean_and_scale_of_all_rollouts_before():
    agent = example_agent()
    first = agent.policy_parameters()
    assert (first.obs_mean.tolist(), first.obs_scale.tolist()) == ([0, 0], [1, 1])
    rollouts = []
    for update in range(3):
        rollouts.append(collect_targets(agent, range(4 * update, 4 * update + 4)))
        agent.update(rollouts[-1], 0.0)
    parameters = agent.policy_parameters()
    seen = np.concatenate([stack_obs(rollout)[0] for rollout in rollouts]).astype(np.float64)
    np.testing.assert_allclose(parameters.obs_mean, seen.mean(axis=0), rtol=1e-5)
    np.testing.assert_allclose(parameters.obs_scale, 1 / seen.std(axis=0), rtol=1e-5)
    plain = example_agent(normalise_obs=False).policy_parameters()
    assert plain.obs_mean is plain.obs_scale is None


def test_the_log_standard_deviation_begins_as_told_and_is_learned():
    agent = example_agent(log_std_init=-0.5)
    assert agent.policy_parameters().log_std.tolist() == [-0.5, -0.5]
    agent.update(collect_targets(agent, range(4)), 0.0)
    assert np.abs(agent.policy_parameters().log_std + 0.5).min() > 1e-3
    assert agent.policy_parameters().log_std.dtype == np.float32


def test_the_learner_sees_observations_as_the_actor_did():
    """Otherwise the ratio of the very first minibatch would not be 1."""
    agent = trained_agent(epochs=1)
    metrics = agent.update(collect_targets(agent, range(20, 24)), 0.0)
    assert metrics.approx_kl == pytest.approx(0, abs=1e-9)
    assert metrics.clip_fraction == 0


@pytest.mark.parametrize("normalise", [True, False])
def test_the_unit_of_rewards_makes_no_difference_where_returns_are_normalised(normalise):
    def learned(factor: float) -> np.ndarray:
        agent = example_agent(normalise_returns=normalise)
        for update in range(2):
            trajectories = collect_targets(agent, range(4 * update, 4 * update + 4))
            agent.update([t._replace(reward=factor * t.reward) for t in trajectories], 0.0)
        return agent.policy_parameters().weights[0]

    assert np.allclose(learned(1), learned(1000), rtol=1e-4, atol=1e-6) == normalise


def test_a_warm_start_takes_weights_and_statistics_alone():
    agent = trained_agent()
    agent.update([t._replace(truncated=False) for t in collect_targets(agent, range(8, 12))], 0.0)
    assert agent.state_dict()["return_scale"]["open"]
    warm = PPOAgent(CONFIG, Spaces(2, DiagonalGaussian(2)), seed=9)
    warm.load_policy(through_a_file(agent.state_dict()))
    *same, scale = everything(agent)
    assert everything(warm) == [*same, {**scale, "open": []}], "episodes have the same numbers"
    assert (warm.policy_version, warm.seed) == (0, 9)
    assert not warm.optimizer.state
    trajectories = collect_targets(warm, range(12, 16))
    before = everything(agent)
    warm.update(trajectories, 0.0)
    assert everything(agent) == before, "what was loaded is a copy"
    agent.update([t._replace(policy_version=3) for t in trajectories], 0.0)
    assert everything(warm)[0] != everything(agent)[0], "Adam's moments are not those of before"


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "observations": ({"obs_dim": 3}, "size mismatch"),
    "a hidden layer's size": ({"hidden_sizes": (17,)}, "size mismatch"),
    "number of layers": ({"hidden_sizes": (16, 16)}, "Unexpected key"),
    # Networks of the same shape.
    "choices": ({"distribution": Categorical(2)}, "this run has"),
    "several choices": ({"distribution": MultiCategorical([1, 1])}, "this run has"),
    "number of actions": ({"distribution": DiagonalGaussian(1)}, "this run has"),
    "bounds": (
        {"distribution": DiagonalGaussian(2, (500.0, 500.0), (500.0, 500.0))},
        "from 0 to 1000, and this run has actions of 2 num",
    ),
    "statistics": ({"normalise_obs": False}, "obs_moments"),
}


@pytest.mark.parametrize("load", ["load_policy", "load_state_dict"])
@pytest.mark.parametrize("case", REFUSED)
def test_the_state_of_another_kind_of_agent_is_refused(case, load):
    changes, words = REFUSED[case]
    with pytest.raises((RuntimeError, ValueError, KeyError), match=words):
        getattr(example_agent(), load)(example_agent(**changes).state_dict())


def test_a_small_continuous_problem_is_learned():
    agent = example_agent(epochs=5, minibatch_size=64, discount=0.0, learning_rate=2e-2)
    for update in range(16):
        agent.update(collect_targets(agent, range(32 * update, 32 * update + 32)), 0.0)
    played = collect_targets(agent, range(10_000, 10_050))
    greedy = NumpyPolicy(agent.policy_parameters(), greedy=True)
    shown = stack_obs(played)[0]
    target = (shown - 50) / 7 / 2
    error = np.square(greedy.outputs(shown) - target).sum(axis=1).mean()
    # To know nothing and do nothing costs 2 * E[(u/2)^2] = 1/6 a step.
    assert error < 1 / 6 / 10
    # It began with a deviation of 1, which alone costs 2 where nothing is clipped.
    assert -np.mean([t.reward.mean() for t in played]) < 0.5


@pytest.mark.parametrize(
    "distribution",
    [Categorical(4), MultiCategorical([3, 2]), DiagonalGaussian(2), DiagonalGaussian(3)],
)
@pytest.mark.parametrize("n_acted", [0, 1, 5])
def test_going_on_draws_what_having_acted_would_have(distribution, n_acted):
    parameters = example_agent(distribution).policy_parameters()
    obs = np.random.default_rng(0).normal(size=(9, 2)).astype(np.float32)
    before, later = NumpyPolicy(parameters), NumpyPolicy(parameters)
    before.reset(7, env=3)
    whole = [before.act(row[None], [3])[0].tobytes() for row in obs]
    later.reset(7, env=1, n_acted=n_acted)
    rest = [later.act(row[None], [1])[0].tobytes() for row in obs[n_acted:]]
    assert rest == whole[n_acted:]
    later.reset(7, env=1, n_acted=n_acted + 1)
    assert [later.act(row[None], [1])[0].tobytes() for row in obs[n_acted:]] != rest


@pytest.mark.parametrize(
    ("distribution", "log_std", "expected"),
    [
        (DiagonalGaussian(2), [0.0, np.log(3.0)], 2.0),
        # In units in which bounds are -1 and 1.
        (DiagonalGaussian(2, (5.0, 5.0), (5.0, 5.0)), [np.log(0.5), np.log(0.5)], 0.5),
        # What a choice has there is not read.
        (Mixed((Categorical(2), DiagonalGaussian(1))), [9.0, 9.0, np.log(0.25)], 0.25),
        (Categorical(2), None, np.nan),
    ],
)
def test_the_standard_deviation_of_an_action_is_told(distribution, log_std, expected):
    agent = PPOAgent(CONFIG.changed(learning_rate=1e-9), Spaces(2, distribution), seed=0)
    if log_std is not None:
        agent.network.log_std.data = torch.tensor(log_std, dtype=torch.float32)
    actor = NumpyPolicy(agent.policy_parameters(), agent.policy_version)
    obs = np.zeros((4, 2), np.float32)
    action, log_prob = actor.act_batch(obs, [np.random.default_rng(0)] * 4)
    played = episode_of(np.zeros((5, 2), np.float32), action, np.ones(4), log_prob, terminated=True)
    told = agent.update([played], 0.0).action_std
    assert told == pytest.approx(expected, rel=1e-5, nan_ok=True)
