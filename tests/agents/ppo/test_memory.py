from typing import Any

import numpy as np
import pytest
import torch

from tests.agents.examples import example_trajectory, ppo_agent
from tests.agents.ppo.small_agents import collect
from tests.recall_env import RecallEnv
from workflow_rl.agents.policies.distributions import Categorical
from workflow_rl.agents.policies.numpy_policy import NumpyPolicy
from workflow_rl.agents.ppo.agent import PPOAgent
from workflow_rl.agents.ppo.sequences import in_time_order, stack_sequences
from workflow_rl.agents.spaces import Spaces
from workflow_rl.agents.trajectory import Trajectory
from workflow_rl.collection.player import Player
from workflow_rl.environments.env_batch import SerialEnvs
from workflow_rl.environments.episode import episode_spec

MEMORIES = ["gru", "lstm", "frame-stack"]


def agent_of(network: str, n_inputs: int, n_actions: int, **settings: Any) -> PPOAgent:
    settings = {"hidden_sizes": (8, 8), "network": network, **settings}
    return ppo_agent(Spaces(n_inputs, Categorical(n_actions)), 1, **settings)


def test_sequences_lie_one_after_another_and_run_in_the_order_of_time():
    first, second = example_trajectory([1.0, 2.0]), example_trajectory([1.0, 2.0, 3.0])
    second = second._replace(seen_before=second.obs[:1])
    rows, lengths, acted, last = stack_sequences([first, second])
    assert rows.tolist() == [
        *first.obs.tolist(),
        first.last_obs.tolist(),
        *second.obs[:1].tolist(),
        *second.obs.tolist(),
        second.last_obs.tolist(),
    ]
    assert (lengths.tolist(), acted.tolist(), last.tolist()) == ([3, 5], [0, 1, 4, 5, 6], [2, 7])
    order, counts = in_time_order(lengths, np.array([0, 1]))
    assert (order.tolist(), counts) == ([3, 0, 4, 1, 5, 2, 6, 7], (2, 2, 2, 1, 1))
    order, counts = in_time_order(lengths, np.array([0, 1]), without_last=1)
    assert (order.tolist(), counts) == ([3, 0, 4, 1, 5, 6], (2, 2, 1, 1))


def played(agent: PPOAgent, numbers: range, length: int) -> list[Trajectory]:
    return collect(agent, lambda: RecallEnv(length), numbers)


@pytest.mark.parametrize("network", MEMORIES)
@pytest.mark.parametrize("collected", ["episodes", "unrolls"])
def test_the_learner_finds_the_probabilities_that_the_actor_had(network, collected):
    agent = agent_of(network, 3, 2)
    some = played(agent, range(20), 6)
    if collected == "unrolls":
        policy = NumpyPolicy(agent.policy_parameters(), agent.policy_version)
        numbers, envs = iter(range(1000)), SerialEnvs(lambda: RecallEnv(6), 3)
        player = Player(envs, lambda _: episode_spec(0, next(numbers)))
        some = [one for _ in range(5) for one in player.unroll(policy, 4)]
        before = [0 if one.seen_before is None else len(one.seen_before) for one in some]
        burn_in = agent.network.actor_network.burn_in
        assert before == [min(one.steps_before, burn_in) for one in some]
        assert max(before) > 2
    seen, acted, _ = agent.seen(some)
    with torch.no_grad():
        outputs = seen.computed(agent.network.outputs)[acted]
    action = torch.tensor(np.concatenate([one.action for one in some]))
    log_prob = torch.log_softmax(outputs, dim=1).gather(1, action[:, None])[:, 0]
    np.testing.assert_allclose(log_prob, np.concatenate([one.log_prob for one in some]), atol=1e-5)


@pytest.mark.parametrize("network", MEMORIES)
def test_a_pass_learns_each_step_once_with_whole_sequences(network, monkeypatch):
    agent = agent_of(network, 3, 2, minibatch_size=30, epochs=1)
    some = played(agent, range(12), 6)
    sizes: list[int] = []
    learn = PPOAgent._learn_minibatch

    def recorded(self: PPOAgent, minibatch: Any, *others: Any) -> Any:
        sizes.append(len(minibatch.steps.action))
        log_prob = torch.log_softmax(self.network.outputs(minibatch.obs), dim=1)
        own = log_prob[minibatch.row].gather(1, minibatch.steps.action[:, None])[:, 0]
        if len(sizes) == 1:  # Of the weights that acted.
            torch.testing.assert_close(own, minibatch.steps.log_prob, atol=1e-5, rtol=0)
        return learn(self, minibatch, *others)

    monkeypatch.setattr(PPOAgent, "_learn_minibatch", recorded)
    agent.update(some, 0.0)
    assert sum(sizes) == 12 * 7
    assert len(sizes) == 3
    assert all(size % 7 == 0 for size in sizes)


def test_only_a_memory_recalls_a_cue():
    """After 4 steps. Without a memory, half of the answers are right."""
    settings = {"minibatch_size": 250, "epochs": 8, "learning_rate": 1e-2, "reward_scale": 1.0}
    right = {}
    for network in ("mlp", "gru"):
        agent = agent_of(network, 3, 2, gae_lambda=0.95, entropy_coef=0.0, **settings)
        for update in range(12):
            agent.update(played(agent, range(48 * update, 48 * (update + 1)), 4), update / 12)
        returns = [one.episode_return for one in played(agent, range(5000, 5100), 4)]
        right[network] = float(np.mean(returns))
    assert right["gru"] > 0.9
    assert right["mlp"] < 0.65
