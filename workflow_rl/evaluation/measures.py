"""Measures of episodes: what the return does not say, counted from the costs of each step.

A measure is a total of an episode, a share, or a time that an episode's end may cut off.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from workflow_rl.agents.ppo.config import Budget, budgets_of
from workflow_rl.agents.settings import Settings
from workflow_rl.agents.trajectory import Trajectory
from workflow_rl.evaluation.intervals import FloatArray, Mean, mean_of, quantile
from workflow_rl.terminal import fitting
from workflow_rl.text_table import text_table

Costs: TypeAlias = "Mapping[str, FloatArray]"
"""The costs of an episode's steps [T], by name."""
MEASURES, BY_STEP = "measures", "by_step"
"""The names under which evaluation.json keeps readings and courses."""
MOST = 1e100
"""Values of episodes in a file are smaller: their squares are finite."""
MOST_IN_TABLE = 2**25
"""Times an episode, in the table of a task's times: more would fill the memory."""
MOST_STEPS = 20_000
"""The longest time that is read from a file: a table of all times is made."""
WORST = 0.05
"""The share of the episodes that count as the worst."""


class Ratio(NamedTuple):
    """Of one episode: a sum, and the sum that it is a share of; 1 for a total of an episode."""

    value: float
    of: float = 1.0


class Times(NamedTuple):
    """Times of one episode, in steps: those that were seen to their end, and those that were not,
    which are known only to last longer."""

    over: tuple[int, ...] = ()
    cut: tuple[int, ...] = ()


class Measure(NamedTuple):
    """A figure of an episode from the true state.

    read: returns an episode's Ratio, or its Times. unit: what the figure counts. meaning: its
    definition, a sentence. more_is_better: whether the worst episodes are those with the least.
    """

    name: str
    unit: str
    meaning: str
    read: Callable[[Costs], Ratio | Times]
    more_is_better: bool = False


def total(*names: str) -> Callable[[Costs], Ratio]:
    """Return what reads the sum of these costs over an episode."""
    return lambda costs: Ratio(_sum(costs, names))


def share(names: Sequence[str], of: Sequence[str]) -> Callable[[Costs], Ratio]:
    """Return what reads the sum of some costs as a share of the sum of others."""
    return lambda costs: Ratio(_sum(costs, names), _sum(costs, of))


def time_above_zero(beginning: str) -> Callable[[Costs], Times]:
    """Return what reads for how many steps each cost whose name begins so stays above 0."""

    def read(costs: Costs) -> Times:
        over: list[int] = []
        cut: list[int] = []
        for name, values in costs.items():
            if name.startswith(beginning):
                edges = np.diff(np.concatenate([[0], values > 0, [0]]).astype(np.int8))
                begins, ends = np.flatnonzero(edges == 1), np.flatnonzero(edges == -1)
                lasting = (ends - begins).tolist()
                if len(ends) and ends[-1] == len(values):
                    # The last step shows no further change, so it counts no time.
                    cut.append(lasting.pop() - 1)
                over += lasting
        return Times(tuple(over), tuple(cut))

    return read


def time_until(begins: str, ends: str) -> Callable[[Costs], Times]:
    """Return what reads the steps from the first in which one cost is above 0 until the first, from
    there on, in which another one is. An episode that never begins has no time."""

    def read(costs: Costs) -> Times:
        begun = np.flatnonzero(costs[begins] > 0)
        if not len(begun):
            return Times()
        ended = np.flatnonzero(costs[ends][begun[0] :] > 0)
        if not len(ended):
            return Times(cut=(len(costs[ends]) - 1 - int(begun[0]),))
        return Times(over=(int(ended[0]),))

    return read


def _sum(costs: Costs, names: Sequence[str]) -> float:
    return float(sum(costs[name].sum() for name in names))


def read_measures(
    measures: Sequence[Measure], names: Sequence[str], trajectories: Sequence[Trajectory]
) -> dict[str, list[Ratio] | list[Times]]:
    """Return what each measure reads of each episode, by the measure's name.

    names: of the costs [C] that the trajectories, complete episodes, have.
    """
    read: dict[str, list[Any]] = {measure.name: [] for measure in measures}
    for trajectory in trajectories:
        assert trajectory.costs is not None
        costs = dict(zip(names, trajectory.costs.T, strict=True))
        for measure in measures:
            read[measure.name].append(measure.read(costs))
    return read


def measures_of_costs(names: Sequence[str]) -> list[Measure]:
    """Return the totals of costs of which nothing but the names is known."""
    return [Measure(name, "", f"Sum of {name} over an episode.", total(name)) for name in names]


class Figure(NamedTuple):
    """What a measure is over episodes.

    mean: of an episode's total; the share of all; of times, the mean up to the longest time seen.
    worst: the mean of the worst 5% of the episodes; NaN of times. median: of times, Kaplan-Meier's,
    infinite if fewer than half come to an end; NaN of other measures.
    """

    mean: Mean
    worst: float = math.nan
    median: float = math.nan


Readings: TypeAlias = "Sequence[Sequence[Ratio] | Sequence[Times]]"
"""What a measure reads of the episodes of each task. Tasks are drawn for themselves."""


def figure_of(readings: Readings, more_is_better: bool = False) -> Figure:
    """Return the figure of one measure over the episodes of all tasks."""
    estimate, without = _estimated(readings)
    mean = Mean(estimate, _half(readings, without))
    read = [of_episode for of_task in readings for of_episode in of_task]
    if isinstance(read[0], Times):
        return Figure(mean, median=_median(readings))
    ratios = [ratio for ratio in read if isinstance(ratio, Ratio) and ratio.of]
    from_worst = np.sort([ratio.value / ratio.of for ratio in ratios])
    if not more_is_better:
        from_worst = from_worst[::-1]
    n_worst = math.ceil(WORST * len(from_worst))
    worst = from_worst[:n_worst]
    return Figure(mean, float(worst.mean()) if n_worst else math.nan)


def difference(ours: Readings, theirs: Readings) -> Mean:
    """Return how much more one measure is of one agent than of another, in the same episodes. Mean
    times of both go up to the same time, the longest that was seen of both."""
    n_times = min(_life_table(readings)[0].shape[1] for readings in (ours, theirs))
    estimate, without = _estimated(ours, n_times)
    other, without_other = _estimated(theirs, n_times)
    return Mean(estimate - other, _half(ours, without - without_other))


def _estimated(readings: Readings, n_times: int | None = None) -> tuple[float, FloatArray]:
    """Return the estimate over all episodes, and those [N] without each of the N episodes. n_times:
    how many times, from 0 on, means of times count; None: all that were seen."""
    read = [of_episode for of_task in readings for of_episode in of_task]
    if not isinstance(read[0], Times):
        values, sizes = np.array(read, np.float64).T
        with np.errstate(invalid="ignore"):
            without = (values.sum() - values) / (sizes.sum() - sizes)
            return float(values.sum() / sizes.sum()), without
    ends, at_risk = (table[:, :n_times] for table in _life_table(readings))
    if not ends.size:
        return math.nan, np.full(len(read), math.nan)
    all_ends, all_at_risk = ends.sum(axis=0), at_risk.sum(axis=0)
    without = _lasting(all_ends - ends, all_at_risk - at_risk)[:, :-1].sum(axis=1)
    return float(_lasting(all_ends, all_at_risk)[:-1].sum()), without


def _half(readings: Readings, without: FloatArray) -> float:
    """Return half of the 95% interval by the jackknife (Efron 1979) within each task: an episode is
    left out as a whole, since the times of an episode depend on each other."""
    variance, first = 0.0, 0
    for of_task in readings:
        n = len(of_task)
        spread = without[first : first + n]
        variance += (n - 1) / n * float(np.square(spread - spread.mean()).sum())
        first += n
    freedom = first - len(readings)
    return quantile(freedom) * math.sqrt(variance) if freedom else math.nan


def _median(readings: Readings) -> float:
    lasting = _lasting(*(table.sum(axis=0) for table in _life_table(readings)))
    if not len(lasting):
        return math.nan
    is_over = np.flatnonzero(lasting <= 0.5)
    return float(is_over[0]) if len(is_over) else math.inf


def _life_table(readings: Readings) -> tuple[FloatArray, FloatArray]:
    """Return how many times of each episode end after 0, 1, ... steps, [N, K], and how many last at
    least so long."""
    read = [times for of_task in readings for times in of_task if isinstance(times, Times)]
    n_times = max((time + 1 for times in read for time in (*times.over, *times.cut)), default=0)
    ends, at_risk = np.zeros((2, len(read), n_times))
    for row, times in enumerate(read):
        ends[row] = np.bincount(np.array(times.over, int), minlength=n_times)
        lasting = np.bincount(np.array(times.over + times.cut, int), minlength=n_times)
        at_risk[row] = lasting[::-1].cumsum()[::-1]
    return ends, at_risk


def _lasting(ends: FloatArray, at_risk: FloatArray) -> FloatArray:
    """Return the share of times that last longer than 0, 1, ... steps, [..., K]: Kaplan and Meier
    1958, equation 2b."""
    risk = np.divide(ends, at_risk, out=np.zeros_like(ends), where=at_risk > 0)
    return np.cumprod(1 - risk, axis=-1)


def measure_lines(measures: Sequence[Measure], readings: Mapping[str, Readings]) -> list[str]:
    """Return a table with a row for each measure. readings: by the measure's name."""
    rows = []
    for measure in measures:
        figure = figure_of(readings[measure.name], measure.more_is_better)
        mean, half = figure.mean
        digits = fitting(2, *(x for x in (mean, half, figure.worst) if math.isfinite(x)))
        cells = [(mean, ""), (half, "± "), (figure.worst, ""), (figure.median, "")]
        texts = ["" if math.isnan(x) else f"{sign}{x:{digits}}" for x, sign in cells]
        rows.append([measure.name, *texts, measure.unit])
    return str(text_table(["", "mean", "95%", "worst 5%", "median", "unit"], rows)).splitlines()


Plain: TypeAlias = "dict[str, dict[str, str]]"
"""What the measures read of each episode, by task and by the measure's name, as JSON holds it."""


def plain_readings(by_task: Mapping[str, Mapping[str, Sequence[Ratio] | Sequence[Times]]]) -> Plain:
    """Return readings for evaluation.json: a word for each episode, because lists take ten times as
    much room in a file.

    The word 3/8 is the value 3 of 8; where nothing is written behind the value, it is of as much as
    in the word before, at first of 1. The word 2,5|7 is the times 2 and 5, and 7 cut off.
    """
    return {
        task: {name: _words(read) for name, read in measured.items()}
        for task, measured in by_task.items()
    }


def _words(read: Sequence[Ratio] | Sequence[Times]) -> str:
    words, of = [], 1.0
    for of_episode in read:
        if isinstance(of_episode, Times):
            words.append("|".join(",".join(map(str, times)) for times in of_episode))
        else:
            whole = "" if of_episode.of == of else f"/{_number(of_episode.of)}"
            words.append(_number(of_episode.value) + whole)
            of = of_episode.of
    return " ".join(words)


def _number(value: float) -> str:
    return repr(float(value)).removesuffix(".0")


def readings_in(scores: Mapping[str, Any]) -> dict[str, Readings]:
    """Return what scores, as evaluation.json keeps them, have of each measure: by the measure's
    name, the readings of each task. Raises AttributeError, LookupError, TypeError or ValueError for
    what `plain_readings` does not give."""
    tasks = [*scores.get(MEASURES, {}).values()]
    read: dict[str, Readings] = {
        name: [_readings_in_words(measured[name]) for measured in tasks]
        for name in (tasks or [{}])[0]
    }
    for readings in read.values():
        if not all(readings) or len({type(of) for of_task in readings for of in of_task}) > 1:
            raise ValueError("a measure has no episodes, or numbers beside times")
    return read


def _readings_in_words(text: Any) -> list[Any]:
    if not isinstance(text, str):
        raise TypeError(f"readings are a text, not {type(text).__name__}")
    read: list[Any] = []
    of = 1.0
    for word in text.split():
        if "|" in word:
            read.append(Times(*map(_steps, word.split("|"))))
        else:
            value, _, whole = word.partition("/")
            of = float(whole) if whole else of
            if not (0 < of < MOST or of == float(value) == 0) or not abs(float(value)) < MOST:
                raise ValueError(f"{word[:50]} is no value of an episode")
            read.append(Ratio(float(value), of))
    times = [time for of in read if isinstance(of, Times) for time in (*of.over, *of.cut)]
    if len(read) * max(times, default=0) > MOST_IN_TABLE:
        raise ValueError("the table of all times would fill the memory")
    return read


def _steps(text: str) -> tuple[int, ...]:
    times = tuple(int(time) for time in text.split(",") if time)
    if any(not 0 <= time <= MOST_STEPS for time in times):
        raise ValueError(f"a time is not from 0 to {MOST_STEPS} steps")
    return times


def course_of(values: Sequence[FloatArray]) -> dict[str, list[float]]:
    """Return how a cost goes through an episode, by its parts: the mean over episodes of the same
    length, and the ends of what 90% of them have, [T] each. values: [T] of each episode."""
    low, high = np.quantile(values, [0.05, 0.95], axis=0)
    mean = np.mean(values, axis=0)
    mean, low, high = np.round([mean, low, high], 3).tolist()
    return {"mean": mean, "low": low, "high": high}


class Kept(NamedTuple):
    """What a budget limits, over episodes. mean: of the cost's sum. above: the share of the
    episodes whose sum is above the limit. holds: whether the budget was kept."""

    budget: Budget
    mean: Mean
    above: float
    holds: bool

    def __str__(self) -> str:
        limit, share = self.budget.limit, self.budget.share
        at_most = "" if share is None else f" (at most {share:.1%})"
        return (
            f"{self.budget.name}={limit:g} {'holds' if self.holds else 'is exceeded'}: mean "
            f"{self.mean.told()}, above {limit:g} in {self.above:.1%} of the episodes{at_most}"
        )


def kept_budgets(
    settings: Settings, names: Sequence[str], sums: Sequence[Sequence[float]]
) -> list[Kept]:
    """Return whether episodes keep each budget of an algorithm's settings. names: of the C costs.
    sums: of the costs of N episodes [N, C]; nothing can be said of no episodes."""
    kept = []
    for budget in budgets_of(getattr(settings, "budgets", {})) if len(sums) else ():
        of_cost = np.array(sums, np.float64)[:, list(names).index(budget.cost)]
        above = float((of_cost > budget.limit).mean())
        holds = bool(budget.charged(of_cost).mean() <= budget.allowed)
        kept.append(Kept(budget, mean_of([of_cost]), above, holds))
    return kept
