"""The learning curves of runs, as one picture."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

from workflow_rl.evaluation.intervals import mean_and_interval
from workflow_rl.reporting.drawing import as_drawn, draw_known, save_png
from workflow_rl.runs.config import TrainConfig
from workflow_rl.runs.return_curves import (
    AXES,
    Metrics,
    columns_of_returns,
    on_one_axis,
    returns_of_known_agents,
    running_mean,
    window_of,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def plot_learning_curve(metrics: Metrics, path: Path, config: TrainConfig) -> None:
    """Draw the returns of the run whose folder `path` is in. Raises OSError."""
    name = path.absolute().parent.name
    figure = learning_curve_figure({name: metrics}, returns_of_known_agents(config))
    save_png(figure, path)


def learning_curve_figure(
    runs: Mapping[str, Metrics],
    known: Mapping[str, float] = MappingProxyType({}),
    groups: Mapping[str, Sequence[str]] = MappingProxyType({}),
) -> Figure:
    """Draw the returns of runs, given by name, against episodes, env steps and wall time.

    known: returns of other agents, for lines to compare with. groups: names of runs that differ in
    their seed alone, by a name for the group; by default a run is a group. Several runs of a group
    are one line, their mean, with a band, its 95% confidence interval. A single run has a line for
    each kind of episode, or for each agent of a team, too.
    """
    from matplotlib.figure import Figure  # A run that draws nothing starts without it.

    figure = Figure(figsize=(1 + 4.6 * len(AXES), 4.6), layout="constrained")
    panels = figure.subplots(1, len(AXES), sharey=True)
    lines = {name: ([metrics], "return_mean") for name, metrics in runs.items()}
    if groups:
        lines = {name: ([runs[n] for n in group], "return_mean") for name, group in groups.items()}
    if len(runs) == 1:
        (metrics,) = runs.values()
        columns = columns_of_returns(metrics)
        if columns:
            lines = {"all": ([metrics], "return_mean")}
        lines |= {name: ([metrics], column) for name, column in columns.items()}
    for axes, (position, name_of_axis) in zip(panels, AXES.items(), strict=True):
        axes.set(xlabel=name_of_axis)
        for index, (name, (group, column)) in enumerate(lines.items()):
            draw = _draw_run if len(group) == 1 else _draw_seeds
            draw(axes, group, (position, column), f"C{index}", as_drawn(name))
    panels[0].set(ylabel="episode return")
    draw_known(panels, known)
    is_band = any(len(group) > 1 for group, _ in lines.values())
    windows = sorted({window_of(metrics) for metrics in runs.values()})
    of_last = " to ".join(map(str, dict.fromkeys((windows[0], windows[-1]))))
    title = f"Mean return of the last {of_last} episodes"
    title += (
        ", mean of the seeds and its 95% interval" if is_band else ", and of each update (pale)"
    )
    if len(lines) > 1:
        handles = panels[0].get_legend_handles_labels()
        figure.legend(*handles, loc="outside lower center", ncols=4, frameon=False)
    if len(lines) == 1 or len(runs) == 1:
        name = next(iter(groups or runs))
        title = f"{as_drawn(name)}: {title[0].lower()}{title[1:]}"
    figure.suptitle(title)
    return figure


def _draw_run(
    axes: Axes, group: Sequence[Metrics], columns: tuple[str, str], colour: str, label: str
) -> None:
    """Draw the returns of each update, pale, and their running mean. columns: of x, and of y."""
    (metrics,), (position, column) = group, columns
    x, is_run = [row[position] for row in metrics], column == "return_mean"
    if is_run:
        axes.plot(x, [row[column] for row in metrics], color=colour, alpha=0.3, linewidth=1)
    smooth = running_mean(metrics, column=column)
    axes.plot(x, smooth, color=colour, linewidth=2 if is_run else 1.2, label=label)


def _draw_seeds(
    axes: Axes, group: Sequence[Metrics], columns: tuple[str, str], colour: str, label: str
) -> None:
    """Draw the mean of the runs' running means, and its interval, where all of them have one."""
    x, returns = on_one_axis(group, columns[0], partial(running_mean, column=columns[1]))
    mean, half = mean_and_interval(returns)
    axes.plot(x, mean, color=colour, linewidth=2, label=label)
    axes.fill_between(x, mean - half, mean + half, color=colour, alpha=0.2, linewidth=0)
