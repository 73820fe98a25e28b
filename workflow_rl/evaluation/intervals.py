"""Means and their 95% intervals, which are Student's: exact for normal values, and good for many.

Values that are far from normal need more of them: of exponential ones, 89% of the intervals of 5
hold the true mean, and 94% of those of 100.
"""

from __future__ import annotations

import functools
import math
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from workflow_rl.terminal import fitting

FloatArray = NDArray[np.float64]
CONFIDENCE = 0.95
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(64)


class Mean(NamedTuple):
    """A mean, and half the width of its 95% interval; NaN of too few values."""

    mean: float
    interval_95: float

    def __str__(self) -> str:
        return self.told()

    def told(self, decimals: int = 2, scale: float = 1, unit: str = "") -> str:
        """Return the mean, times `scale`, and its interval, if there is one."""
        if math.isnan(self.mean):
            return ""
        mean, interval = scale * self.mean, scale * self.interval_95
        digits = fitting(decimals, mean, interval)
        half = f" ± {interval:{digits}}" * (not math.isnan(interval))
        return f"{mean:{digits}}{half}{unit}"

    def plain(self) -> dict[str, Any]:
        """Return what JSON can hold: None for NaN."""
        return {name: None if math.isnan(x) else float(x) for name, x in self._asdict().items()}


def mean_of(
    samples: Sequence[ArrayLike], weights: Sequence[float] | None = None, chosen_of: int = 1
) -> Mean:
    """Return the sum of the means of independent samples, each times its weight (None: 1).

    The degrees of freedom are Satterthwaite's, with a correction for small samples: `1 / sum(share
    ** 2 / n) - 1`, where a sample of n values has a share of the sum's variance. chosen_of: see
    `quantile`.
    """
    arrays = [np.asarray(sample, np.float64) for sample in samples]
    weight = np.ones(len(arrays)) if weights is None else np.asarray(weights)
    mean = float((weight * [array.mean() for array in arrays]).sum())
    sizes = np.array([len(array) for array in arrays])
    if sizes.min() < 2:
        return Mean(mean, math.nan)
    deviations = np.array([array.std(ddof=1) for array in arrays])
    variances = (weight * deviations) ** 2 / sizes
    variance = float(variances.sum())
    if variance == 0:
        return Mean(mean, 0.0)
    shares = variances / variance
    freedom = float(1 / (shares**2 / sizes).sum()) - 1
    return Mean(mean, quantile(freedom, chosen_of) * math.sqrt(variance))


def by_kind(
    returns: Sequence[float], kinds: Sequence[str], drawn: Sequence[str]
) -> tuple[list[list[float]], list[float]]:
    """Return the returns of each kind of episode, and the share of all episodes that it has.

    So a mean does not depend on how often each kind happened to be drawn. drawn: what each episode
    draws its kind from. All returns are of one kind if a kind has fewer than two.
    """
    shares = Counter(drawn)
    pairs = list(zip(returns, kinds, strict=False))
    of_each = [[value for value, kind in pairs if kind == name] for name in shares]
    if sum(map(len, of_each)) < len(returns) or min(map(len, of_each)) < 2:
        return [list(returns)], [1.0]
    return of_each, [n / len(drawn) for n in shares.values()]


def over_agents(totals: FloatArray) -> Mean:
    """Return the mean of the totals [A, E] of A agents in the same E episodes.

    Agents and episodes are both drawn by chance: the part of the variance that each brings has
    degrees of freedom of its own (Graybill and Wang, 1980). Of one agent the interval is over
    episodes, and in one episode it is over agents.
    """
    n_agents, n_episodes = totals.shape
    if 1 in totals.shape:
        return mean_of([totals.ravel()])
    agents, episodes = totals.mean(axis=1), totals.mean(axis=0)
    rest = totals - agents[:, None] - episodes + totals.mean()
    of_rest = (rest**2).sum() / ((n_agents - 1) * (n_episodes - 1)) / totals.size
    of_agents = agents.var(ddof=1) / n_agents
    of_episodes = max(0.0, episodes.var(ddof=1) / n_episodes - of_rest)
    half = math.hypot(
        quantile(n_agents - 1) * math.sqrt(of_agents),
        quantile(n_episodes - 1) * math.sqrt(of_episodes),
    )
    return Mean(float(totals.mean()), half)


def mean_and_interval(returns: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the mean [X] of runs [run, X], and half its 95% interval [X]; 0 of one run."""
    n_runs, mean = len(returns), returns.mean(axis=0)
    if n_runs == 1:
        return mean, np.zeros_like(mean)
    return mean, quantile(n_runs - 1) * returns.std(axis=0, ddof=1) / math.sqrt(n_runs)


@functools.lru_cache
def quantile(freedom: float, chosen_of: int = 1) -> float:
    """Return how many standard errors half of a 95% interval has.

    freedom: degrees of freedom, 1 or more. chosen_of: the mean is the highest of so many. Of equal
    ones, the interval of the highest holds their true mean in 95% of the cases, and else in more.
    """
    # The share of Student's distribution that is below the interval's upper end.
    below = _solved(lambda p: p**chosen_of - (1 - p) ** chosen_of, CONFIDENCE, 0.5, 1)
    # sqrt(freedom) * sinh(x) is Student's if the density of x is proportional to cosh(x)**-freedom.
    end = math.acosh(math.exp(40 / freedom))
    whole = _area(end, freedom)
    x = _solved(lambda x: _area(x, freedom) / whole, 2 * below - 1, 0, end)
    return math.sqrt(freedom) * math.sinh(x)


def _area(end: float, freedom: float) -> float:
    """Return the integral of cosh(x)**-freedom from 0 to the end."""
    return end / 2 * float(_WEIGHTS @ np.cosh(end / 2 * (1 + _NODES)) ** -freedom)


def _solved(function: Callable[[float], float], value: float, low: float, high: float) -> float:
    """Return where an increasing function has the value."""
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if function(middle) < value else (low, middle)
    return low
