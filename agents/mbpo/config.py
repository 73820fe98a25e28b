"""MBPO's hyperparameters, besides those it shares with PPO. Imports no torch."""

from __future__ import annotations

from dataclasses import dataclass

from agents.ppo.config import mistyped, require

OF_A_MODEL = frozenset(
    {
        "model_members",
        "model_elites",
        "model_hidden_sizes",
        "model_learning_rate",
        "model_weight_decay",
        "model_batch_size",
        "model_held_out",
        "model_patience",
        "model_epochs",
        "rollout_length",
        "rollout_length_final",
        "imagined_rollouts",
        "imagined_updates",
        "start_steps",
    }
)
"""Settings without effect where imagined_share is 0, as it is for sac."""


@dataclass(frozen=True)
class MBPOConfig:
    """How a model is learned and used. Raises ValueError, naming the field.

    The agent's networks, learning rate, discount and reward scale are PPOConfig's.

    Args:
        replay_capacity: real steps that are remembered.
        batch_size: steps in a gradient step of the agent.
        gradient_steps: of the agent, for each real step; a fraction counts from update to update.
        target_rate: Polyak's, of the target critics.
        target_entropy: that the policy's is held at. Of one choice of several, as a share of a
            uniform policy's; of bounded numbers, nats for each. None: 0.4, and -1.
        model_members: models in the ensemble.
        model_elites: the best of them, which imagine.
        model_hidden_sizes: layers of each.
        model_learning_rate: AdamW's.
        model_weight_decay: AdamW's.
        model_batch_size: steps in a gradient step of a model.
        model_held_out: share of the steps that judges the models and fits none.
        model_patience: epochs without an improvement after which a model is fitted.
        model_epochs: after which it is at the latest.
        imagined_share: of an agent's batch; 0 learns from real steps alone, and fits no model.
        rollout_length: imagined steps from a real one on, at the run's beginning.
        rollout_length_final: at its end; linear in between.
        imagined_rollouts: begun for each real step.
        imagined_updates: updates for which imagined steps are kept.
        start_steps: newest real steps that rollouts begin at.
        warm_up_steps: real steps before anything is learned.
    """

    replay_capacity: int = 1_000_000
    batch_size: int = 256
    gradient_steps: float = 0.33
    target_rate: float = 0.01
    target_entropy: float | None = None
    model_members: int = 5
    model_elites: int = 3
    model_hidden_sizes: tuple[int, ...] = (128, 128)
    model_learning_rate: float = 1e-3
    model_weight_decay: float = 1e-5
    model_batch_size: int = 256
    model_held_out: float = 0.1
    model_patience: int = 5
    model_epochs: int = 100
    imagined_share: float = 0.5
    rollout_length: int = 1
    rollout_length_final: int = 5
    imagined_rollouts: float = 0.5
    imagined_updates: int = 5
    start_steps: int = 10_000
    warm_up_steps: int = 2000

    def rollout_length_at(self, progress: float) -> int:
        """At this share of the run, from 0 to 1: it goes linearly from one to the other."""
        return round(
            self.rollout_length + progress * (self.rollout_length_final - self.rollout_length)
        )

    def __post_init__(self) -> None:
        for name, expected in mistyped(self).items():
            require(False, name, repr(getattr(self, name)), expected)
        positive = (
            "gradient_steps",
            "target_rate",
            "model_learning_rate",
            "imagined_rollouts",
        )
        for name in positive:
            require(getattr(self, name) > 0, name, getattr(self, name), "greater than 0")
        counts = (
            "replay_capacity",
            "batch_size",
            "model_members",
            "model_elites",
            "model_batch_size",
            "model_patience",
            "model_epochs",
            "rollout_length",
            "rollout_length_final",
            "imagined_updates",
            "start_steps",
        )
        for name in counts:
            require(getattr(self, name) >= 1, name, getattr(self, name), "1 or greater")
        for name in ("target_rate", "imagined_share"):
            require(0 <= getattr(self, name) <= 1, name, getattr(self, name), "from 0 to 1")
        for name in ("model_weight_decay", "warm_up_steps"):
            require(getattr(self, name) >= 0, name, getattr(self, name), "0 or greater")
        require(
            0 < self.model_held_out < 1,
            "model_held_out",
            self.model_held_out,
            "between 0 and 1",
        )
        require(
            self.replay_capacity >= self.warm_up_steps,
            "replay_capacity",
            self.replay_capacity,
            f"at least warm_up_steps, {self.warm_up_steps}: fewer are never enough to learn from",
        )
        require(
            self.imagined_share == 0 or round(self.imagined_share * self.batch_size) >= 1,
            "imagined_share",
            self.imagined_share,
            f"0, or at least one step of batch_size, {self.batch_size}",
        )
        require(
            self.model_elites <= self.model_members,
            "model_elites",
            self.model_elites,
            f"at most model_members, {self.model_members}",
        )
