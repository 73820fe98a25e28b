"""Learning curves of runs, from their metrics."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from workflow_rl.output_files import replacing

RECENT_EPISODES = 300
RETURN_TICKS = (-1000, -500, -200, -100, -50, -20, -10, -5, 0)


def plot_learning_curve(metrics: Sequence[Mapping[str, float]], path: Path) -> None:
    """Mean return of every update against episodes and against wall time, and its running mean."""
    figure = learning_curve_figure({"": metrics})
    with replacing(path, "wb") as file:
        figure.savefig(file, dpi=120, format="png")


def learning_curve_figure(runs: Mapping[str, Sequence[Mapping[str, float]]]) -> Figure:
    """The learning curves of runs by name: their metrics.csv rows."""
    figure = Figure(figsize=(11, 4.2), layout="constrained")
    by_episodes, by_seconds = figure.subplots(1, 2, sharey=True)
    for index, (name, metrics) in enumerate(runs.items()):
        colour = f"C{index}"
        returns = [row["return_mean"] for row in metrics]
        smooth = running_mean(metrics)
        for axes, column in ((by_episodes, "episodes"), (by_seconds, "wall_seconds")):
            x = [row[column] for row in metrics]
            axes.plot(x, returns, color=colour, alpha=0.3, linewidth=1)
            axes.plot(x, smooth, color=colour, linewidth=2, label=name or None)
    by_episodes.set(xlabel="episodes", ylabel="episode return")
    by_seconds.set(xlabel="wall time (seconds)")
    for axes in (by_episodes, by_seconds):
        scale_returns(axes)
    if len(runs) > 1:
        by_episodes.legend()
    figure.suptitle(f"Mean return of each update (pale) and of the last {RECENT_EPISODES} episodes")
    return figure


def scale_returns(axes: Axes) -> None:
    """Scale the y axis for returns.

    Where none is above 0, as in CAGE-2, they may span three decades, and the one near 0 matters.
    """
    axes.grid(alpha=0.3)
    if axes.dataLim.y1 > 0:
        return
    axes.set_yscale("symlog", linthresh=10)
    bottom = axes.get_ylim()[0]
    axes.set_yticks(RETURN_TICKS, [str(tick) for tick in RETURN_TICKS], minor=False)
    axes.set_yticks([], minor=True)
    axes.set_ylim(bottom, 0)


def running_mean(
    metrics: Sequence[Mapping[str, float]], window: int = RECENT_EPISODES
) -> list[float]:
    """After each update, the mean return of the last `window` episodes, in whole updates."""
    means = []
    for last, row in enumerate(metrics):
        total = weight = 0.0
        for index in range(last, -1, -1):
            episodes_before = metrics[index - 1]["episodes"] if index else 0
            if weight and row["episodes"] - episodes_before > window:
                break
            count = metrics[index]["episodes"] - episodes_before
            if math.isnan(metrics[index]["return_mean"]):
                continue  # No episode ended in it.
            total += count * metrics[index]["return_mean"]
            weight += count
        means.append(total / weight if weight else math.nan)
    return means
