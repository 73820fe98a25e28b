"""What PPO says of an update. Imports no torch."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple


class PPOMetrics(NamedTuple):
    """What one update did. Losses, fractions and norms are means over its minibatches.

    These are NaN if every step was stale: there were no minibatches then.
    learning_rate: as applied. policy_lag_*: over the rollout's steps, stale ones included.
    stale_fraction: share of the steps left out for their lag. teacher_loss: the loss towards the
    copy of the teacher, the divergence KL(copy || policy) in nats times its weight.
    effective_share: of the steps learned from, see the function of this name.
    *_gradient_norm: before the gradients are clipped; of a shared trunk, the policy's is of both,
    and the value's NaN. action_std: afterwards, the mean over an action's numbers, in units in
    which bounds are -1 and 1; NaN of choices alone.
    """

    policy_loss: float
    value_loss: float
    entropy: float
    approx_kl: float
    clip_fraction: float
    explained_variance: float
    learning_rate: float
    policy_lag_min: int
    policy_lag_mean: float
    policy_lag_max: int
    stale_fraction: float
    teacher_loss: float = 0.0
    effective_share: float = 1.0
    policy_gradient_norm: float = math.nan
    value_gradient_norm: float = math.nan
    gradient_steps: int = 0
    action_std: float = math.nan


DECISIONS = "decisions"
"""What a team has besides the fields of PPOMetrics."""
OF_EACH_POLICY = (
    *PPOMetrics._fields[: PPOMetrics._fields.index("learning_rate")],
    *PPOMetrics._fields[PPOMetrics._fields.index("policy_gradient_norm") :],
)
"""The fields that a team of several policies has for each policy too."""


@dataclass(frozen=True)
class TeamMetrics:
    """What one update of a team did.

    whole: means over the policies, each weighted by its decisions. decisions: of all agents; a busy
    agent decides nothing. of_each: by the policy's name, for the policies that have learned.
    """

    whole: PPOMetrics
    decisions: int
    of_each: dict[str, PPOMetrics]

    def _asdict(self) -> dict[str, Any]:
        """Return the whole, the decisions, and OF_EACH_POLICY of each policy by "field_policy"."""
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
