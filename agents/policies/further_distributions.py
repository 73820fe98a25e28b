"""Distributions over actions of several choices, of numbers, or of choices and numbers."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from workflow_rl.agents.policies.distributions import (
    Actions,
    Categorical,
    Choice,
    Distribution,
    FloatArray,
    Prepared,
    Rows,
    Uniforms,
    as_integers,
)

if TYPE_CHECKING:
    from torch import Tensor

    from workflow_rl.agents.policies.distributions import Outputs

LARGEST_BOUND = 1e30
"""For bounds below this number, float32 holds the middle, the half width and its inverse."""
LOG_STD_LIMITS = (-20.0, 2.0)
HALF_LOG_2_PI = 0.5 * math.log(2 * math.pi)


class Joint(Distribution):
    """Independent distributions as parts of one. Outputs, uniform numbers and an action's numbers
    are the parts' numbers, in the order of the parts.

    dtype: the type of actions. Two distributions of a kind with equal parts are equal.
    """

    dtype: ClassVar[Any]

    def __init__(self, parts: tuple[Distribution, ...]) -> None:
        self.parts = parts
        self.outputs, self.n_outputs = _places([part.n_outputs for part in parts])
        self._numbers, self.n_numbers = _places([part.n_numbers for part in parts])
        self._draws, self.n_draws = _places([part.n_draws for part in parts])
        self._arrays, self.n_prepared = _places([part.n_prepared for part in parts])

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Joint) and (type(self), self.parts) == (type(other), other.parts)

    def __hash__(self) -> int:
        return hash(self.parts)

    def of_part(self, n: int, action: Any) -> Any:
        """Return a part's actions, in its own form, from actions [M, K]."""
        return self.parts[n].taken(action[:, self._numbers[n]])

    def _of_parts(self, outputs: Any, log_std: Any) -> list[tuple[Any, Any]]:
        """Return the outputs and the log standard deviations, if any, of each part."""
        return [(outputs[:, at], None if log_std is None else log_std[at]) for at in self.outputs]

    def prepare(self, outputs: FloatArray, log_std: FloatArray | None = None) -> Prepared:
        prepared: list[NDArray[Any]] = []
        for part, described in zip(self.parts, self._of_parts(outputs, log_std), strict=True):
            prepared += part.prepare(*described)
        return tuple(prepared)

    def sample(self, prepared: Prepared, rows: Rows, uniforms: Uniforms) -> Choice:
        """Draw each part with its own uniform numbers."""
        placed = zip(self.parts, self._arrays, self._draws, strict=True)
        return self._joined(
            [part.sample(prepared[of], rows, uniforms[:, drawn]) for part, of, drawn in placed]
        )

    def mode(self, prepared: Prepared, rows: Rows) -> Choice:
        placed = zip(self.parts, self._arrays, strict=True)
        return self._joined([part.mode(prepared[of], rows) for part, of in placed])

    def _joined(self, choices: Sequence[Choice]) -> Choice:
        actions, log_probs = zip(*choices, strict=True)
        columns = [action.reshape(len(action), -1).astype(self.dtype) for action in actions]
        # np.sum would add a single row of many choices in another order than rows of a batch.
        return np.concatenate(columns, axis=1), functools.reduce(np.add, log_probs)

    def log_prob_and_entropy(
        self, outputs: Tensor, log_std: Tensor | None, row: Tensor | None, action: Tensor
    ) -> tuple[Tensor, Tensor]:
        import torch

        log_probs, entropies = [], []
        for n, described in enumerate(self._of_parts(outputs, log_std)):
            taken = self.of_part(n, action)
            log_prob, entropy = self.parts[n].log_prob_and_entropy(*described, row, taken)
            log_probs.append(log_prob)
            entropies.append(entropy)
        return torch.stack(log_probs).sum(dim=0), torch.stack(entropies).sum(dim=0)

    def divergence(self, teacher: Outputs, student: Outputs) -> Tensor:
        import torch

        both = zip(self.parts, self._of_parts(*teacher), self._of_parts(*student), strict=True)
        of_parts = [part.divergence(taught, learned) for part, taught, learned in both]
        return torch.stack(of_parts).sum(dim=0)


class MultiCategorical(Joint):
    """Several independent choices. sizes: the number of options of each choice."""

    dtype = np.int64
    takes_masks = True

    def __init__(self, sizes: Sequence[int]) -> None:
        super().__init__(tuple(map(Categorical, sizes)))

    def __str__(self) -> str:
        return " x ".join(str(part.n_outputs) for part in self.parts) + " actions"

    def to_plain(self) -> list[Any]:
        return ["MultiCategorical", [part.n_outputs for part in self.parts]]

    def taken(self, numbers: Any) -> Any:
        return as_integers(numbers)


def _places(sizes: Sequence[int]) -> tuple[list[slice], int]:
    """Return the slices of consecutive parts of these sizes, and the sum of the sizes."""
    ends = [0, *itertools.accumulate(sizes)]
    return [slice(start, end) for start, end in itertools.pairwise(ends)], ends[-1]


@dataclass(frozen=True)
class DiagonalGaussian(Distribution):
    """`n_outputs` independent normal numbers. Outputs are their means. The log standard deviations
    do not depend on the observation.

    middle, half_width: describe each number's bounds, [K] each. Outputs and deviations have units
    in which the bounds are -1 and 1: an output of 1 is the mean `middle + half_width`. Without
    bounds, the outputs are the means. low, high: the ends of the action space, [K] each, or empty
    if they are unknown. An end may be infinite. Drawn actions may be beyond the ends. Environments
    and exported networks clip such actions. The ends do not count when distributions are compared.
    Raises ValueError for bounds that do not fit.
    """

    n_outputs: int
    middle: tuple[float, ...] = ()
    half_width: tuple[float, ...] = ()
    low: tuple[float, ...] = field(default=(), compare=False)
    high: tuple[float, ...] = field(default=(), compare=False)
    has_log_std = True

    def __post_init__(self) -> None:
        bounds = np.array([*self.middle, *self.half_width], np.float64)
        n = self.n_outputs if self.middle or self.half_width else 0
        are_within = np.abs(bounds) < LARGEST_BOUND
        if not len(self.middle) == len(self.half_width) == n or not are_within.all():
            raise ValueError(f"{self.middle} and {self.half_width} are no bounds")
        if not (bounds[n:] > 1 / LARGEST_BOUND).all():
            raise ValueError(f"{self.half_width} are no widths of bounds")
        low, high = np.array(self.low, np.float64), np.array(self.high, np.float64)
        n = self.n_outputs if self.low or self.high else 0
        if not len(low) == len(high) == n or not (low <= high).all():
            raise ValueError(f"{self.low} and {self.high} are no bounds")

    def __str__(self) -> str:
        numbers = f"actions of {self.n_outputs} number{'s' * (self.n_outputs > 1)}"
        if not self.middle:
            return numbers
        low, high = (np.array(self.middle) + sign * np.array(self.half_width) for sign in (-1, 1))
        return f"{numbers} from {low.min():g} to {high.max():g}"

    @functools.cached_property
    def n_numbers(self) -> int:  # type: ignore[override]
        return self.n_outputs

    @functools.cached_property
    def n_draws(self) -> int:  # type: ignore[override]
        """Each pair of normal numbers takes a pair of uniform numbers."""
        return 2 * self._n_pairs

    @property
    def _n_pairs(self) -> int:
        return math.ceil(self.n_outputs / 2)

    def prepare(self, outputs: FloatArray, log_std: FloatArray | None) -> Prepared:
        assert log_std is not None
        if self.middle:
            middle, half_width, log_half_width = self.scale
            outputs, log_std = middle + half_width * outputs, log_std + log_half_width
        return outputs, np.broadcast_to(log_std, outputs.shape)

    @functools.cached_property
    def scale(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """`middle`, `half_width` and the logarithm of `half_width`, float32 [K] each."""
        middle, half_width = (np.array(ends, np.float32) for ends in (self.middle, self.half_width))
        return middle, half_width, np.log(half_width)

    def sample(self, prepared: Prepared, rows: Rows, uniforms: Uniforms) -> Choice:
        """Draw by the transform of Box and Muller 1958, which needs a fixed number of uniforms."""
        mean, log_std = (column[rows] for column in prepared)
        radius = np.sqrt(-2 * np.log1p(-uniforms[:, : self._n_pairs]))
        angle = 2 * np.pi * uniforms[:, self._n_pairs :]
        pairs = np.concatenate([radius * np.cos(angle), radius * np.sin(angle)], axis=1)
        noise = pairs[:, : self.n_outputs].astype(np.float32)
        return mean + np.exp(log_std) * noise, self._log_prob(noise, log_std)

    def mode(self, prepared: Prepared, rows: Rows) -> Choice:
        mean, log_std = (column[rows] for column in prepared)
        return mean, self._log_prob(np.zeros_like(mean), log_std)

    @staticmethod
    def _log_prob(noise: FloatArray, log_std: FloatArray) -> FloatArray:
        log_prob: FloatArray = -(0.5 * noise**2 + log_std + np.float32(HALF_LOG_2_PI)).sum(axis=1)
        return log_prob

    def to_plain(self) -> list[Any]:
        if not self.middle and not self.low:
            return ["DiagonalGaussian", self.n_outputs]
        ends = self.middle, self.half_width, self.low, self.high
        return ["ScaledGaussian", list(map(list, ends))]

    def log_prob_and_entropy(
        self, outputs: Tensor, log_std: Tensor | None, row: Tensor | None, action: Tensor
    ) -> tuple[Tensor, Tensor]:
        assert log_std is not None
        if self.middle:
            middle, half_width, log_half_width = map(outputs.new_tensor, self.scale)
            outputs, log_std = middle + half_width * outputs, log_std + log_half_width
        mean = outputs if row is None else outputs[row]
        noise = (action - mean) * (-log_std).exp()
        log_prob = -(0.5 * noise.square() + log_std + HALF_LOG_2_PI).sum(dim=-1)
        entropy = (log_std + 0.5 * math.log(2 * math.pi * math.e)).sum()
        return log_prob, entropy.expand(len(action))

    def divergence(self, teacher: Outputs, student: Outputs) -> Tensor:
        # The bounds' scale cancels out.
        (outputs, log_std), (others, other_log_std) = teacher, student
        assert log_std is not None
        assert other_log_std is not None
        apart = (2 * log_std).exp() + (outputs - others).square()
        per_number = other_log_std - log_std + 0.5 * (apart * (-2 * other_log_std).exp() - 1)
        return per_number.sum(dim=-1)


class Mixed(Joint):
    """Choices and numbers in one action, float32 [K]. Choices are float32 too.

    The log standard deviations [n_outputs] have unused numbers for choices.
    """

    dtype = np.float32
    has_log_std = True

    def __init__(self, parts: tuple[Distribution, ...]) -> None:
        kinds = Categorical, MultiCategorical, DiagonalGaussian
        if not all(isinstance(part, kinds) and part.n_outputs > 0 for part in parts):
            raise ValueError(f"{parts!s:.200} are no choices and numbers")
        super().__init__(parts)

    def __str__(self) -> str:
        return " x ".join(str(part) for part in self.parts)

    def deviations(self, log_std: Tensor) -> Tensor:
        import torch

        placed = zip(self.parts, self.outputs, strict=True)
        return torch.cat([part.deviations(log_std[at]) for part, at in placed if part.has_log_std])

    def to_plain(self) -> list[Any]:
        return ["Mixed", [part.to_plain() for part in self.parts]]


@dataclass(frozen=True)
class SquashedGaussian(Distribution):
    """Independent normal numbers, each squashed by tanh into its bounds.

    Outputs are all means, and then all log standard deviations, which are clipped to
    LOG_STD_LIMITS.

    See Haarnoja et al. 2018, "Soft Actor-Critic Algorithms and Applications", appendix C. Raises
    ValueError for bounds that are infinite in float32 or in the wrong order.
    """

    low: tuple[float, ...]
    high: tuple[float, ...]

    def __str__(self) -> str:
        return f"actions of {len(self.low)} bounded numbers"

    def __post_init__(self) -> None:
        low, high = (np.array(ends, np.float64) for ends in (self.low, self.high))
        if low.ndim != 1 or not len(low) or low.shape != high.shape:
            raise ValueError(f"{low.shape} and {high.shape} numbers are no bounds")
        with np.errstate(over="ignore"):
            ends = np.array([low, high, (high - low) / 2]).astype(np.float32)
        for number, (least, most, half) in enumerate(ends.T.tolist()):
            if not math.isfinite(least + most + half) or half <= 0:
                raise ValueError(
                    f"needs finite bounds of its actions, the lower below the upper: number "
                    f"{number} has {least:g} to {most:g}"
                )

    @functools.cached_property
    def n_numbers(self) -> int:  # type: ignore[override]
        return len(self.low)

    @functools.cached_property
    def n_outputs(self) -> int:  # type: ignore[override]
        return 2 * self.n_numbers

    @functools.cached_property
    def n_draws(self) -> int:  # type: ignore[override]
        return self._gaussian.n_draws

    @property
    def _gaussian(self) -> DiagonalGaussian:
        return DiagonalGaussian(len(self.low))

    @functools.cached_property
    def middle(self) -> FloatArray:
        return ((np.array(self.high) + np.array(self.low)) / 2).astype(np.float32)

    @functools.cached_property
    def half_width(self) -> FloatArray:
        """Half the distance between each number's bounds, float32 [K]."""
        return ((np.array(self.high) - np.array(self.low)) / 2).astype(np.float32)

    def to_plain(self) -> list[Any]:
        return ["SquashedGaussian", [list(self.low), list(self.high)]]

    def normalised(self, action: Actions) -> FloatArray:
        """Return actions [M, K] as numbers from -1 to 1."""
        return ((action - self.middle) / self.half_width).astype(np.float32)

    def prepare(self, outputs: FloatArray, log_std: FloatArray | None = None) -> Prepared:
        """Return means and log standard deviations before squashing, each float32 [M, K]."""
        mean, log_std = np.split(outputs, 2, axis=1)
        return mean, np.clip(log_std, *LOG_STD_LIMITS)

    def sample(self, prepared: Prepared, rows: Rows, uniforms: Uniforms) -> Choice:
        return self._squashed(*self._gaussian.sample(prepared, rows, uniforms))

    def mode(self, prepared: Prepared, rows: Rows) -> Choice:
        return self._squashed(*self._gaussian.mode(prepared, rows))

    def _squashed(self, number: FloatArray, log_prob: FloatArray) -> Choice:
        action = self.middle + self.half_width * np.tanh(number)
        # This is log(1 - tanh(x)^2). For a large x, that form would be log(0) in float32.
        log_slope = 2 * (math.log(2) - number - np.logaddexp(np.float32(0), -2 * number))
        return action, log_prob - (np.log(self.half_width) + log_slope).sum(axis=1)


def from_plain(values: Sequence[Any]) -> Distribution:
    """Return the distribution from a result of `to_plain`. Raises KeyError for an unknown kind."""
    kinds: dict[str, Callable[[Any], Distribution]] = {
        "Categorical": Categorical,
        "MultiCategorical": MultiCategorical,
        "DiagonalGaussian": DiagonalGaussian,
        "ScaledGaussian": lambda ends: DiagonalGaussian(max(map(len, ends)), *map(tuple, ends)),
        "SquashedGaussian": lambda bounds: SquashedGaussian(*map(tuple, bounds)),
        "Mixed": lambda parts: Mixed(tuple(map(from_plain, parts))),
    }
    kind, sizes = values
    return kinds[kind](sizes)
