"""Distributions over actions: the interface, and the distribution of one choice.

Workers sample from distributions with NumPy. The learner calls the methods that take tensors. Other
kinds are in `further_distributions`, which is imported only for an environment that needs them.

A mask says which actions are possible. An observation with a mask is [D + A]: D numbers, which the
network sees, and then A numbers, 1 for each possible action and 0 for each impossible one. A is the
number of the distribution's outputs: the masks of several choices follow one another. The outputs
of impossible actions become minus infinity, so that their probability is 0 in acting, in learning,
in entropies and in KL divergences. A mask is a part of the observation, so it goes wherever the
observation goes.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from torch import Tensor

    Outputs: TypeAlias = tuple[Tensor, Tensor | None]
    """A network's outputs for B observations [B, n_outputs], and the log standard deviations
    [n_outputs], if the distribution has them."""

FloatArray: TypeAlias = NDArray[np.float32]
Actions: TypeAlias = NDArray[Any]
"""Actions of M steps: int64 [M] (Categorical), int64 [M, K] (MultiCategorical), float32 [M, K]
(other kinds)."""

Choice: TypeAlias = tuple[Actions, FloatArray]
"""Actions of M steps, and their log-probabilities [M]."""

Prepared: TypeAlias = tuple[NDArray[Any], ...]
"""Arrays with a row for each row of a network's outputs. They are computed before sampling."""

Rows: TypeAlias = NDArray[np.int64]
Uniforms: TypeAlias = NDArray[np.float64]

Bounds: TypeAlias = tuple[tuple[float, ...], tuple[float, ...]]
"""The bounds of each number of an action: lower bounds, upper bounds. They may be infinite."""

BELOW_ONE = np.nextafter(np.float32(1), np.float32(0))


class Distribution(ABC):
    """A distribution of actions, given the outputs of the actor's network for an observation.

    n_outputs: the number of the network's outputs. n_draws: the number of uniform numbers for an
    action. It is constant, so that the random numbers of each step in an episode are known.
    n_numbers: how many numbers an action has. n_prepared: how many arrays `prepare` returns.
    has_log_std: whether the network also has a log standard deviation [n_outputs]. takes_masks:
    whether an output of minus infinity excludes a choice, as in distributions with choices only.
    """

    n_outputs: int
    n_draws: int
    n_numbers: int
    n_prepared: int = 2
    has_log_std: ClassVar[bool] = False
    takes_masks: ClassVar[bool] = False

    @abstractmethod
    def prepare(self, outputs: FloatArray, log_std: FloatArray | None) -> Prepared:
        """Compute arrays for `sample` and `mode` from outputs [M, n_outputs]."""

    @abstractmethod
    def sample(self, prepared: Prepared, rows: Rows, uniforms: Uniforms) -> Choice:
        """Return an action for each of these rows, drawn with uniforms [M, n_draws]."""

    @abstractmethod
    def mode(self, prepared: Prepared, rows: Rows) -> Choice:
        """Return the likeliest action for each of these rows."""

    @abstractmethod
    def to_plain(self) -> list[Any]:
        """Return the kind and the sizes as plain values for files."""

    def taken(self, numbers: Any) -> Any:
        """Return actions in the form for the other methods. numbers: [M, n_numbers], an array or a
        tensor."""
        return numbers

    def log_prob_and_entropy(
        self, outputs: Tensor, log_std: Tensor | None, row: Tensor | None, action: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Return the log-probabilities [B] of the actions of B steps, and the entropies [B] in
        nats, with gradients.

        outputs: [U, n_outputs], of distinct observations. row: int64 [B], the row of `outputs` for
        each step; None if every step has a row of its own, in order. action: [B] or [B, K].
        log_std: [n_outputs], if the distribution has one.
        """
        raise NotImplementedError

    def deviations(self, log_std: Tensor) -> Tensor:
        """Return the standard deviations of an action's real numbers."""
        return log_std.exp()

    def divergence(self, teacher: Outputs, student: Outputs) -> Tensor:
        """Return the divergence KL(teacher || student) of each of B steps, in nats [B].

        A mask excludes actions of both the teacher and the student.
        """
        raise NotImplementedError


@dataclass(frozen=True)
class Categorical(Distribution):
    """One of `n_outputs` choices. Outputs are logits. A logit of -inf excludes a choice."""

    n_outputs: int
    n_draws = n_numbers = 1
    n_prepared = 3
    takes_masks = True

    def __str__(self) -> str:
        return f"{self.n_outputs} actions"

    def prepare(self, outputs: FloatArray, log_std: FloatArray | None = None) -> Prepared:
        """Return the likeliest choices int64 [M], the cumulative unnormalised probabilities float32
        [M, A], and the log-probabilities float32 [M, A]."""
        likeliest = outputs.argmax(axis=1)
        logits = outputs - outputs.max(axis=1, keepdims=True)
        cumulative = np.exp(logits).cumsum(axis=1)
        return likeliest, cumulative, logits - np.log(cumulative[:, -1:])

    def sample(self, prepared: Prepared, rows: Rows, uniforms: Uniforms) -> Choice:
        """Draw by inverse transform sampling."""
        _, cumulative, log_prob = prepared
        cumulative = cumulative[rows]
        # float32 rounds a number close below 1 up to 1, which is past the last choice.
        threshold = np.minimum(uniforms.astype(np.float32), BELOW_ONE) * cumulative[:, -1:]
        action = (cumulative <= threshold).sum(axis=1)
        return action, log_prob[rows, action]

    def mode(self, prepared: Prepared, rows: Rows) -> Choice:
        """Return the choice of the greatest logit, or the first of several equal choices."""
        likeliest, _, log_prob = prepared
        action = likeliest[rows]
        return action, log_prob[rows, action]

    def to_plain(self) -> list[Any]:
        return ["Categorical", self.n_outputs]

    def taken(self, numbers: Any) -> Any:
        return as_integers(numbers[:, 0])

    def log_prob_and_entropy(
        self, outputs: Tensor, log_std: Tensor | None, row: Tensor | None, action: Tensor
    ) -> tuple[Tensor, Tensor]:
        log_probs = outputs.log_softmax(dim=-1)
        if row is None:
            return log_probs.gather(1, action[:, None])[:, 0], categorical_entropy(log_probs)
        # The order of these operations decides the order in which gradients are summed.
        log_prob = log_probs[row, action]
        return log_prob, categorical_entropy(log_probs)[row]

    def divergence(self, teacher: Outputs, student: Outputs) -> Tensor:
        log_prob, other = teacher[0].log_softmax(dim=-1), student[0].log_softmax(dim=-1)
        is_possible = log_prob > -math.inf  # Infinity minus infinity is no number.
        return (log_prob.exp() * (log_prob - other).where(is_possible, 0)).sum(dim=-1)


def categorical_entropy(log_probs: Tensor) -> Tensor:
    """Return the entropies [B] in nats of normalised log-probabilities [B, A].

    An excluded action, of log-probability -inf, adds nothing.
    """
    import torch

    probs = log_probs.exp()
    return -(probs * log_probs.clamp(min=torch.finfo(log_probs.dtype).min)).sum(dim=-1)


def as_integers(numbers: Any) -> Any:
    return numbers.astype(np.int64) if isinstance(numbers, np.ndarray) else numbers.long()


def masked(outputs: FloatArray, mask: NDArray[Any] | None) -> FloatArray:
    """Return outputs [N, A], in which zeros of a mask [N, A] become minus infinity."""
    return outputs if mask is None else np.where(mask > 0, outputs, np.float32(-np.inf))


def torch_masked(outputs: Tensor, mask: Tensor | None) -> Tensor:
    """Do the same as `masked` with tensors. Excluded outputs get no gradient."""
    return outputs if mask is None else outputs.masked_fill(mask <= 0, -float("inf"))
