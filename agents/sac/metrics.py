"""What SAC says of an update. Imports no torch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class SACMetrics:
    """What one update did.

    The policy's loss, its entropy in nats, the temperature and the norm of the policy's gradient
    are means over the gradient steps of the policy, the critics' loss and the norm of their
    gradient over all gradient steps: NaN if there were none. action_std: in the last gradient step,
    of the numbers before they are squashed; NaN of choices. policy_lag_*: of
    the rollout's steps. stale_fraction: always 0. real_steps: in the whole run so far.
    """

    policy_loss: float
    value_loss: float
    entropy: float
    temperature: float
    policy_gradient_norm: float
    value_gradient_norm: float
    action_std: float
    learning_rate: float
    policy_lag_min: int
    policy_lag_mean: float
    policy_lag_max: int
    stale_fraction: float
    gradient_steps: int
    real_steps: int

    def _asdict(self) -> dict[str, Any]:
        return dict(vars(self))
