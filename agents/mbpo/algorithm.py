"""MBPO as a run finds it. Imports no torch."""

from __future__ import annotations

from agents.algorithm import Agent
from agents.mbpo.config import MBPOConfig
from agents.mbpo.metrics import MBPOMetrics
from agents.sac.algorithm import SAC
from agents.settings import Settings
from agents.spaces import Spaces


class MBPO(SAC):
    """Model-based policy optimisation."""

    name = "mbpo"
    settings: type[Settings] = MBPOConfig
    metrics: tuple[str, ...] = MBPOMetrics._fields
    to_lower: tuple[str, ...] = ("learning_rate", "reward_scale", "model_learning_rate")

    def make(
        self, settings: Settings, spaces: Spaces, seed: int, device: str, threads: int
    ) -> Agent:
        """See Algorithm."""
        from agents.mbpo.agent import MBPOAgent

        assert isinstance(settings, MBPOConfig)
        distribution = self.distribution(spaces, settings)
        return MBPOAgent(settings, spaces.obs_dim, distribution, spaces.bits, seed)
