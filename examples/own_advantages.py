"""Trains with PPO and another estimator of advantages: the critic has a lambda of its own (Yuan et
al. 2025, "What's Behind PPO's Collapse in Long-CoT?", decoupled GAE).

python -m workflow_rl train-async --env CartPole-v1 --algorithm examples.own_advantages:DECOUPLED \
  --gae-lambda 0.9 --critic-lambda 1 --total-steps 30000 --run-dir runs/decoupled
"""

import numpy as np

from workflow_rl.agents.ppo.algorithm import PPO
from workflow_rl.agents.ppo.config import PPOConfig


class Config(PPOConfig):
    critic_lambda: float = 1.0


def decayed_sums(episodes, decay):
    """Return the temporal-difference errors [T, N], each with the decayed ones after it."""
    value, discount = episodes.value, episodes.discount
    next_value = np.concatenate([value[1:], episodes.bootstrap_value[None]])
    sums = episodes.reward + discount * next_value - value
    for step in reversed(range(len(sums) - 1)):
        sums[step] += discount[step] * decay * sums[step + 1]
    return sums


class DecoupledGAE(PPO):
    name = "decoupled-gae"
    settings = Config

    def make(self, settings, *arguments):
        def advantages(episodes):
            """Return the advantages and the critic's targets, [T, N] each."""
            targets = episodes.value + decayed_sums(episodes, settings.critic_lambda)
            return decayed_sums(episodes, episodes.gae_lambda), targets

        agent = super().make(settings, *arguments)
        agent.advantages = advantages
        return agent


DECOUPLED = DecoupledGAE()
