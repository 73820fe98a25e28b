"""PPO as a run finds it. Imports no torch."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agents.algorithm import Algorithm
from agents.ppo.config import PPOConfig
from agents.ppo.metrics import PPOMetrics
from agents.settings import Settings
from agents.spaces import Spaces

if TYPE_CHECKING:
    from agents.ppo.agent import PPOAgent


class PPO(Algorithm):
    """Proximal policy optimisation."""

    name = "ppo"
    settings = PPOConfig
    metrics = PPOMetrics._fields
    devices = ("cpu", "cuda")
    to_lower = ("learning_rate", "reward_scale", "max_grad_norm")

    def make(
        self, settings: Settings, spaces: Spaces, seed: int, device: str, threads: int
    ) -> PPOAgent:
        """See Algorithm. From 2 threads on, the actor and the critic learn at the same time."""
        import torch

        from agents.ppo.agent import PPOAgent

        assert isinstance(settings, PPOConfig)
        two_threads = threads > 1 and device == "cpu"
        if two_threads:
            torch.set_num_threads(threads // 2)  # The actor and the critic have half of them each.
        distribution = self.distribution(spaces, settings)
        return PPOAgent(settings, spaces.obs_dim, distribution, seed, device, two_threads)

    def max_policy_lag(self, settings: Settings) -> int | None:
        """See Algorithm."""
        assert isinstance(settings, PPOConfig)
        return settings.max_policy_lag
