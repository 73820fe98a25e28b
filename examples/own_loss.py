"""Trains with PPO and another policy loss: simple policy optimisation (Xie et al. 2024).

python -m workflow_rl train-async --env CartPole-v1 --algorithm examples.own_loss:SPO \
  --total-steps 30000 --epochs 5 --run-dir runs/spo
"""

from workflow_rl.agents.ppo.algorithm import PPO  # Installed: workflow_rl.agents.ppo.algorithm.


def spo_loss(ratio, advantage, clip_range):
    """Return a scalar. ratio: pi(a|s) / pi_old(a|s) [B]. advantage: [B].

    The square keeps the ratio near 1, where PPO clips it.
    """
    penalty = advantage.abs() * (ratio - 1).square() / (2 * clip_range)
    return -(ratio * advantage - penalty).mean()


class WithOwnLoss(PPO):
    """PPO in all but the loss. It has PPO's settings and columns."""

    name = "spo"

    def make(self, *arguments):
        agent = super().make(*arguments)
        agent.policy_loss = spo_loss
        return agent


SPO = WithOwnLoss()
