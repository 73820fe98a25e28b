"""What can be set of the training of CAGE Challenge 4's champion."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from workflow_rl.agents.settings import Count, CountOrNone, NotNegative, Positive, Settings, Share

Episodes = Annotated[int, Field(ge=2)]


class ChampionConfig(Settings):
    """The config of a champion's run. Making one raises ConfigError."""

    env: str = "workflow_rl/CAGE4-v0"
    seed: CountOrNone = Field(default=0, description="The same seed gives the same weights.")
    total_episodes: Episodes = Field(
        default=10_000, description="Number of episodes that PPO learns from."
    )
    episodes_per_update: Episodes = Field(
        default=200, description="Number of episodes that one update learns from."
    )
    copy_epochs: Count = Field(
        default=4, description="How often copying passes over the decisions of the rules."
    )
    copy_learning_rate: Positive = Field(default=3e-3, description="Learning rate of copying.")
    copy_minibatch_size: Count = Field(
        default=512, description="Number of decisions in a gradient step of copying."
    )
    epochs: Count = Field(
        default=2, description="How often PPO passes over the decisions of an update."
    )
    minibatch_size: Count = Field(
        default=2048, description="Number of decisions in a gradient step of PPO."
    )
    learning_rate: Positive = Field(
        default=1.5e-3, description="Learning rate of the first update."
    )
    learning_rate_final: Positive = Field(
        default=2e-5, description="Learning rate that the last update nearly reaches."
    )
    critic_learning_rate: Positive = Field(
        default=2e-3, description="Learning rate of the critics."
    )
    discount: Share = Field(
        default=0.995, description="Weight of a reward that comes one step later."
    )
    gae_lambda: Share = Field(
        default=0.92, description="Lambda of GAE: the weight of an error one step later."
    )
    clip: Positive = Field(
        default=0.2, description="PPO clips probability ratios to 1 plus or minus this."
    )
    entropy_coef: NotNegative = Field(
        default=0.006, description="Weight of the entropy; it falls to 0 quadratically."
    )
    max_grad_norm: Positive = Field(
        default=0.5, description="The norm of gradients is clipped to this."
    )
    max_divergence: Positive = Field(
        default=0.03, description="An update ends after an epoch whose mean divergence is larger."
    )

    @property
    def updates(self) -> int:
        """The number of updates of PPO."""
        return max(1, self.total_episodes // self.episodes_per_update)
