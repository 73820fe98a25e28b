"""Learning curves of runs, from their metrics."""

from __future__ import annotations

import logging
import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import TypeAlias

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from workflow_rl.environments.environment import guests
from workflow_rl.output_files import replacing
from workflow_rl.runs.config import TrainConfig
from workflow_rl.runs.drawing import as_drawn
from workflow_rl.runs.folder import NotWrittenError, return_columns

RECENT_EPISODES = 300
RETURN_TICKS = (-1000, -500, -200, -100, -50, -20, -10, -5, 0)
PROPORTIONAL = 10.0
"""Up to where returns on a logarithmic axis are drawn in proportion."""
LINE_HEIGHT = 0.05
"""Of a label, as a share of its axes' height."""

Metrics: TypeAlias = Sequence[Mapping[str, float]]
NONE: Mapping[str, float] = MappingProxyType({})

_log = logging.getLogger(__name__)


@contextmanager
def only_warned(picture: str | Path) -> Iterator[None]:
    """A picture that cannot be drawn is a warning: what it shows is finished and saved.

    Raises NotWrittenError all the same.
    """
    try:
        yield
    except NotWrittenError:
        raise
    except Exception as error:
        first, *_ = *str(error).strip().splitlines(), ""
        _log.warning("%s is not drawn: %s: %s", picture, type(error).__name__, first)


def plot_learning_curve(metrics: Metrics, path: Path, config: TrainConfig) -> None:
    """Returns of a run, whose folder `path` is in, against episodes and against wall time."""
    name = path.absolute().parent.name
    figure = learning_curve_figure({name: metrics}, known_returns(config), return_columns(config))
    with replacing(path, "wb") as file:
        figure.savefig(file, dpi=120, format="png")


def known_returns(config: TrainConfig) -> Mapping[str, float]:
    """Mean returns of other agents in a run's episodes, by name, where its environment has any."""
    guest = guests.get(config.env)
    return NONE if guest is None else guest.known_returns(config.env_args)


def learning_curve_figure(
    runs: Mapping[str, Metrics],
    known: Mapping[str, float] = NONE,
    columns: Mapping[str, str] = MappingProxyType({}),
) -> Figure:
    """The learning curves of runs by name: their metrics.csv rows.

    known: returns of other agents, for lines to compare with. columns: of the returns of episodes
    of one kind, by its name; each is a line, where there is one run alone.
    """
    figure = Figure(figsize=(11, 4.6), layout="constrained")
    by_episodes, by_seconds = figure.subplots(1, 2, sharey=True)
    lines = {name: (metrics, "return_mean") for name, metrics in runs.items()}
    if len(runs) == 1:
        (metrics,) = runs.values()
        own = {name: column for name, column in columns.items() if _has(metrics, column)}
        if own:
            lines = {"all": (metrics, "return_mean")}
        lines |= {name: (metrics, column) for name, column in own.items()}
    for axes, position in ((by_episodes, "episodes"), (by_seconds, "wall_seconds")):
        for index, (name, (metrics, column)) in enumerate(lines.items()):
            x, colour = [row[position] for row in metrics], f"C{index}"
            is_run, label = column == "return_mean", as_drawn(name)
            if is_run:
                axes.plot(x, [row[column] for row in metrics], color=colour, alpha=0.3, linewidth=1)
            smooth = running_mean(metrics, column=column)
            axes.plot(x, smooth, color=colour, linewidth=2 if is_run else 1.2, label=label)
    by_episodes.set(xlabel="episodes", ylabel="episode return")
    by_seconds.set(xlabel="wall time (seconds)")
    draw_known(by_episodes, by_seconds, known)
    title = f"Mean return of each update (pale) and of the last {RECENT_EPISODES} episodes"
    if len(lines) > 1:
        handles = by_episodes.get_legend_handles_labels()
        figure.legend(*handles, loc="outside lower center", ncols=4, frameon=False)
    if len(runs) == 1:
        title = f"{as_drawn(next(iter(runs)))}: {title[0].lower()}{title[1:]}"
    figure.suptitle(title)
    return figure


def _has(metrics: Metrics, column: str) -> bool:
    """Earlier versions had fewer."""
    return all(column in row for row in metrics)


def draw_known(left: Axes, right: Axes, known: Mapping[str, float]) -> None:
    """Scale the y axis of both, with a line for each of these returns that the curves reach, and
    for the next below them; their names stand beside the right one."""
    shown = worth_showing(known, right.dataLim.y0)
    for axes in (left, right):
        for value in shown:
            axes.axhline(value, color="0.4", linestyle=":", linewidth=1.2, zorder=0)
        scale_returns(axes)
    at = -math.inf
    for value, whose in shown.items():
        own = right.transAxes.inverted().transform(right.transData.transform((0, value)))[1]
        at = max(own, at + LINE_HEIGHT)
        right.annotate(
            as_drawn(f"{whose}: {value:.4g}"), (1, at), xycoords="axes fraction", xytext=(5, 0),
            textcoords="offset points", va="center", fontsize=8, color="0.25",
        )  # fmt: skip


def worth_showing(known: Mapping[str, float], lowest: float) -> dict[float, str]:
    """The returns that curves reach which come from `lowest`, and the next below them, from the
    lowest on: whose each is."""
    below = max((value for value in known.values() if value < lowest), default=lowest)
    shown: dict[float, list[str]] = {}
    for name, value in sorted(known.items(), key=lambda item: item[1]):
        if value >= below:
            shown.setdefault(value, []).append(name)
    return {value: ", ".join(names) for value, names in shown.items()}


def scale_returns(axes: Axes) -> None:
    """Scale the y axis for returns, as far as what is drawn reaches.

    Where none is above 0, as in CAGE-2, they may span three decades, and the one near 0 matters.
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


def running_mean(
    metrics: Metrics, window: int = RECENT_EPISODES, column: str = "return_mean"
) -> list[float]:
    """After each update, the mean return of the last `window` episodes, in whole updates.

    column: of the returns. What is of one kind of episode alone weighs as if all were of it.
    """
    means = []
    for last, row in enumerate(metrics):
        total = weight = 0.0
        for index in range(last, -1, -1):
            episodes_before = metrics[index - 1]["episodes"] if index else 0
            if weight and row["episodes"] - episodes_before > window:
                break
            count = metrics[index]["episodes"] - episodes_before
            if math.isnan(metrics[index][column]):
                continue  # No such episode ended in it.
            total += count * metrics[index][column]
            weight += count
        means.append(total / weight if weight else math.nan)
    return means
