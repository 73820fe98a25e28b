"""MBPO as a run finds it. Imports no torch."""

from __future__ import annotations

from dataclasses import dataclass, fields

from workflow_rl.agents.algorithm import Agent
from workflow_rl.agents.mbpo.config import MBPOConfig
from workflow_rl.agents.sac.algorithm import SAC, SACMetrics
from workflow_rl.agents.settings import Settings
from workflow_rl.agents.spaces import Spaces


@dataclass(frozen=True)
class MBPOMetrics(SACMetrics):
    """What one update did: see `SACMetrics`.

    imagined_steps: in the whole run so far. rollout_length: of this update's imagined rollouts.
    model_*: see `dynamics.Fit`; NaN if no model was fitted.
    """

    imagined_steps: int
    rollout_length: int
    model_obs_loss: float
    model_reward_error: float
    model_spread: float
    model_epochs: float


class MBPO(SAC):
    """Model-based policy optimisation."""

    name = "mbpo"
    settings: type[Settings] = MBPOConfig
    metrics = tuple(one.name for one in fields(MBPOMetrics))
    to_lower: tuple[str, ...] = ("learning_rate", "reward_scale", "model_learning_rate")

    def make(
        self, settings: Settings, spaces: Spaces, seed: int, device: str, threads: int
    ) -> Agent:
        from workflow_rl.agents.mbpo.agent import MBPOAgent

        assert isinstance(settings, MBPOConfig)
        distribution = self.distribution(spaces, settings)
        return MBPOAgent(settings, spaces.obs_dim, distribution, spaces.bits, seed)
