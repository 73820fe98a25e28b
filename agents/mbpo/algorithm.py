"""The algorithm MBPO in the registry. Imports no torch."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING

from workflow_rl.agents.algorithm import LearningAgent
from workflow_rl.agents.mbpo.config import MBPOConfig, MBPOMetrics
from workflow_rl.agents.sac.algorithm import SAC
from workflow_rl.agents.settings import Settings

if TYPE_CHECKING:
    from workflow_rl.agents.spaces import Spaces


class MBPO(SAC):
    """Model-based policy optimisation."""

    name = "mbpo"
    settings: type[Settings] = MBPOConfig
    metrics = tuple(field.name for field in fields(MBPOMetrics))
    to_lower: tuple[str, ...] = ("learning_rate", "reward_scale", "model_learning_rate")

    def make(
        self, settings: Settings, spaces: Spaces, seed: int, device: str, threads: int
    ) -> LearningAgent:
        from workflow_rl.agents.mbpo.agent import MBPOAgent

        assert isinstance(settings, MBPOConfig)
        distribution = self.distribution(spaces, settings)
        return MBPOAgent(settings, spaces.obs_dim, distribution, spaces.bits, seed)
