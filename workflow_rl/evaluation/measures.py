"""Measures of episodes: what the return does not show, counted from the costs of each step.

A measure is a total of an episode, a share, or a time, which the episode's end may cut off.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from workflow_rl.agents.ppo.config import Budget, budgets_of
from workflow_rl.agents.settings import Settings
from workflow_rl.agents.trajectory import Trajectory
from workflow_rl.evaluation.intervals import FloatArray, Mean, mean_of, quantile
from workflow_rl.terminal import fitting
from workflow_rl.text_table import text_table

Costs: TypeAlias = "Mapping[str, FloatArray]"
"""The costs of an episode's steps [T], by name."""
MEASURES, BY_STEP = "measures", "by_step"
"""The keys of readings and of courses in evaluation.json."""
MOST = 1e100
"""Values of episodes in a file must be smaller, so that their squares are finite."""
MOST_IN_TABLE = 2**25
"""The largest table of a task's times, by episode and time, that the memory can hold."""
MOST_STEPS = 20_000
"""The longest time in steps that is read from a file, because a table of all times is made."""
WORST = 0.05
"""The share of episodes that count as the worst episodes."""


class Ratio(NamedTuple):
    """One episode's share: `value` out of `of`. `of` is 1 if the measure is a total."""

    value: float
    of: float = 1.0


class Times(NamedTuple):
    """Times of one episode, in steps. over: the times whose end was seen. cut: the times that the
    episode's end cut off, which would have been longer."""

    over: tuple[int, ...] = ()
    cut: tuple[int, ...] = ()


class Measure(NamedTuple):
    """A figure of an episode from the true state.

    read: returns an episode's Ratio or Times. unit: what the figure counts. meaning: the measure's
    definition, a sentence. more_is_better: whether episodes with the least are the worst episodes.
    """

    name: str
    unit: str
    meaning: str
    read: Callable[[Costs], Ratio | Times]
    more_is_better: bool = False


def total(*names: str) -> Callable[[Costs], Ratio]:
    """Return a function that reads the sum of these costs over an episode."""
    return lambda costs: Ratio(_sum(costs, names))


def share(names: Sequence[str], of: Sequence[str]) -> Callable[[Costs], Ratio]:
    """Return a function that reads the sum of the costs `names` as a share of the sum of `of`."""
    return lambda costs: Ratio(_sum(costs, names), _sum(costs, of))


def time_above_zero(*beginnings: str) -> Callable[[Costs], Times]:
    """Return a function that reads how many steps costs whose names begin so stay above 0."""

    def read(costs: Costs) -> Times:
        over: list[int] = []
        cut: list[int] = []
        for name, values in costs.items():
            if name.startswith(beginnings):
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
    """Return a function that reads a time in steps: from the first step in which the cost `begins`
    is above 0 to the next step in which `ends` is. Without a beginning, there is no time."""

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
    """Return the reading of each episode, by the measure's name.

    names: the names of the trajectories' costs [C]. Trajectories must be complete episodes.
    """
    read: dict[str, list[Any]] = {measure.name: [] for measure in measures}
    for trajectory in trajectories:
        assert trajectory.costs is not None
        costs = dict(zip(names, trajectory.costs.T, strict=True))
        for measure in measures:
            read[measure.name].append(measure.read(costs))
    return read


def measures_of_costs(names: Sequence[str]) -> list[Measure]:
    """Return a measure for each cost: its total. Only the costs' names are known."""
    return [Measure(name, "", f"Sum of {name} over an episode.", total(name)) for name in names]


class Figure(NamedTuple):
    """A measure's figures over episodes.

    mean: the mean total, the share over all episodes, or the mean time up to the longest time seen.
    worst: the mean of the worst 5% of the episodes; NaN for times. median: the Kaplan-Meier median
    of times, infinite if fewer than half of the times end; NaN for other measures.
    """

    mean: Mean
    worst: float = math.nan
    median: float = math.nan


Readings: TypeAlias = "Sequence[Sequence[Ratio] | Sequence[Times]]"
"""A measure's readings of the episodes of each task. Each task's episodes are a sample."""


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
    """Return the difference of two agents' means of a measure, in equal episodes. Both mean times
    go up to the longest time that was seen for both agents."""
    n_times = min(_life_table(readings)[0].shape[1] for readings in (ours, theirs))
    estimate, without = _estimated(ours, n_times)
    other, without_other = _estimated(theirs, n_times)
    return Mean(estimate - other, _half(ours, without - without_other))


def _estimated(readings: Readings, n_times: int | None = None) -> tuple[float, FloatArray]:
    """Return the estimate from all N episodes, and the N estimates without one episode. n_times:
    mean times go up to n_times - 1 steps; None: up to the longest time seen."""
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
    """Return half of the 95% interval by the jackknife (Efron 1979) within each task. The jackknife
    leaves out whole episodes, because an episode's times depend on each other."""
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
    """Return how many times of each episode end after 0, 1, ... steps, [N, K], and how many times
    last at least 0, 1, ... steps, [N, K]."""
    read = [times for of_task in readings for times in of_task if isinstance(times, Times)]
    n_times = max((time + 1 for times in read for time in (*times.over, *times.cut)), default=0)
    ends, at_risk = np.zeros((2, len(read), n_times))
    for row, times in enumerate(read):
        ends[row] = np.bincount(np.array(times.over, int), minlength=n_times)
        lasting = np.bincount(np.array(times.over + times.cut, int), minlength=n_times)
        at_risk[row] = lasting[::-1].cumsum()[::-1]
    return ends, at_risk


def _lasting(ends: FloatArray, at_risk: FloatArray) -> FloatArray:
    """Return the share of times that last longer than 0, 1, ... steps, [..., K]. Source: Kaplan and
    Meier 1958, equation 2b."""
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
"""The readings of episodes as text for JSON, by task and by the measure's name."""


def plain_readings(by_task: Mapping[str, Mapping[str, Sequence[Ratio] | Sequence[Times]]]) -> Plain:
    """Return readings for evaluation.json: a word for each episode, because lists take ten times as
    much space in a file.

    The word 3/8 means the value 3 out of 8. A value without "/" is out of the number in the word
    before; the first is out of 1. The word 2,5|7 means the times 2 and 5, and a time 7 cut off.
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
    """Return the readings in the scores of an evaluation.json: the readings of each task, by the
    measure's name. Raises AttributeError, LookupError, TypeError or ValueError for other values
    than `plain_readings` returns."""
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
    """Return the course of a cost over the steps of equally long episodes: the mean, and the ends
    of the range that holds 90% of episodes, [T] each. values: [T] of each episode."""
    low, high = np.quantile(values, [0.05, 0.95], axis=0)
    mean = np.mean(values, axis=0)
    mean, low, high = np.round([mean, low, high], 3).tolist()
    return {"mean": mean, "low": low, "high": high}


class Kept(NamedTuple):
    """A budget in episodes. mean: the mean of the cost's sum in an episode. above: the share of
    episodes whose sum is above the limit. holds: whether the episodes kept the budget."""

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
    settings: Settings, names: Sequence[str], by_task: Sequence[ArrayLike]
) -> list[Kept]:
    """Return whether episodes keep each budget of an algorithm's settings. names: of the C costs.
    by_task: each task's sums of costs [N, C]. Without episodes, the result is empty."""
    tasks = [sums for sums in (np.asarray(of, np.float64) for of in by_task) if len(sums)]
    shares = [len(sums) / sum(map(len, tasks)) for sums in tasks]
    kept = []
    for budget in budgets_of(getattr(settings, "budgets", {})) if tasks else ():
        of_tasks = [sums[:, list(names).index(budget.cost)] for sums in tasks]
        of_cost = np.concatenate(of_tasks)
        above = float((of_cost > budget.limit).mean())
        holds = bool(budget.charged(of_cost).mean() <= budget.allowed)
        kept.append(Kept(budget, mean_of(of_tasks, shares), above, holds))
    return kept
