"""What PPO says of an update. Imports no torch."""

from __future__ import annotations

from typing import NamedTuple


class PPOMetrics(NamedTuple):
    """What one update did. Losses and fractions are means over its minibatches.

    The first six are NaN if every step was stale: there were no minibatches then.
    learning_rate: as applied. policy_lag_*: over the rollout's steps, stale ones included.
    stale_fraction: share of the steps left out for their lag.
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
