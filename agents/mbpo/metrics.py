"""What MBPO says of an update. Imports no torch."""

from __future__ import annotations

from typing import NamedTuple


class MBPOMetrics(NamedTuple):
    """What one update did: see `sac.metrics.SACMetrics`, whose fields come first.

    imagined_steps: in the whole run so far. rollout_length: of this update's imagined rollouts.
    model_*: see `dynamics.Fit`; NaN if no model was fitted.
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
    imagined_steps: int
    rollout_length: int
    model_obs_loss: float
    model_reward_error: float
    model_spread: float
    model_epochs: float
