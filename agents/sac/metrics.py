"""What SAC says of an update. Imports no torch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class SACMetrics:
    """What one update did.

    The policy's loss, its entropy in nats and the temperature are means over the gradient steps of
    the policy, the critics' loss over all gradient steps: NaN if there were none. policy_lag_*: of
    the rollout's steps. stale_fraction: always 0. real_steps: in the whole run so far.
    """

    policy_loss: float
    value_loss: float
    entropy: float
    temperature: float
    learning_rate: float
    policy_lag_min: int
    policy_lag_mean: float
    policy_lag_max: int
    stale_fraction: float
    gradient_steps: int
    real_steps: int

    def _asdict(self) -> dict[str, Any]:
        return dict(vars(self))
