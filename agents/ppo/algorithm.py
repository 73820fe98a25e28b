"""Proximal policy optimisation in the registry of algorithms. Imports no torch."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from workflow_rl.agents.algorithm import Algorithm
from workflow_rl.agents.policies.networks import NETWORKS
from workflow_rl.agents.ppo.config import DECISIONS, OF_EACH_POLICY, PPOConfig, PPOMetrics
from workflow_rl.agents.settings import Settings
from workflow_rl.errors import ConfigError

if TYPE_CHECKING:
    from workflow_rl.agents.policies.distributions import Distribution
    from workflow_rl.agents.policies.numpy_policy import Parameters, PolicyParameters
    from workflow_rl.agents.ppo.agent import PPOAgent
    from workflow_rl.agents.ppo.team import TeamAgent
    from workflow_rl.agents.spaces import Spaces
    from workflow_rl.agents.team import PolicyMap, TeamLayout


class PPO(Algorithm):
    name = "ppo"
    settings = PPOConfig
    general = PPOConfig
    metrics = PPOMetrics._fields
    devices = ("cpu", "cuda")
    takes_masks = True
    takes_teams = True
    takes_privileged = True
    takes_teachers = True
    to_lower = ("learning_rate", "reward_scale", "max_grad_norm")

    def distribution(self, spaces: Spaces, settings: Settings) -> Distribution:
        assert isinstance(settings, PPOConfig)
        if spaces.team is None and settings.policy_of:
            raise ConfigError("policy_of", "this environment has one agent: leave it out")
        if spaces.team is None and settings.critic != "own":
            raise ConfigError(
                "critic", f"{settings.critic} is for teams: this environment has one agent"
            )
        if spaces.team is not None:
            _policies(settings, spaces.team)
        is_central = spaces.team is not None and settings.critic == "central"
        if settings.shared_trunk and (spaces.privileged or is_central):
            raise ConfigError(
                "shared_trunk", "here the critic sees more than the actor: leave it out"
            )
        if (lack := NETWORKS[settings.network].lacking(spaces)) is not None:
            raise ConfigError("network", lack)
        return super().distribution(spaces, settings)

    def make(
        self, settings: Settings, spaces: Spaces, seed: int, device: str, threads: int
    ) -> PPOAgent | TeamAgent:
        """See Algorithm. With at least 2 threads, actor and critic learn at the same time."""
        from workflow_rl.agents.policies.torch_layers import set_threads
        from workflow_rl.agents.ppo.agent import PPOAgent

        assert isinstance(settings, PPOConfig)
        two_threads = threads > 1 and device == "cpu"
        if two_threads:
            set_threads(threads // 2)  # The actor and the critic each have half of the threads.
        self.distribution(spaces, settings)  # Raises ConfigError for unsupported spaces.
        if spaces.team is not None:
            from workflow_rl.agents.ppo.team import TeamAgent

            policies = _policies(settings, spaces.team)
            return TeamAgent(settings, spaces, policies, seed, device, two_threads)
        return PPOAgent(settings, spaces, seed, device, two_threads)

    def metrics_of(self, settings: Settings, spaces: Spaces) -> tuple[str, ...]:
        """See Algorithm. A team of several policies has the fields OF_EACH_POLICY too."""
        assert isinstance(settings, PPOConfig)
        multipliers = [f"multiplier_{name}" for name in settings.budgets]
        if spaces.team is None:
            return (*self.metrics, *multipliers)
        names = _policies(settings, spaces.team)
        of_policies = [f"{field}_{name}" for name in names for field in OF_EACH_POLICY]
        of_policies = of_policies if len(names) > 1 else []
        return (*self.metrics, DECISIONS, *of_policies, *multipliers)

    def saved_policy(self, settings: Settings, state: Mapping[str, Any]) -> Parameters:
        assert isinstance(settings, PPOConfig)
        if "team" not in state:
            return super().saved_policy(settings, state)
        from workflow_rl.agents.policy_from_checkpoint import saved_team
        from workflow_rl.agents.team import team_layout

        layout = team_layout(state["team"])
        return saved_team(settings, state, layout, _policies(settings, layout))

    def saved_critic(
        self, settings: Settings, state: Mapping[str, Any]
    ) -> tuple[PolicyParameters, float]:
        assert isinstance(settings, PPOConfig)
        if "team" in state:
            raise ValueError("a team has a critic for each policy")
        critic, unit = super().saved_critic(settings, state)
        if "return_scale" in state:
            from workflow_rl.agents.ppo.running_statistics import ReturnScale

            return_scale = ReturnScale(settings.discount)
            return_scale.load_state_dict(state["return_scale"])
            unit *= return_scale.factor
        return critic, unit

    def max_policy_lag(self, settings: Settings) -> int | None:
        assert isinstance(settings, PPOConfig)
        return settings.max_policy_lag


def _policies(settings: PPOConfig, team: TeamLayout) -> PolicyMap:
    from workflow_rl.agents.team import policy_map

    if NETWORKS[settings.network].declared not in vars(team):
        team = dataclasses.replace(team, entities=())
    try:
        return policy_map(team, settings.policy_of)
    except ValueError as error:
        raise ConfigError("policy_of", str(error)) from None
