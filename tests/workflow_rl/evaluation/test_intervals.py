"""Intervals by hand, and how often they hold the true mean."""

import math
from collections.abc import Callable
from typing import TypeAlias

import numpy as np
import pytest
from numpy.typing import NDArray

from workflow_rl.evaluation.intervals import (
    Mean,
    by_kind,
    mean_and_interval,
    mean_of,
    over_agents,
    quantile,
)

Random: TypeAlias = np.random.Generator


def test_quantiles_are_scipys():
    """Also where so many were chosen of that the interval is a hundred times as wide."""
    stats = pytest.importorskip("scipy.stats")
    for freedom in (1, 1.001, 1.7, 2, 3.5, 8, 30, 299, 1e5):
        for chosen_of in (1, 2, 3, 16, 1000):
            found = quantile(freedom, chosen_of)
            below = stats.t.cdf(found, freedom)
            assert below**chosen_of - (1 - below) ** chosen_of == pytest.approx(0.95, abs=1e-6)


def test_a_mean_and_its_interval_by_hand():
    """Variance 2 of two values: a standard error of 1, and one degree of freedom."""
    assert mean_of([[1.0, 3.0]]) == (2.0, pytest.approx(12.7062, abs=1e-4))
    assert mean_of([[1.0, 3.0]], [0.5]) == (1.0, pytest.approx(12.7062 / 2, abs=1e-4))
    # Equal shares of two samples of two: 1 / (2 * (1 / 4) / 2) - 1 = 3 degrees of freedom.
    mean = mean_of([[1.0, 3.0], [5.0, 3.0]])
    assert mean == (6.0, pytest.approx(3.1824 * math.sqrt(2), abs=1e-3))
    # What never varies adds nothing.
    assert mean_of([[1.0, 3.0], [4.0, 4.0]]) == (6.0, pytest.approx(12.7062, abs=1e-4))
    assert mean_of([[7.0] * 5]) == (7.0, 0.0)
    assert math.isnan(mean_of([[1.0]]).interval_95)
    assert math.isnan(mean_of([[1.0, 2.0], [1.0]]).interval_95)
    assert Mean(0.25, 0.125).told(1, 100, "%") == "25.0 ± 12.5%"


def test_kinds_count_as_often_as_they_are_drawn():
    returns, kinds = [-10.0, -20.0, 0.0, 0.0, 0.0, 0.0], ["a", "a", "b", "b", "b", "b"]
    assert mean_of(*by_kind(returns, kinds, ["a", "b"])).mean == -7.5
    assert mean_of(*by_kind(returns, kinds, ["a", "b", "a"])).mean == -10
    # Without two of each kind, or without knowing the kinds, all returns are one sample.
    for others in (["a"] + ["b"] * 5, ["c", *kinds[1:]], kinds[1:], []):
        assert by_kind(returns, others, ["a", "b"]) == ([returns], [1.0])
    assert by_kind(returns, kinds, []) == ([returns], [1.0])


def test_an_interval_over_agents_counts_the_episodes_that_they_share():
    alike = np.array([[1.0, 2.0, 6.0]] * 4)
    assert over_agents(alike) == (3, pytest.approx(4.3027 * math.sqrt(7 / 3), abs=1e-3))
    apart = alike.T
    assert over_agents(apart) == (3, pytest.approx(4.3027 * math.sqrt(7 / 3), abs=1e-3))
    assert over_agents(alike[:1]) == mean_of([alike[0]])
    assert over_agents(apart[:, :1]) == mean_of([alike[0]])
    assert math.isnan(over_agents(alike[:1, :1]).interval_95)
    # Variances: of agents 32 / 2, of episodes 21 / 3, less 12 / 2 / 6 that is of both.
    half = math.hypot(12.7062 * math.sqrt(16), 4.3027 * math.sqrt(7 - 1))
    both = np.array([[0.0, 3.0, 6.0], [6.0, 9.0, 18.0]])
    assert over_agents(both) == (7, pytest.approx(half, rel=1e-4))


def test_the_interval_of_a_curve_is_students():
    returns = np.array([[1.0], [2.0], [3.0], [4.0], [5.0]])
    mean, half = mean_and_interval(returns)
    assert mean == 3
    # The deviation is sqrt(2.5), and the quantile for 4 degrees of freedom 2.776.
    assert half[0] == pytest.approx(2.7764 * np.sqrt(2.5 / 5), rel=1e-4)
    assert mean_and_interval(returns[:1])[1] == 0


def skewed(random: Random, *shape: int) -> NDArray[np.float64]:
    """Losses, of which a few are large: skewness -0.7, as the champion's returns have on CAGE-2."""
    return 8.0 - random.gamma(8.0, size=shape)


def one_sample(n: int) -> Callable[[Random], Mean]:
    return lambda random: mean_of([random.normal(size=n)])


def nine_cells(n: int) -> Callable[[Random], Mean]:
    """The last three cells never lose anything."""
    scales = np.array([1.5, 2, 3.5, 1.3, 2.2, 3.5, 0, 0, 0])[:, None]
    return lambda random: mean_of(skewed(random, 9, n) * scales)


def of_kinds(drawn: tuple[str, ...], level: float) -> Callable[[Random], Mean]:
    """Kinds whose means are 0, -level, ..., and together 0."""
    kinds = {name: -level * n for n, name in enumerate(dict.fromkeys(drawn))}
    middle = np.mean([kinds[name] for name in drawn])

    def mean(random: Random) -> Mean:
        names = random.choice(drawn, 300).tolist()
        returns = skewed(random, 300) + [kinds[name] - middle for name in names]
        return mean_of(*by_kind(returns.tolist(), names, drawn))

    return mean


def highest_of(n_policies: int) -> Callable[[Random], Mean]:
    """Of policies that are equally good."""

    def mean(random: Random) -> Mean:
        best = max(random.normal(size=(n_policies, 100)), key=np.mean)
        return mean_of([best], chosen_of=n_policies)

    return mean


def shared(n_agents: int, n_episodes: int, of_agents: float) -> Callable[[Random], Mean]:
    """Agents in the same episodes, whose chance they share."""

    def mean(random: Random) -> Mean:
        agents = of_agents * random.normal(size=(n_agents, 1))
        return over_agents(
            agents
            + 4 * random.normal(size=n_episodes)
            + 2 * random.normal(size=(n_agents, n_episodes))
        )

    return mean


SIMULATED = {
    **{f"normal, n = {n}": one_sample(n) for n in (2, 5, 20, 100)},
    **{f"nine cells, n = {n}": nine_cells(n) for n in (2, 5, 20, 100)},
    "equal kinds": of_kinds(("a", "b", "c"), 20.0),
    "kinds of unequal shares": of_kinds(("a",) * 8 + ("b",) * 11 + ("c",), 20.0),
    **{f"the best of {n}": highest_of(n) for n in (1, 2, 3, 16)},
    "five agents that differ": shared(5, 100, 1.0),
    "five equal agents": shared(5, 20, 0.0),
    "ten agents": shared(10, 50, 0.5),
}


@pytest.mark.parametrize("name", SIMULATED)
@pytest.mark.parametrize(
    ("n", "least"), [(700, 0.93), pytest.param(10_000, 0.935, marks=pytest.mark.slow)]
)
def test_intervals_hold_the_true_mean(n, least, name):
    random = np.random.default_rng(55)
    means = [SIMULATED[name](random) for _ in range(n)]
    assert least <= sum(abs(mean) <= half for mean, half in means) / n <= 0.97
