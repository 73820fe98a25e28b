"""BRIDGE, to be deleted once TrainConfig has `algorithm` and `settings`: the settings of before."""

from __future__ import annotations

import dataclasses
import numbers
import sys
from dataclasses import dataclass
from typing import Any, NamedTuple

from agents.algorithm import find
from agents.mbpo.config import MBPOConfig as MBPOSettings
from agents.policies.networks import ACTIVATIONS, NETWORKS
from agents.ppo.config import PPOConfig as PPOSettings
from agents.settings import Settings

CORRECTIONS = ("none", "vtrace")
MINIBATCHES_OF = ("steps", "observations")
LARGEST_LAYER, MOST_LAYERS = 16_384, 32


class Annealed(NamedTuple):
    """Hyperparameters that go linearly from where they start to where they end."""

    learning_rate: float
    clip_range: float
    entropy_coef: float


@dataclass(frozen=True)
class PPOConfig:
    """PPO's hyperparameters. Raises ValueError, naming the field, where one makes no sense.

    Args:
        hidden_sizes: layers of the actor and, separately, of the critic.
        activation: of these layers.
        learning_rate: Adam's, at the start.
        learning_rate_final: at the run's end; it goes there linearly.
        discount: gamma.
        gae_lambda: lambda of generalised advantage estimation.
        clip_range: how far from 1 the probability ratio is rewarded, at the start.
        epochs: passes over each rollout.
        minibatch_size: steps in a gradient step.
        minibatches_of: "steps", drawn singly, or whole "observations": all steps of a rollout that
            saw the same are in the same minibatch, where observations are of a kind that repeats
            (see `numpy_policy.likely_repeats`), so that the networks see each of them once an
            epoch.
        entropy_coef: weight of the entropy bonus, at the start.
        value_coef: weight of the critic's loss.
        max_grad_norm: gradient norm above which it is clipped, for actor and critic each.
        normalise_advantage: within each minibatch.
        reward_scale: factor on the rewards the critic learns from.
        target_kl: an update's epochs stop once the KL divergence exceeds 1.5 times this; None:
            never.
        decoupled_clip: where there is a policy lag, clip around the policy at the start of the
            update, not the one that acted, and weigh each step by how much less likely its action
            has become: Hilton et al. 2021, "Batch size-invariance for policy optimization",
            equation 2, with the weight at most 1. Otherwise most of the gradient is clipped away,
            for the update before has moved the policy to the edge of the clip range already.
        correction: how advantages and targets account for a policy lag: "none" (generalised
            advantage estimation, as if there were none) or "vtrace".
        max_policy_lag: in updates, the largest lag that steps may have to be learned from; None is
            any. (Sample Factory's counts minibatches, and the lag it names is masked already.)
        network: of `networks.NETWORKS`.
        log_std_init: log standard deviation of continuous actions at the start.
        clip_range_final: where clip_range goes by the run's end; None: it stays.
        entropy_coef_final: where entropy_coef goes by the run's end; None: it stays.
        normalise_obs: shift and scale observations by the running moments of all rollouts before.
        normalise_returns: divide rewards by the running deviation of the discounted return.
    """

    hidden_sizes: tuple[int, ...] = (64, 64)
    activation: str = "tanh"
    learning_rate: float = 3e-3
    learning_rate_final: float = 0.0
    discount: float = 0.99
    gae_lambda: float = 0.9
    clip_range: float = 0.2
    epochs: int = 6
    minibatch_size: int = 2500
    minibatches_of: str = "steps"
    entropy_coef: float = 0.01
    value_coef: float = 0.5
    max_grad_norm: float = 0.5
    normalise_advantage: bool = True
    reward_scale: float = 0.1
    target_kl: float | None = None
    decoupled_clip: bool = True
    correction: str = "none"
    max_policy_lag: int | None = None
    network: str = "mlp"
    log_std_init: float = 0.0
    clip_range_final: float | None = None
    entropy_coef_final: float | None = None
    normalise_obs: bool = False
    normalise_returns: bool = False

    def at(self, progress: float) -> Annealed:
        """What changes in the course of a run, at this share of it, from 0 to 1."""

        def between(start: float, end: float | None) -> float:
            return start if end is None else start + progress * (end - start)

        return Annealed(
            between(self.learning_rate, self.learning_rate_final),
            between(self.clip_range, self.clip_range_final),
            between(self.entropy_coef, self.entropy_coef_final),
        )

    def __post_init__(self) -> None:
        for name, expected in mistyped(self).items():
            require(False, name, repr(getattr(self, name)), expected)
        for name in ("learning_rate", "clip_range", "max_grad_norm", "reward_scale"):
            require(getattr(self, name) > 0, name, getattr(self, name), "greater than 0")
        for name in ("learning_rate_final", "entropy_coef", "value_coef"):
            require(getattr(self, name) >= 0, name, getattr(self, name), "0 or greater")
        for name in ("discount", "gae_lambda"):
            require(0 <= getattr(self, name) <= 1, name, getattr(self, name), "from 0 to 1")
        for name in ("epochs", "minibatch_size"):
            require(getattr(self, name) >= 1, name, getattr(self, name), "1 or greater")
        require(
            all(1 <= size <= LARGEST_LAYER for size in self.hidden_sizes)
            and len(self.hidden_sizes) <= MOST_LAYERS,
            "hidden_sizes",
            self.hidden_sizes,
            f"at most {MOST_LAYERS} sizes from 1 to {LARGEST_LAYER}",
        )
        require(
            self.activation in ACTIVATIONS,
            "activation",
            self.activation,
            f"one of {', '.join(ACTIVATIONS)}",
        )
        require(
            self.target_kl is None or self.target_kl > 0,
            "target_kl",
            self.target_kl,
            "greater than 0",
        )
        require(
            self.correction in CORRECTIONS,
            "correction",
            self.correction,
            f"one of {', '.join(CORRECTIONS)}",
        )
        require(
            self.minibatches_of in MINIBATCHES_OF,
            "minibatches_of",
            self.minibatches_of,
            f"one of {', '.join(MINIBATCHES_OF)}",
        )
        require(self.network in NETWORKS, "network", self.network, f"one of {', '.join(NETWORKS)}")
        for name in ("clip_range_final", "entropy_coef_final"):
            value = getattr(self, name)
            require(value is None or value >= 0, name, value, "0 or greater")
        require(
            not self.normalise_advantage or self.minibatch_size > 1,
            "minibatch_size",
            self.minibatch_size,
            "2 or greater with normalised advantages: that of a single step is always 0",
        )
        require(
            self.max_policy_lag is None or self.max_policy_lag >= 0,
            "max_policy_lag",
            self.max_policy_lag,
            "0 or greater",
        )


def mistyped(config: Any) -> dict[str, str]:
    """The fields of a config whose values are of another type than declared, and what is expected.

    Configs are read from files too. A number must be finite, and an integer have 64 bits; None is
    right where it is the default.
    """
    wrong = {}
    for one in dataclasses.fields(config):
        check, expected = _TYPES.get(str(one.type).removesuffix(" | None"), (None, ""))
        value = getattr(config, one.name)
        if check is not None and not check(value) and not (value is None and one.default is None):
            wrong[one.name] = expected
    return wrong


def _is_whole(value: Any) -> bool:
    is_number = isinstance(value, numbers.Integral) and not isinstance(value, bool)
    return is_number and -(2**63) <= value < 2**63


def _is_finite(value: Any) -> bool:
    is_number = isinstance(value, numbers.Real) and not isinstance(value, bool)
    return is_number and bool(abs(value) <= sys.float_info.max)  # Neither is NaN.


_TYPES = {
    "bool": (lambda value: isinstance(value, bool), "true or false"),
    "int": (_is_whole, "a whole number below 2**63"),
    "float": (_is_finite, "a finite number"),
    "str": (lambda value: isinstance(value, str), "text"),
    "tuple[int, ...]": (
        lambda value: isinstance(value, tuple | list) and all(map(_is_whole, value)),
        "whole numbers",
    ),
}


def require(valid: bool, name: str, value: object, expected: str) -> None:
    """Raises ValueError, naming the field, unless its value is valid."""
    if not valid:
        raise ValueError(f"{name} is {value}, but must be {expected}")


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


def old_settings(settings: PPOSettings | MBPOSettings) -> tuple[PPOConfig, MBPOConfig | None]:
    """Return an algorithm's settings as the two configs of before."""
    values = dict(settings)
    ppo, mbpo = (
        {one.name: values[one.name] for one in dataclasses.fields(kind) if one.name in values}
        for kind in (PPOConfig, MBPOConfig)
    )
    return PPOConfig(**ppo), MBPOConfig(**mbpo) if mbpo else None


def new_settings(algorithm: str, ppo: PPOConfig, mbpo: MBPOConfig | None) -> Settings:
    """Return the two configs of before as an algorithm's settings."""
    kind = find(algorithm).settings
    values = {**vars(ppo), **({} if mbpo is None else vars(mbpo))}
    return kind(**{name: value for name, value in values.items() if name in kind.model_fields})
