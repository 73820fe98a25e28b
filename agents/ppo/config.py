"""PPO's hyperparameters, and its metrics of an update. Imports no torch, because the command line
reads the defaults here."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Literal, NamedTuple, Self

from pydantic import Field, model_validator

from workflow_rl.agents.policies.networks import NETWORKS
from workflow_rl.agents.settings import (
    Count,
    CountOrNone,
    ForTeams,
    NetworkSettings,
    NotNegative,
    Positive,
    Share,
    WithTeacher,
)
from workflow_rl.errors import ConfigError

if TYPE_CHECKING:
    from workflow_rl.agents.trajectory import Float64Array


REWARD = "reward"
"""The name of the environment's own reward among the names of costs."""
_QUANTILE = re.compile(r"(.+):p(\d+(?:\.\d+)?)")


class Budget(NamedTuple):
    """A limit on the sum of a cost over an episode.

    name: COST or COST:pNN, from the user. limit: the limit of the sum. share: the share of episodes
    that may have a greater sum, or None for a limit on the mean of the sums.
    """

    name: str
    cost: str
    limit: float
    share: float | None = None

    @property
    def allowed(self) -> float:
        """The upper limit of the mean of `charged`."""
        return self.limit if self.share is None else self.share

    @property
    def unit(self) -> float:
        """The divisor that makes costs independent of their unit: the limit, or 1 if it is 0."""
        return self.allowed or 1.0

    def charged(self, sums: Float64Array) -> Float64Array:
        """Return the terms [N] of the limited mean: sums [N] of the cost in episodes, or for a
        quantile, 1 for sums above the limit and 0 for others."""
        return sums if self.share is None else (sums > self.limit).astype("float64")

    def charged_by_step(self, costs: Float64Array, before: float) -> Float64Array:
        """Return how much each step of a trajectory adds to `charged`. costs: [T]. before: the sum
        of the earlier steps' costs."""
        if self.share is None:
            return costs
        import numpy as np

        # A step that crosses the limit upwards adds 1. Negative costs may cross downwards: -1.
        return np.diff(self.charged(np.cumsum(np.append(before, costs))))


def budgets_of(limits: Mapping[str, float]) -> list[Budget]:
    """Return the budgets of limits by name. Raises ValueError for a wrong quantile."""
    budgets = []
    for name, limit in limits.items():
        found = _QUANTILE.fullmatch(name)
        if found is None:
            budgets.append(Budget(name, name, limit))
            continue
        percent = float(found[2])
        if not 0 < percent <= 100:
            raise ValueError(f"{name}: p{found[2]} is not from p1 to p100")
        budgets.append(Budget(name, found[1], limit, round(1 - percent / 100, 9)))
    return budgets


class Annealed(NamedTuple):
    """Hyperparameters that change linearly from an initial value to a final value."""

    learning_rate: float
    clip_range: float
    entropy_coef: float
    teacher_coef: float


class PPOConfig(NetworkSettings):
    """PPO's hyperparameters. The constructor raises ConfigError."""

    log_std_init: Annotated[float, Field(ge=-10, le=10)] = Field(
        default=0.0,
        description="Log standard deviation of continuous actions at the start. Bounds that are "
        "finite count as -1 and 1.",
    )
    normalise_obs: bool = Field(
        default=False,
        description="Shift and scale observations by the running mean and deviation of all "
        "earlier rollouts.",
    )
    normalise_returns: bool = Field(
        default=False,
        description="Divide rewards by the running deviation of the discounted return.",
    )
    learning_rate_final: NotNegative = Field(
        default=0.0,
        description="Learning rate at the end of the run. It falls linearly with progress.",
    )
    gae_lambda: Share = Field(
        default=0.9, description="Lambda of generalised advantage estimation."
    )
    clip_range: Positive = Field(
        default=0.2, description="Clip the probability ratio at this distance from 1."
    )
    clip_range_final: NotNegative | None = Field(
        default=None, description="Clip range at the end of the run. By default it does not change."
    )
    epochs: Count = Field(default=6, description="Number of passes over each rollout.")
    minibatch_size: Count = Field(default=2500, description="Number of steps in each minibatch.")
    minibatches_of: Literal["steps", "observations"] = Field(
        default="steps",
        description="Fill a minibatch with single steps, or with whole observations and all "
        "their steps. observations is faster if observations repeat bit for bit, as in CAGE-2.",
    )
    entropy_coef: NotNegative = Field(
        default=0.01, description="Weight of the entropy bonus at the start."
    )
    entropy_coef_final: NotNegative | None = Field(
        default=None,
        description="Weight of the entropy bonus at the end of the run. By default it does not "
        "change.",
    )
    value_coef: NotNegative = Field(default=0.5, description="Weight of the critic's loss.")
    max_grad_norm: Positive = Field(
        default=0.5, description="Clip the actor's and the critic's gradients to this norm each."
    )
    normalise_advantage: bool = Field(
        default=True, description="Normalise the advantages within each minibatch."
    )
    target_kl: Positive | None = Field(
        default=None,
        description="End an update early when the KL divergence exceeds 1.5 times this number.",
    )
    decoupled_clip: bool = Field(
        default=True,
        description="Clip around the policy at the start of the update, instead of around the "
        "policy that acted. Without a policy lag, both policies are equal.",
    )
    correction: Literal["none", "vtrace"] = Field(
        default="none",
        description="Correct advantages and targets for steps that an older policy played.",
    )
    max_policy_lag: CountOrNone | None = Field(
        default=None,
        description="Leave out steps of policies that are older than this number of updates.",
    )
    shared_trunk: bool = Field(
        default=False,
        description="Let the actor and the critic share their hidden layers. By default, each has "
        "its own layers.",
    )
    policy_of: Annotated[str, ForTeams()] = Field(
        default="",
        description="For a team of agents: the policy of each agent, such as "
        "blue_agent_4=headquarters,*=zone. By default, agents with equal spaces share a policy.",
    )
    critic: Annotated[Literal["own", "central"], ForTeams()] = Field(
        default="own",
        description="For a team of agents: the critics' inputs. own: the agent's observation. "
        "central: also the environment's state, or all agents' observations without a state.",
    )

    budgets: dict[str, NotNegative] = Field(
        default={},
        description="Limit a cost of the environment: NAME=VALUE. The mean of NAME's sum over an "
        "episode shall be at most VALUE. NAME:p95=VALUE: 95% of the episodes shall have a sum of "
        "at most VALUE. See docs/how-to/budgets.md.",
    )
    teacher_coef: Annotated[NotNegative, WithTeacher()] = Field(
        default=0.0,
        description="Weight of the loss that keeps the policy close to its copy of the teacher, at "
        "the first update. The weight falls linearly.",
    )
    teacher_until: Annotated[float, Field(gt=0, le=1), WithTeacher()] = Field(
        default=0.5, description="Share of the run after which teacher_coef has fallen to 0."
    )
    teacher_beta: Annotated[NotNegative, WithTeacher()] = Field(
        default=0.0,
        description="Weight each copied step by exp(advantage / this number), for teachers of "
        "mixed quality. With 0, all steps have equal weights.",
    )

    @model_validator(mode="after")
    def _is_possible(self) -> Self:
        if self.shared_trunk and not NETWORKS[self.network].shares_trunk:
            raise ConfigError(
                "shared_trunk", f"the actor and the critic of {self.network} cannot share layers"
            )
        try:
            budgets_of(self.budgets)
        except ValueError as error:
            raise ConfigError("budgets", str(error)) from None
        if self.normalise_advantage and self.minibatch_size == 1:
            raise ConfigError(
                "minibatch_size",
                "1 is too small: it must be 2 or greater with normalised advantages, because the "
                "normalised advantage of a single step is always 0",
            )
        return self

    def at(self, progress: float) -> Annealed:
        """Return the hyperparameters at this share of the run, from 0 to 1."""

        def between(start: float, end: float | None) -> float:
            return start if end is None else start + progress * (end - start)

        return Annealed(
            between(self.learning_rate, self.learning_rate_final),
            between(self.clip_range, self.clip_range_final),
            between(self.entropy_coef, self.entropy_coef_final),
            self.teacher_coef * max(0.0, 1 - progress / self.teacher_until),
        )


class PPOMetrics(NamedTuple):
    """The metrics of one update. Losses, fractions and norms are means over its minibatches.

    These are NaN if every step was stale, because there were no minibatches.
    learning_rate: the rate of this update. policy_lag_*: over all steps of the rollout, including
    stale steps. stale_fraction: share of the steps left out for their lag. teacher_loss: the loss
    towards the teacher's copy: the weighted divergence KL(copy || policy) in nats. effective_share:
    see the function of this name. *_gradient_norm: before clipping. With a shared trunk, the
    policy's norm includes the critic, and the value's norm is NaN. action_std: the mean standard
    deviation of an action's real numbers after the update, in units in which bounds are -1 and 1,
    or NaN for actions of choices only.
    """

    policy_loss: float = math.nan
    value_loss: float = math.nan
    entropy: float = math.nan
    approx_kl: float = math.nan
    clip_fraction: float = math.nan
    explained_variance: float = math.nan
    learning_rate: float = math.nan
    policy_lag_min: int = 0
    policy_lag_mean: float = 0.0
    policy_lag_max: int = 0
    stale_fraction: float = 0.0
    teacher_loss: float = 0.0
    effective_share: float = math.nan
    policy_gradient_norm: float = math.nan
    value_gradient_norm: float = math.nan
    gradient_steps: int = 0
    action_std: float = math.nan


DECISIONS = "decisions"
"""A team's metric besides the fields of PPOMetrics."""
OF_EACH_POLICY = (
    *PPOMetrics._fields[: PPOMetrics._fields.index("learning_rate")],
    *PPOMetrics._fields[PPOMetrics._fields.index("policy_gradient_norm") :],
)
"""The metrics that a team of several policies also has for each policy."""
