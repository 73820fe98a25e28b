"""The hyperparameters of MBPO, and its metrics of an update. Imports no torch."""

import math
from dataclasses import dataclass
from typing import Annotated, Self

from pydantic import Field, model_validator

from workflow_rl.agents.sac.config import SACConfig, SACMetrics
from workflow_rl.agents.settings import Count, LayerSizes, NotNegative, Positive, Share
from workflow_rl.errors import ConfigError


class MBPOConfig(SACConfig):
    """The hyperparameters of soft actor-critic and of the model.

    The constructor raises ConfigError.
    """

    model_members: Count = Field(default=5, description="Number of models in the ensemble.")
    model_elites: Count = Field(
        default=3,
        description="Number of models that imagine steps. These models predict held-out steps "
        "best.",
    )
    model_hidden_sizes: LayerSizes = Field(
        default=(128, 128), description="Hidden layers of each model."
    )
    model_learning_rate: Positive = Field(
        default=1e-3, description="AdamW's learning rate of the models."
    )
    model_weight_decay: NotNegative = Field(
        default=1e-5, description="AdamW's weight decay of the models."
    )
    model_batch_size: Count = Field(
        default=256, description="Number of steps in each batch of a model."
    )
    model_held_out: Annotated[float, Field(gt=0, lt=1)] = Field(
        default=0.1,
        description="Share of the real steps that is held out to compare the models.",
    )
    model_patience: Count = Field(
        default=5, description="Stop fitting after this number of epochs without improvement."
    )
    model_epochs: Count = Field(default=100, description="Maximum number of epochs of a fit.")
    model_every: Count = Field(
        default=1,
        description="Fit the models again after this number of real steps, but at most once in an "
        "update.",
    )
    imagined_share: Share = Field(
        default=0.5,
        description="Share of imagined steps in each batch of the agent. With 0, the agent learns "
        "only from real steps, and no model is fitted.",
    )
    rollout_length: Count = Field(
        default=1, description="Number of steps of an imagined rollout at the start of the run."
    )
    rollout_length_final: Count = Field(
        default=5, description="Number of steps of an imagined rollout at the end of the run."
    )
    imagined_rollouts: Positive = Field(
        default=0.5, description="Number of imagined rollouts for each real step."
    )
    imagined_updates: Count = Field(
        default=5, description="Number of updates for which imagined steps are kept."
    )
    start_steps: Count = Field(
        default=10_000,
        description="Number of the newest real steps from which the starts of imagined rollouts "
        "are drawn.",
    )

    def rollout_length_at(self, progress: float) -> int:
        """Return the length of imagined rollouts at this share of the run, from 0 to 1."""
        return round(
            self.rollout_length + progress * (self.rollout_length_final - self.rollout_length)
        )

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        if self.imagined_share and round(self.imagined_share * self.batch_size) < 1:
            raise ConfigError(
                "imagined_share",
                f"{self.imagined_share:g} is too small: it must be 0, or give at least one step "
                f"of a batch of {self.batch_size}",
            )
        if self.model_elites > self.model_members:
            raise ConfigError(
                "model_elites",
                f"{self.model_elites} is too large: model_members is {self.model_members}",
            )
        return self


@dataclass(frozen=True)
class MBPOMetrics(SACMetrics):
    """The metrics of one update: see `SACMetrics`.

    imagined_steps: imagined steps in the whole run so far. rollout_length: the length of this
    update's imagined rollouts. model_*: see `dynamics.Fit`. They are NaN if no model was fitted.
    """

    imagined_steps: int = 0
    rollout_length: int = 0
    model_obs_loss: float = math.nan
    model_reward_error: float = math.nan
    model_spread: float = math.nan
    model_epochs: float = math.nan
