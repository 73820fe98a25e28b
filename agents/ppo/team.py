"""PPO for a team, with a learner for each policy.

This is independent PPO (de Witt et al. 2020), or with central critics MAPPO (Yu et al. 2022, "The
surprising effectiveness of PPO in cooperative multi-agent games"). A central critic sees the state
and the agent's own observation, as in section 5.2 of Yu et al. 2022.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from workflow_rl.agents.algorithm import CopyMetrics, LearningAgent
from workflow_rl.agents.policies.team_policy import TeamParameters
from workflow_rl.agents.policy_from_checkpoint import (
    learner_state,
    require_distribution,
    saved_number,
)
from workflow_rl.agents.ppo.agent import PPOAgent
from workflow_rl.agents.ppo.config import DECISIONS, OF_EACH_POLICY, PPOConfig, PPOMetrics
from workflow_rl.agents.spaces import Spaces
from workflow_rl.agents.team import PolicyMap, TeamLayout, split, team_layout
from workflow_rl.agents.trajectory import Trajectory

if TYPE_CHECKING:
    from workflow_rl.agents.algorithm import Metrics
    from workflow_rl.agents.ppo.budgets import Budgets


@dataclass(frozen=True)
class TeamMetrics:
    """The metrics of one update of a team.

    whole: means over the policies, weighted by the policies' decisions. decisions: the number of
    all agents' decisions. A busy agent does not decide. of_each: the metrics of the policies that
    have learned, by policy name.
    """

    whole: PPOMetrics
    decisions: int
    of_each: dict[str, PPOMetrics]

    def _asdict(self) -> dict[str, Any]:
        """Return `whole`, `decisions`, and OF_EACH_POLICY of each policy as "field_policy"."""
        named = [(name, values._asdict()) for name, values in self.of_each.items()]
        return (
            self.whole._asdict()
            | {DECISIONS: self.decisions}
            | {
                f"{field}_{name}": values[field]
                for name, values in named
                for field in OF_EACH_POLICY
            }
        )


def _of_all_learners(name: str) -> Any:
    """Return a property for an attribute that is equal in the learners of all policies."""

    def get(team: TeamAgent) -> Any:
        return getattr(next(iter(team.learners.values())), name)

    def give(team: TeamAgent, value: Any) -> None:
        for learner in team.learners.values():
            setattr(learner, name, value)

    return property(get, give)


class TeamAgent(LearningAgent):
    """A learner of a team's policies. Each policy learns from the decisions of its agents.

    policy_loss, value_loss, advantages: see PPOAgent.
    """

    policy_loss = _of_all_learners("policy_loss")
    value_loss = _of_all_learners("value_loss")
    advantages = _of_all_learners("advantages")

    def __init__(
        self,
        config: PPOConfig,
        spaces: Spaces,
        policies: PolicyMap,
        seed: int,
        device: str,
        two_threads: bool,
    ) -> None:
        self.policy_version = 0
        assert spaces.team is not None
        self.layout, self.distribution = spaces.team, spaces.distribution
        self.seed, self.policies = seed, policies
        self._discount, self._central = config.discount, config.critic == "central"
        self.budgets: Budgets | None = None
        if config.budgets:
            from workflow_rl.agents.ppo.budgets import Budgets

            self.budgets = Budgets(config.budgets, spaces.costs)
        self.learners = {
            name: PPOAgent(
                config,
                _spaces(self.layout, agents, self._central, spaces.costs),
                int(np.random.SeedSequence([seed, n]).generate_state(1)[0]),
                device,
                two_threads,
                self.budgets,
            )
            for n, (name, agents) in enumerate(policies.items())
        }

    def policy_parameters(self) -> TeamParameters:
        parameters = {name: learner.policy_parameters() for name, learner in self.learners.items()}
        return TeamParameters(self.layout, self.policies, parameters)

    def copy(
        self, taught: Sequence[Trajectory], held_out: Sequence[Trajectory], epochs: int
    ) -> Iterator[CopyMetrics]:
        """See LearningAgent. Yields means over the policies, weighted by decisions."""
        seen = self._of_each_policy(taught)
        unseen = self._of_each_policy(held_out)
        learning = [name for name in self.policies if seen[name]]
        copied = [self.learners[name].copy(seen[name], unseen[name], epochs) for name in learning]
        weights = [sum(trajectory.length for trajectory in seen[name]) for name in learning]
        for metrics in zip(*copied, strict=True):
            # A policy without held-out decisions has no agreement.
            means = np.ma.average(np.ma.masked_invalid(metrics), 0, weights)
            yield CopyMetrics._make(np.ma.filled(means, np.nan).tolist())

    def _of_each_policy(self, trajectories: Sequence[Trajectory]) -> dict[str, list[Trajectory]]:
        """Return the decisions in joint trajectories by policy name."""
        parted: dict[str, list[Trajectory]] = {name: [] for name in self.policies}
        for joint in trajectories:
            parts = split(joint, self.layout, self.policies, self._discount, self._central)
            for name, decisions in parts:
                parted[name].append(decisions)
        return parted

    def update(self, trajectories: Sequence[Trajectory], progress: float) -> Metrics:
        learn = partial(self._learn, progress=progress)
        if self.budgets is None:
            return learn(trajectories)
        return self.budgets.learned(trajectories, learn)

    def _learn(self, trajectories: Sequence[Trajectory], progress: float) -> TeamMetrics:
        parted = self._of_each_policy(trajectories)
        updated: dict[str, PPOMetrics] = {}
        for name, learner in self.learners.items():
            if parted[name]:
                updated[name] = learner.learn(parted[name], progress)
            learner.policy_version = self.policy_version + 1
        self.policy_version += 1
        weights = [sum(trajectory.length for trajectory in parted[name]) for name in updated]
        whole = _mean(list(updated.values()), weights)
        return TeamMetrics(whole, sum(weights), updated if len(self.policies) > 1 else {})

    def state_dict(self) -> dict[str, Any]:
        """Return the state. "learners" has the states of the policies' learners without weights."""
        states = {name: learner.state_dict() for name, learner in self.learners.items()}
        return {
            "network": {
                f"{name}/{weight}": tensor
                for name, state in states.items()
                for weight, tensor in state.pop("network").items()
            },
            "learners": states,
            "team": self.layout.to_plain(),
            "distribution": self.distribution.to_plain(),
            "policy_version": self.policy_version,
            "seed": self.seed,
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self._require_same_team(state)
        for name, learner in self.learners.items():
            learner.load_state_dict(learner_state(state, name))
        self.policy_version = saved_number(state, "policy_version")
        self.seed = saved_number(state, "seed")

    def load_policy(self, state: Mapping[str, Any]) -> None:
        self._require_same_team(state)
        for name, learner in self.learners.items():
            learner.load_policy(learner_state(state, name))

    def _require_same_team(self, state: Mapping[str, Any]) -> None:
        require_distribution(state, self.distribution)
        if "team" not in state or team_layout(state["team"]) != self.layout:
            raise ValueError("it is of another team")
        if set(state["learners"]) != set(self.policies):
            raise ValueError("it has other policies than this team")


def _spaces(
    layout: TeamLayout, agents: Sequence[int], is_central: bool, costs: tuple[str, ...]
) -> Spaces:
    first, distribution = agents[0], layout.distributions[agents[0]]
    return Spaces(
        layout.n_seen_by(first, agents),
        distribution,
        masked=layout.masked and distribution.takes_masks,
        entities=layout.entities_seen_by(first, agents),
        privileged=layout.central_size if is_central else 0,
        costs=costs,
    )


def _mean(metrics: Sequence[PPOMetrics], weights: Sequence[int]) -> PPOMetrics:
    """Return means over policies. Lags have a minimum and a maximum, gradient steps have a sum."""
    if not metrics:
        return PPOMetrics()
    means = PPOMetrics._make(np.average(np.array(metrics, float), 0, weights).tolist())
    return means._replace(
        gradient_steps=sum(policy.gradient_steps for policy in metrics),
        policy_lag_min=min(policy.policy_lag_min for policy in metrics),
        policy_lag_max=max(policy.policy_lag_max for policy in metrics),
    )
