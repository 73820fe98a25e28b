"""Trains with an algorithm of one's own: REINFORCE (Williams 1992), without a critic.

python -m workflow_rl train-async --env CartPole-v1 --algorithm examples.own_algorithm:REINFORCE \
  --setting passes=2 --total-steps 30000 --run-dir runs/reinforce
"""

from copy import deepcopy
from typing import NamedTuple

import numpy as np
import torch

from workflow_rl.agents.algorithm import Algorithm, LearningAgent
from workflow_rl.agents.policies.actor_critic import ActorCritic
from workflow_rl.agents.settings import NetworkSettings
from workflow_rl.errors import ConfigError


class Config(NetworkSettings):
    """The settings of the networks and the optimizer, and one more."""

    passes: int = 1


class Metrics(NamedTuple):
    """The columns of metrics.csv that this algorithm fills."""

    policy_loss: float


def rewards_to_go(reward, discount):
    to_go = reward.astype(np.float64)
    for step in range(len(to_go) - 2, -1, -1):
        to_go[step] += discount * to_go[step + 1]
    return to_go


class ReinforceAgent(LearningAgent):
    """Learns the actor by policy gradients of normalised rewards to go."""

    def __init__(self, config, spaces, seed):
        self.config, self.seed, self.policy_version = config, seed, 0
        self.distribution = spaces.distribution
        sizes = config.hidden_sizes, config.activation
        self.network = ActorCritic(spaces.obs_dim, spaces.distribution, *sizes, seed)
        self.optimizer = torch.optim.Adam(
            self.network.parameters(), lr=config.learning_rate, fused=True
        )

    def policy_parameters(self):
        return self.network.policy_parameters()

    def update(self, trajectories, progress):
        obs = torch.from_numpy(np.concatenate([t.obs for t in trajectories]).astype(np.float32))
        action = torch.from_numpy(np.concatenate([t.action for t in trajectories]))
        to_go = np.concatenate(
            [rewards_to_go(t.reward, self.config.discount) for t in trajectories]
        )
        weight = torch.from_numpy((to_go - to_go.mean()) / (to_go.std() + 1e-8))
        for _ in range(self.config.passes):
            log_prob, _ = self.distribution.log_prob_and_entropy(
                self.network.actor(obs), self.network.log_std, None, action
            )
            loss = -(weight * log_prob).mean()
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
        self.policy_version += 1
        return Metrics(loss.item())

    def state_dict(self):
        return {
            "network": deepcopy(self.network.state_dict()),
            "optimizer": deepcopy(self.optimizer.state_dict()),
            "distribution": self.distribution.to_plain(),
            "policy_version": self.policy_version,
            "seed": self.seed,
        }

    def load_state_dict(self, state):
        self.load_policy(state)
        self.optimizer.load_state_dict(state["optimizer"])
        self.policy_version, self.seed = state["policy_version"], state["seed"]

    def load_policy(self, state):
        self.network.load_state_dict(state["network"])


class Reinforce(Algorithm):
    name = "reinforce"
    settings = Config
    metrics = Metrics._fields

    def make(self, settings, spaces, seed, device, threads):
        if settings.network != "mlp":
            raise ConfigError("network", f"reinforce learns mlp, not {settings.network}")
        return ReinforceAgent(settings, spaces, seed)


REINFORCE = Reinforce()
