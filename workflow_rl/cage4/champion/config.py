"""What can be set of the training of CAGE Challenge 4's champion."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from agents.settings import Count, CountOrNone, NotNegative, Positive, Settings, Share

Episodes = Annotated[int, Field(ge=2)]


class ChampionConfig(Settings):
    """The config of a champion's run. Making one raises ConfigError."""

    env: str = "workflow_rl/CAGE4-v0"
    seed: CountOrNone = Field(default=0, description="The same seed gives the same weights.")
    total_episodes: Episodes = Field(default=10_000, description="Episodes of PPO.")
    episodes_per_update: Episodes = Field(default=200, description="Episodes of an update.")
    copy_epochs: Count = Field(default=4, description="Passes over what the rules did.")
    copy_learning_rate: Positive = Field(default=3e-3, description="Step size of copying.")
    copy_minibatch_size: Count = Field(default=512, description="Decisions of a step of copying.")
    epochs: Count = Field(default=2, description="Passes over the decisions of an update.")
    minibatch_size: Count = Field(default=2048, description="Decisions of a gradient step.")
    learning_rate: Positive = Field(default=1.5e-3, description="The actors' first step size.")
    learning_rate_final: Positive = Field(default=2e-5, description="Their last step size.")
    critic_learning_rate: Positive = Field(default=2e-3, description="The critics' step size.")
    discount: Share = Field(default=0.995, description="Of the rewards of one step later.")
    gae_lambda: Share = Field(default=0.92, description="Of GAE.")
    clip: Positive = Field(default=0.2, description="PPO's bound on probability ratios.")
    entropy_coef: NotNegative = Field(default=0.006, description="Falls to 0 with the square.")
    max_grad_norm: Positive = Field(default=0.5, description="Gradients are clipped to it.")
    max_divergence: Positive = Field(default=0.03, description="Ends the epochs of an update.")

    @property
    def updates(self) -> int:
        """The number of updates of PPO."""
        return max(1, self.total_episodes // self.episodes_per_update)
