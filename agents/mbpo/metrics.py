"""What MBPO says of an update. Imports no torch."""

from __future__ import annotations

from dataclasses import dataclass

from workflow_rl.agents.sac.metrics import SACMetrics


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
