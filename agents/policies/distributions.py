"""Distributions over actions, one for each kind of action space, which workers sample from.

`torch_distributions` has log-probabilities with gradients, for the learner. Imports no torch.

A mask says which actions are possible. An observation with a mask is [D + A]: D numbers, which the
network sees, and then A numbers, 1 for each possible action and 0 for each impossible one. A is the
number of the distribution's outputs: the masks of several choices follow one another. The outputs
of impossible actions become minus infinity, so that their probability is 0 in acting, in learning,
in entropies and in KL divergences. A mask is a part of the observation, so it goes wherever the
observation goes.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from torch import Tensor


FloatArray: TypeAlias = NDArray[np.float32]
Actions: TypeAlias = NDArray[Any]
"""Actions of M steps: int64 [M] (Categorical), int64 [M, K] (MultiCategorical), float32 [M, K]
(the others)."""

Choice: TypeAlias = tuple[Actions, FloatArray]
"""Actions of M steps, and their log-probabilities [M]."""

Prepared: TypeAlias = tuple[NDArray[Any], ...]
"""Arrays that a distribution computes from a network's outputs before it samples, row by row."""

Rows: TypeAlias = NDArray[np.int64]
Uniforms: TypeAlias = NDArray[np.float64]


BELOW_ONE = np.nextafter(np.float32(1), np.float32(0))


class Distribution(Protocol):
    """A distribution of actions, given the outputs of the actor's network for an observation.

    n_outputs: numbers that the network puts out. n_draws: uniform numbers that one action takes.
    This count never varies, so that the numbers of any step of an episode can be found.
    has_log_std: whether the network also has a log standard deviation [n_outputs]. takes_masks:
    whether an output of minus infinity rules a choice out.
    """

    takes_masks: ClassVar[bool] = False

    @property
    def n_outputs(self) -> int: ...

    @property
    def n_draws(self) -> int: ...

    @property
    def has_log_std(self) -> bool: ...

    def prepare(self, outputs: FloatArray, log_std: FloatArray | None) -> Prepared:
        """Return what `sample` and `mode` need of outputs [M, n_outputs]."""

    def sample(self, prepared: Prepared, rows: Rows, uniforms: Uniforms) -> Choice:
        """Return an action for each of these rows, drawn with uniforms [M, n_draws]."""

    def mode(self, prepared: Prepared, rows: Rows) -> Choice:
        """Return the likeliest action for each of these rows."""


@dataclass(frozen=True)
class Categorical:
    """One of `n_outputs` choices; outputs are logits, of which -inf rules a choice out."""

    n_outputs: int
    n_draws = 1
    has_log_std = False
    takes_masks: ClassVar[bool] = True

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
        """Return the choice of the greatest logit, or the first of several equal ones."""
        likeliest, _, log_prob = prepared
        action = likeliest[rows]
        return action, log_prob[rows, action]


class MultiCategorical:
    """Several independent choices. Outputs are the logits of one choice after another.

    sizes: the number of options of each choice. Equal sizes make equal distributions.
    """

    has_log_std = False
    takes_masks: ClassVar[bool] = True

    def __init__(self, sizes: Sequence[int]) -> None:
        self.components = tuple(Categorical(size) for size in sizes)
        self.n_outputs = sum(sizes)
        self.n_draws = len(self.components)

    def __str__(self) -> str:
        return " x ".join(str(component.n_outputs) for component in self.components) + " actions"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, MultiCategorical) and other.components == self.components

    def __hash__(self) -> int:
        return hash(self.components)

    @property
    def slices(self) -> list[slice]:
        """The part of the outputs of each choice."""
        return _one_after_another([component.n_outputs for component in self.components])

    def prepare(self, outputs: FloatArray, log_std: FloatArray | None = None) -> Prepared:
        """Return Categorical's three arrays for one choice after another."""
        parts = zip(self.components, self.slices, strict=True)
        return tuple(
            itertools.chain(*(component.prepare(outputs[:, part]) for component, part in parts))
        )

    def sample(self, prepared: Prepared, rows: Rows, uniforms: Uniforms) -> Choice:
        """Draw each choice with a uniform number of its own."""
        return self._joined(
            [
                component.sample(prepared[3 * k : 3 * k + 3], rows, uniforms[:, k : k + 1])
                for k, component in enumerate(self.components)
            ]
        )

    def mode(self, prepared: Prepared, rows: Rows) -> Choice:
        return self._joined(
            [
                component.mode(prepared[3 * k : 3 * k + 3], rows)
                for k, component in enumerate(self.components)
            ]
        )

    @staticmethod
    def _joined(choices: Sequence[Choice]) -> Choice:
        actions, log_probs = zip(*choices, strict=True)
        # np.sum would add one row of many choices in another order than several rows.
        return np.stack(actions, axis=1), functools.reduce(np.add, log_probs)


@dataclass(frozen=True)
class DiagonalGaussian:
    """`n_outputs` independent normal numbers; outputs are their means, and the log standard
    deviations do not depend on the observation.

    middle, half_width: they describe each number's bounds, [K] each. The outputs and the deviations
    are in units in which the bounds are -1 and 1: an output of 1 is the mean `middle + half_width`.
    Without bounds, the outputs are the means themselves. low, high: the ends of the action space,
    [K] each, infinite where there are none; empty if nobody knows them. Actions are drawn beyond
    these ends: an environment clips them, and so does an exported network. Distributions that
    differ in the ends alone are equal. Raises ValueError for bounds that do not fit.
    """

    n_outputs: int
    middle: tuple[float, ...] = ()
    half_width: tuple[float, ...] = ()
    low: tuple[float, ...] = field(default=(), compare=False)
    high: tuple[float, ...] = field(default=(), compare=False)
    has_log_std = True
    takes_masks: ClassVar[bool] = False

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

    @property
    def n_draws(self) -> int:
        """Each pair of normal numbers takes a pair of uniform numbers."""
        return 2 * self._n_pairs

    @property
    def _n_pairs(self) -> int:
        return math.ceil(self.n_outputs / 2)

    def prepare(self, outputs: FloatArray, log_std: FloatArray | None) -> Prepared:
        """Return means and log standard deviations, float32 [M, K] both."""
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
        """Draw by the transform of Box and Muller 1958, which takes a fixed number of uniforms."""
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


@dataclass(frozen=True)
class Mixed:
    """Choices and numbers beside each other, independent of one another. Outputs and actions are
    those of one part after another; an action is float32 [K], its choices too.

    parts: the distributions. The log standard deviations [n_outputs] of choices are not read.
    """

    parts: tuple[Distribution, ...]
    has_log_std = True
    takes_masks: ClassVar[bool] = False

    def __post_init__(self) -> None:
        kinds = Categorical, MultiCategorical, DiagonalGaussian
        if not all(isinstance(part, kinds) and part.n_outputs > 0 for part in self.parts):
            raise ValueError(f"{self.parts!s:.200} are no choices and numbers")

    def __str__(self) -> str:
        return " x ".join(str(part) for part in self.parts)

    @functools.cached_property
    def n_outputs(self) -> int:
        return sum(part.n_outputs for part in self.parts)

    @functools.cached_property
    def n_draws(self) -> int:
        return sum(part.n_draws for part in self.parts)

    @functools.cached_property
    def outputs(self) -> list[slice]:
        """The place of each part in the outputs."""
        return _one_after_another([part.n_outputs for part in self.parts])

    @functools.cached_property
    def numbers(self) -> list[slice]:
        """The place of each part in an action."""
        return _one_after_another([width_of(part) for part in self.parts])

    @functools.cached_property
    def _draws(self) -> list[slice]:
        return _one_after_another([part.n_draws for part in self.parts])

    def of_part(self, n: int, action: Any) -> Any:
        """Return the actions of a part, as it takes them, in actions [M, K]."""
        return as_taken(self.parts[n], action[:, self.numbers[n]])

    def prepare(self, outputs: FloatArray, log_std: FloatArray | None) -> Prepared:
        """Return what the parts prepare, one after another."""
        assert log_std is not None
        placed = zip(self.parts, self.outputs, strict=True)
        return tuple(
            itertools.chain(*(part.prepare(outputs[:, of], log_std[of]) for part, of in placed))
        )

    def sample(self, prepared: Prepared, rows: Rows, uniforms: Uniforms) -> Choice:
        """Draw each part with uniform numbers of its own."""
        parts = zip(self.parts, self._of_parts(prepared), self._draws, strict=True)
        return self._joined([part.sample(of, rows, uniforms[:, at]) for part, of, at in parts])

    def mode(self, prepared: Prepared, rows: Rows) -> Choice:
        parts = zip(self.parts, self._of_parts(prepared), strict=True)
        return self._joined([part.mode(of, rows) for part, of in parts])

    def _of_parts(self, prepared: Prepared) -> list[Prepared]:
        sizes = [3 * part.n_draws if part.takes_masks else 2 for part in self.parts]
        return [prepared[of] for of in _one_after_another(sizes)]

    @staticmethod
    def _joined(choices: Sequence[Choice]) -> Choice:
        actions, log_probs = zip(*choices, strict=True)
        columns = [action.reshape(len(action), -1).astype(np.float32) for action in actions]
        return np.concatenate(columns, axis=1), functools.reduce(np.add, log_probs)


def _one_after_another(sizes: Sequence[int]) -> list[slice]:
    ends = itertools.accumulate(sizes, initial=0)
    return list(itertools.starmap(slice, itertools.pairwise(ends)))


def width_of(distribution: Distribution) -> int:
    """Return how many numbers an action has beside those of others."""
    if isinstance(distribution, Mixed):
        return sum(map(width_of, distribution.parts))
    return distribution.n_draws if distribution.takes_masks else distribution.n_outputs


def as_taken(distribution: Distribution, numbers: Any) -> Any:
    """Return actions as a distribution takes them. numbers: [M, width_of], an array or a tensor."""
    if isinstance(distribution, Categorical):
        numbers = numbers[:, 0]
    if not distribution.takes_masks:
        return numbers
    return numbers.astype(np.int64) if isinstance(numbers, np.ndarray) else numbers.long()


@dataclass(frozen=True)
class SquashedGaussian:
    """Independent normal numbers, each squashed by tanh into its bounds.

    Outputs are the means of all numbers, and then their log standard deviations, which are clipped
    to LOG_STD_LIMITS.

    Haarnoja et al. 2018, "Soft Actor-Critic Algorithms and Applications", appendix C. Raises
    ValueError for bounds that are not finite (as float32) or in the wrong order.
    """

    low: tuple[float, ...]
    high: tuple[float, ...]
    has_log_std = False
    takes_masks: ClassVar[bool] = False

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

    @property
    def n_outputs(self) -> int:
        """Each number has two outputs."""
        return 2 * len(self.low)

    @property
    def n_draws(self) -> int:
        """Squashed numbers take as many draws as normal numbers."""
        return self._gaussian.n_draws

    @property
    def _gaussian(self) -> DiagonalGaussian:
        return DiagonalGaussian(len(self.low))

    @functools.cached_property
    def middle(self) -> FloatArray:
        """The middle of each number's bounds, float32 [K]."""
        return ((np.array(self.high) + np.array(self.low)) / 2).astype(np.float32)

    @functools.cached_property
    def half_width(self) -> FloatArray:
        """Half the distance between each number's bounds, float32 [K]."""
        return ((np.array(self.high) - np.array(self.low)) / 2).astype(np.float32)

    def normalised(self, action: Actions) -> FloatArray:
        """Return actions [M, K] as numbers from -1 to 1."""
        return ((action - self.middle) / self.half_width).astype(np.float32)

    def prepare(self, outputs: FloatArray, log_std: FloatArray | None = None) -> Prepared:
        """Return means and log standard deviations before squashing, float32 [M, K] both."""
        mean, log_std = np.split(outputs, 2, axis=1)
        return mean, np.clip(log_std, *LOG_STD_LIMITS)

    def sample(self, prepared: Prepared, rows: Rows, uniforms: Uniforms) -> Choice:
        return self._squashed(*self._gaussian.sample(prepared, rows, uniforms))

    def mode(self, prepared: Prepared, rows: Rows) -> Choice:
        return self._squashed(*self._gaussian.mode(prepared, rows))

    def _squashed(self, number: FloatArray, log_prob: FloatArray) -> Choice:
        action = self.middle + self.half_width * np.tanh(number)
        # log(1 - tanh(x)^2), which is log(0) in float32 where x is large.
        log_slope = 2 * (math.log(2) - number - np.logaddexp(np.float32(0), -2 * number))
        return action, log_prob - (np.log(self.half_width) + log_slope).sum(axis=1)


LARGEST_BOUND = 1e30
"""Float32 holds the middle, the half width and its inverse of bounds below this number."""
LOG_STD_LIMITS = (-20.0, 2.0)
HALF_LOG_2_PI = 0.5 * math.log(2 * math.pi)

Bounds: TypeAlias = tuple[tuple[float, ...], tuple[float, ...]]
"""The least and the greatest of each number of an action, infinite where there is no bound."""


def to_plain(distribution: Distribution) -> list[Any]:
    """Return a distribution's kind and sizes."""
    if isinstance(distribution, MultiCategorical):
        return ["MultiCategorical", [component.n_outputs for component in distribution.components]]
    if isinstance(distribution, SquashedGaussian):
        return ["SquashedGaussian", [list(distribution.low), list(distribution.high)]]
    if isinstance(distribution, Mixed):
        return ["Mixed", [to_plain(part) for part in distribution.parts]]
    if isinstance(distribution, DiagonalGaussian) and (distribution.middle or distribution.low):
        ends = distribution.middle, distribution.half_width, distribution.low, distribution.high
        return ["ScaledGaussian", list(map(list, ends))]
    return [type(distribution).__name__, distribution.n_outputs]


def from_plain(values: Sequence[Any]) -> Distribution:
    """Return the distribution that `to_plain` described. Raises KeyError for an unknown kind."""
    kinds: dict[str, Any] = {
        "Categorical": Categorical,
        "MultiCategorical": MultiCategorical,
        "DiagonalGaussian": DiagonalGaussian,
        "ScaledGaussian": lambda ends: DiagonalGaussian(max(map(len, ends)), *map(tuple, ends)),
        "SquashedGaussian": lambda bounds: SquashedGaussian(*map(tuple, bounds)),
        "Mixed": lambda parts: Mixed(tuple(map(from_plain, parts))),
    }
    kind, sizes = values
    distribution: Distribution = kinds[kind](sizes)
    return distribution


def masked(outputs: FloatArray, mask: NDArray[Any]) -> FloatArray:
    """Return outputs [N, A] with minus infinity where the mask [N, A] is 0."""
    return np.where(mask > 0, outputs, np.float32(-np.inf))


def torch_masked(outputs: Tensor, mask: Tensor) -> Tensor:
    """Return outputs [B, A] with minus infinity where the mask [B, A] is 0. No gradient flows to
    them."""
    return outputs.masked_fill(mask <= 0, -float("inf"))
