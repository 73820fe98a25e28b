"""Soft actor-critic and model-based policy optimisation in the registry. Imports no torch."""

from __future__ import annotations

import math
from dataclasses import fields
from typing import TYPE_CHECKING

from workflow_rl.agents.algorithm import Algorithm, LearningAgent
from workflow_rl.agents.mbpo.config import MBPOConfig, MBPOMetrics
from workflow_rl.agents.sac.config import SACConfig, SACMetrics
from workflow_rl.agents.settings import Settings
from workflow_rl.errors import ConfigError

if TYPE_CHECKING:
    from workflow_rl.agents.policies.distributions import Distribution
    from workflow_rl.agents.spaces import Spaces


class SAC(Algorithm):
    name = "sac"
    settings: type[Settings] = SACConfig
    metrics = tuple(field.name for field in fields(SACMetrics))
    most_threads = 1
    off_policy = True
    to_lower: tuple[str, ...] = ("learning_rate", "reward_scale")

    def distribution(self, spaces: Spaces, settings: Settings) -> Distribution:
        """Return the environment's own distribution of one choice, or one for bounded numbers.

        Raises ConfigError for other actions, and for an impossible target entropy.
        """
        from workflow_rl.agents.policies.distributions import Categorical
        from workflow_rl.agents.policies.further_distributions import SquashedGaussian

        assert isinstance(settings, SACConfig)
        super().distribution(spaces, settings)
        asked = settings.target_entropy
        if isinstance(spaces.distribution, Categorical):
            if asked is not None and not 0 <= asked <= 1:
                raise ConfigError(
                    "target_entropy",
                    f"{asked:g} is not from 0 to 1: it is a share of the uniform policy's entropy",
                )
            return spaces.distribution
        if spaces.bounds is None:
            raise ConfigError(
                "algorithm",
                f"{self.name} learns one choice of several (Discrete) or bounded numbers (Box)",
            )
        try:
            distribution = SquashedGaussian(*spaces.bounds)
        except ValueError as error:
            raise ConfigError("algorithm", f"{self.name} {error}") from None
        if asked is not None and asked >= math.log(2):
            raise ConfigError(
                "target_entropy",
                f"{asked:g} is not below 0.69: no number from -1 to 1 has more entropy",
            )
        return distribution

    def make(
        self, settings: Settings, spaces: Spaces, seed: int, device: str, threads: int
    ) -> LearningAgent:
        from workflow_rl.agents.sac.agent import SACAgent

        assert isinstance(settings, SACConfig)
        distribution = self.distribution(spaces, settings)
        return SACAgent(settings, spaces.obs_dim, distribution, seed)

    def steps_before_learning(self, settings: Settings) -> int:
        assert isinstance(settings, SACConfig)
        return settings.warm_up_steps


class MBPO(SAC):
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
