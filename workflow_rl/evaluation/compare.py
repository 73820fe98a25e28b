"""The scores of several agents together, over tasks and episodes, and against a baseline.

The interquartile mean, its stratified bootstrap, and the probability of improvement follow Agarwal
et al. (2021), "Deep Reinforcement Learning at the Edge of the Statistical Precipice", arXiv
2108.13264, section 4. The paper's score of a run is here an agent's mean return in a task.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray
from prettytable import PrettyTable

from workflow_rl.evaluation.intervals import CONFIDENCE, FloatArray, Mean, mean_of, over_agents
from workflow_rl.evaluation.measures import Readings, difference, figure_of
from workflow_rl.text_table import text_table

N_RESAMPLES = 10_000
SUM = "sum"

Returns: TypeAlias = "Mapping[str, Sequence[float]]"
"""The returns of an agent's episodes, by task."""


class Bounded(NamedTuple):
    """A value, and the ends of its 95% interval. The ends are NaN if there are too few agents."""

    value: float
    low: float
    high: float

    def __str__(self) -> str:
        ends = "" if math.isnan(self.low) else f" [{self.low:.2f}, {self.high:.2f}]"
        return f"{self.value:.2f}{ends}"


class Compared(NamedTuple):
    """The scores of agents in a task, or a measure, and the difference from a baseline, if any.

    mean: over agents and episodes, which are both random. For one agent, the interval is that of
    the command `evaluate`, in which tasks are independent. iqm: the mean of the agents' scores
    without the lowest and the highest quarter, or None for a measure. baseline: the mean of the
    baseline. difference: the difference of the means, over equal episodes. better: the probability
    that an agent has a higher score than an agent of the baseline, if both have several agents.
    """

    task: str
    mean: Mean
    iqm: Bounded | None
    baseline: Mean | None = None
    difference: Mean | None = None
    better: Bounded | None = None


def compare_agents(
    agents: Sequence[Returns], baseline: Sequence[Returns] = (), seed: int = 0
) -> list[Compared]:
    """Compare agents that have played the same episodes.

    Args:
        agents: the returns of each agent. The agents may come from runs with different seeds.
        baseline: the returns of each agent of the baseline; empty without a baseline.
        seed: the seed of the bootstrap.

    Returns:
        A row for each task. If there are several tasks, a last row for the agents' sums over tasks.

    Raises:
        ValueError: the agents differ in their tasks, or in the number of episodes.
    """
    played = [
        {task: len(values) for task, values in agent.items()} for agent in (*agents, *baseline)
    ]
    for other in played:
        if other != played[0]:
            is_task = other.keys() == played[0].keys()
            same = "the same --episodes" if is_task else "the same environment"
            raise ValueError(
                f"the episodes are not the same: {_told(played[0])}, and {_told(other)}: score "
                f"all agents with {same}"
            )
    tasks, bases = _by_task(agents), _by_task(baseline)
    rows = [
        _row(task, [totals], [bases[task]] if bases else [], seed) for task, totals in tasks.items()
    ]
    if len(rows) > 1:
        rows.append(_row(SUM, list(tasks.values()), list(bases.values()), seed))
    return rows


def comparison_table(rows: Sequence[Compared], first: str = "task") -> PrettyTable:
    """Return a table with a line for each row. A baseline adds columns. first: a heading."""
    names = [first, "mean", "IQM", "baseline", "difference", "P(better)"]
    headings = [name for name, figure in zip(names, rows[0], strict=True) if figure is not None]
    cells = [[str(figure) for figure in row if figure is not None] for row in rows]
    return text_table(headings, cells, groups=[row.task == SUM for row in rows])


def compare_measures(
    agents: Sequence[Mapping[str, Readings]], baseline: Sequence[Mapping[str, Readings]] = ()
) -> list[Compared]:
    """Return a row for each measure that all agents have for equal episodes."""
    everyone = [*agents, *baseline]
    shapes = [{name: _shape(read) for name, read in agent.items()} for agent in everyone]
    shared = [
        name
        for name, shape in shapes[0].items()
        if len(shape[0]) == 1 and all(other.get(name) == shape for other in shapes)
    ]
    rows = []
    for name in shared:
        ours, theirs = ([agent[name] for agent in group] for group in (agents, baseline))
        row = Compared(name, _figure(ours), None)
        if theirs:
            more = _measure_difference(ours, theirs)
            row = row._replace(baseline=_figure(theirs), difference=more)
        rows.append(row)
    return rows


def _shape(readings: Readings) -> tuple[set[type], list[int]]:
    """Return the kind of the readings, and the number of episodes in each task."""
    return {type(read) for of_task in readings for read in of_task}, [*map(len, readings)]


def _figure(agents: Sequence[Readings]) -> Mean:
    figures = [figure_of(readings).mean for readings in agents]
    return figures[0] if len(figures) == 1 else mean_of([[figure.mean for figure in figures]])


def _measure_difference(ours: Sequence[Readings], theirs: Sequence[Readings]) -> Mean:
    """Return the difference of the means of two groups of agents. Its interval has the same parts
    as the interval of `_difference`."""
    pairs = [difference(ours_of, theirs_of) for ours_of in ours for theirs_of in theirs]
    groups = [group for group in (ours, theirs) if len(group) > 1]
    halves = [float(np.mean([pair.interval_95 for pair in pairs]))]
    halves += [_figure(group).interval_95 for group in groups]
    return Mean(float(np.mean([pair.mean for pair in pairs])), math.hypot(*halves))


def plain_rows(rows: Sequence[Compared], first: str = "task") -> list[dict[str, Any]]:
    """Return each row as plain values for JSON and CSV: None replaces NaN."""
    return [{first: row.task, **_figures(row)} for row in rows]


def _figures(row: Compared) -> dict[str, float | None]:
    return {
        name if number == 0 else f"{name}_{part}": None if math.isnan(value) else float(value)
        for name, figure in row._asdict().items()
        if isinstance(figure, Mean | Bounded)
        for number, (part, value) in enumerate(figure._asdict().items())
    }


def _told(played: Mapping[str, int]) -> str:
    return ", ".join(f"{n} of {task}" for task, n in played.items())


def _by_task(agents: Sequence[Returns]) -> dict[str, FloatArray]:
    return {
        task: np.array([agent[task] for agent in agents], np.float64)
        for task in (agents[0] if agents else ())
    }


def _row(
    task: str, totals: Sequence[FloatArray], bases: Sequence[FloatArray], seed: int
) -> Compared:
    """Return the row of one task, or of a sum of tasks. totals, bases: [agent, episode] by task."""
    ours: FloatArray = sum(totals[1:], start=totals[0])
    row = Compared(task, _mean(totals), _bootstrapped(_iqm, [ours.mean(axis=1)], seed))
    if not bases:
        return row
    theirs: FloatArray = sum(bases[1:], start=bases[0])
    row = row._replace(baseline=_mean(bases), difference=_difference(ours, theirs))
    if 1 in (len(ours), len(theirs)):
        return row
    scores = [ours.mean(axis=1), theirs.mean(axis=1)]
    return row._replace(better=_bootstrapped(_probability_of_improvement, scores, seed))


def _mean(totals: Sequence[FloatArray]) -> Mean:
    """Return the mean of the sum of several tasks. totals: [agent, episode], by task."""
    if len(totals[0]) == 1:
        return mean_of([of_task[0] for of_task in totals])
    return over_agents(sum(totals[1:], start=totals[0]))


def _difference(ours: FloatArray, theirs: FloatArray) -> Mean:
    """Return the difference of the means of [agent, episode] and [other agent, episode].

    Both groups play equal episodes, so the episodes' part of the interval comes from differences in
    each episode. Each group's agents add a part of their own.
    """
    of_episodes = mean_of([ours.mean(axis=0) - theirs.mean(axis=0)])
    parts = [of_episodes, *(mean_of([group.mean(axis=1)]) for group in (ours, theirs))]
    halves = [part.interval_95 for part in parts if not math.isnan(part.interval_95)]
    return Mean(of_episodes.mean, math.hypot(*halves) if halves else math.nan)


def _bootstrapped(
    statistic: Callable[..., NDArray[Any]], samples: Sequence[FloatArray], seed: int
) -> Bounded:
    """Return a statistic of samples of agents, and its interval by resampling each sample."""
    value = float(statistic(*samples))
    if min(map(len, samples)) < 2:
        return Bounded(value, math.nan, math.nan)
    rng = np.random.default_rng(seed)
    # A hundred parts save memory, because a resample may have a number for each pair of agents.
    values = [
        statistic(*(rng.choice(sample, (N_RESAMPLES // 100, len(sample))) for sample in samples))
        for _ in range(100)
    ]
    outside = (1 - CONFIDENCE) / 2
    low, high = np.quantile(values, [outside, 1 - outside])
    return Bounded(value, float(low), float(high))


def _iqm(scores: FloatArray) -> NDArray[Any]:
    """Return the interquartile means of scores [..., agent]."""
    n_cut = scores.shape[-1] // 4
    kept = np.sort(scores, axis=-1)[..., n_cut : scores.shape[-1] - n_cut]
    return np.asarray(kept.mean(axis=-1))


def _probability_of_improvement(ours: FloatArray, theirs: FloatArray) -> NDArray[Any]:
    """Return the share of pairs of agents in which ours is better, from scores [..., agent]. A pair
    of equal scores counts as one half."""
    signs = np.sign(ours[..., :, None] - theirs[..., None, :])
    return np.asarray((signs.mean(axis=(-2, -1)) + 1) / 2)
