"""PPO as a run finds it. Imports no torch."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from agents.algorithm import Algorithm
from agents.policies.numpy_policy import PolicyParameters
from agents.ppo.config import PPOConfig
from agents.ppo.metrics import PPOMetrics
from agents.ppo.running_statistics import ReturnScale, RunningMoments
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
    takes_masks = True
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
        return PPOAgent(
            settings, spaces.obs_dim, distribution, seed, device, two_threads, spaces.masked
        )

    def saved_policy(self, settings: Settings, state: Mapping[str, Any]) -> PolicyParameters:
        """See Algorithm."""
        return _normalising(super().saved_policy(settings, state), state)

    def saved_critic(
        self, settings: Settings, state: Mapping[str, Any]
    ) -> tuple[PolicyParameters, float]:
        """See Algorithm."""
        assert isinstance(settings, PPOConfig)
        critic, unit = super().saved_critic(settings, state)
        if "return_scale" in state:
            return_scale = ReturnScale(settings.discount)
            return_scale.load_state_dict(state["return_scale"])
            unit *= return_scale.factor
        return _normalising(critic, state), unit

    def max_policy_lag(self, settings: Settings) -> int | None:
        """See Algorithm."""
        assert isinstance(settings, PPOConfig)
        return settings.max_policy_lag


def _normalising(parameters: PolicyParameters, state: Mapping[str, Any]) -> PolicyParameters:
    """Return a network with the statistics that its observations are normalised with, if any."""
    if "obs_moments" not in state:
        return parameters
    moments = RunningMoments(parameters.described().n_inputs)
    moments.load_state_dict(state["obs_moments"])
    mean, scale = moments.mean_and_scale()
    return parameters._replace(obs_mean=mean, obs_scale=scale)
