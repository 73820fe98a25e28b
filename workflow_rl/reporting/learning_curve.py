"""The learning curves of runs, as one picture, and what all pictures of returns share."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

from workflow_rl.evaluation.intervals import mean_and_interval
from workflow_rl.output_files import replacing
from workflow_rl.runs.config import TrainConfig
from workflow_rl.runs.return_curves import (
    AXES,
    Metrics,
    columns_of_returns,
    on_one_axis,
    returns_of_known_agents,
    running_mean,
    window_of,
    worth_showing,
)
from workflow_rl.terminal import printable

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

RETURN_TICKS = (-1000, -500, -200, -100, -50, -20, -10, -5, 0)
PROPORTIONAL = 10.0
"""Returns down to minus this are drawn in proportion on a logarithmic axis."""
LINE_HEIGHT = 0.05
"""Height of a label, as a share of the height of its axes."""


def plot_learning_curve(metrics: Metrics, path: Path, config: TrainConfig) -> None:
    """Draw a run's returns. path: the picture, in the run's folder. Raises OSError."""
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
    their seed alone, by a name for the group; by default a run is a group. Each group is a line,
    see `lines_of`. A group of several runs is drawn as their mean, with its 95% confidence interval
    as a band.
    """
    from matplotlib.figure import Figure  # A run that draws nothing starts without it.

    groups = groups or {name: [name] for name in runs}
    lines = lines_of({name: [runs[n] for n in group] for name, group in groups.items()})
    figure = Figure(figsize=(1 + 4.6 * len(AXES), 4.6), layout="constrained")
    panels = figure.subplots(1, len(AXES), sharey=True)
    for axes, (position, name_of_axis) in zip(panels, AXES.items(), strict=True):
        axes.set(xlabel=name_of_axis)
        for index, (name, group, column) in enumerate(lines):
            draw = _draw_run if len(group) == 1 else _draw_seeds
            draw(axes, group, (position, column), f"C{index}", as_drawn(name))
    panels[0].set(ylabel="episode return")
    draw_known(panels, known)
    is_band = any(len(group) > 1 for group in groups.values())
    windows = sorted({window_of(metrics) for metrics in runs.values()})
    of_last = " to ".join(map(str, dict.fromkeys((windows[0], windows[-1]))))
    title = f"Mean return of the last {of_last} episodes"
    title += (
        ", mean of the seeds and its 95% interval" if is_band else ", and of each update (pale)"
    )
    if len(lines) > 1:
        handles = panels[0].get_legend_handles_labels()
        figure.legend(*handles, loc="outside lower center", ncols=4, frameon=False)
    if len(groups) == 1:
        title = f"{as_drawn(next(iter(groups)))}: {title[0].lower()}{title[1:]}"
    figure.suptitle(title)
    return figure


def lines_of(groups: Mapping[str, Sequence[Metrics]]) -> list[tuple[str, Sequence[Metrics], str]]:
    """Return the lines of a chart of returns: the name, the runs and the column of each.

    Each group is a line. A single group also has a line for each kind of episode, or for each agent
    of a team, if all of its runs have this kind or agent.
    """
    lines = [(name, runs, "return_mean") for name, runs in groups.items()]
    if len(groups) > 1:
        return lines
    ((group, runs),) = groups.items()
    whole = group if len(runs) > 1 else "all"
    first, *others = map(columns_of_returns, runs)
    kinds = [name for name in first if all(name in other for other in others)]
    return [(whole, runs, "return_mean"), *((n, runs, first[n]) for n in kinds)] if kinds else lines


def _draw_run(
    axes: Axes, group: Sequence[Metrics], columns: tuple[str, str], colour: str, label: str
) -> None:
    """Draw the returns of each update, pale, and their running mean. columns: of x, and of y."""
    (metrics,) = group
    position, column = columns
    x = [row[position] for row in metrics]
    is_run = column == "return_mean"
    if is_run:
        axes.plot(x, [row[column] for row in metrics], color=colour, alpha=0.3, linewidth=1)
    smooth = running_mean(metrics, column=column)
    axes.plot(x, smooth, color=colour, linewidth=2 if is_run else 1.2, label=label)


def _draw_seeds(
    axes: Axes, group: Sequence[Metrics], columns: tuple[str, str], colour: str, label: str
) -> None:
    """Draw the mean of the runs' running means, and its interval, where all runs have values."""
    position, column = columns
    x, returns = on_one_axis(group, position, partial(running_mean, column=column))
    mean, half = mean_and_interval(returns)
    axes.plot(x, mean, color=colour, linewidth=2, label=label)
    axes.fill_between(x, mean - half, mean + half, color=colour, alpha=0.2, linewidth=0)


def as_drawn(name: str) -> str:
    """Return the text by which matplotlib draws a name that a user or a file chose.

    Given the name itself, matplotlib would read what is between two `$` as a formula, hide a label
    that begins with `_`, fail at what is no UTF-8, and print control characters in a warning.
    """
    readable = printable(name, kept="\n")
    visible = f" {readable}" if readable.startswith("_") else readable
    return visible.replace("$", r"\$")


def save_png(figure: Figure, path: Path) -> None:
    """Write the figure in one step, as a PNG unless its name ends otherwise. Raises OSError."""
    with replacing(path, "wb") as file:
        figure.savefig(file, dpi=120, format=path.suffix[1:].lower() or "png")


def scale_returns(axes: Axes) -> None:
    """Scale the y axis for returns, as far as the drawn lines reach.

    If no return is above 0, as in CAGE-2, the axis is logarithmic, because returns may span three
    decades, and differences near 0 matter.
    """
    axes.grid(alpha=0.3)
    lowest, highest = axes.dataLim.y0, axes.dataLim.y1
    if highest > 0 or lowest > 4 * min(highest, -PROPORTIONAL):
        return
    axes.set_yscale("symlog", linthresh=PROPORTIONAL)
    bottom, top = axes.get_ylim()
    axes.set_yticks(RETURN_TICKS, [str(tick) for tick in RETURN_TICKS], minor=False)
    axes.set_yticks([], minor=True)
    axes.set_ylim(bottom, min(top, 1))


def draw_known(panels: Sequence[Axes], known: Mapping[str, float]) -> None:
    """Scale the y axis of all panels, and draw a line for each return that is worth showing. The
    names are beside the last panel, and do not overlap."""
    last = panels[-1]
    shown = worth_showing(known, last.dataLim.y0)
    for axes in panels:
        for value in shown:
            axes.axhline(value, color="0.4", linestyle=":", linewidth=1.2, zorder=0)
        scale_returns(axes)
    at = -math.inf
    for value, whose in shown.items():
        height = last.transAxes.inverted().transform(last.transData.transform((0, value)))[1]
        at = max(height, at + LINE_HEIGHT)
        last.annotate(
            as_drawn(f"{whose}: {value:.4g}"), (1, at), xycoords="axes fraction", xytext=(5, 0),
            textcoords="offset points", va="center", fontsize=8, color="0.25",
        )  # fmt: skip
