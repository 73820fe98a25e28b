"""Plots of runs, as PNG files, and the command that draws them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path

import click
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from workflow_rl.output_files import require_writable
from workflow_rl.timeline import TraceError, read_trace, timeline_figure
from workflow_rl.training_options import FiniteRange

RECENT_EPISODES = 300
RETURN_TICKS = (-1000, -500, -200, -100, -50, -20, -10, -5, 0)


def plot_learning_curve(metrics: Sequence[Mapping[str, float]], path: Path) -> None:
    """Mean return of every update against episodes and against wall time, and its running mean."""
    figure = learning_curve_figure({"": metrics})
    figure.savefig(path, dpi=120)


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
    """Scale the y axis for returns: they span three decades, and the one near 0 matters."""
    axes.set_yscale("symlog", linthresh=10)
    bottom = axes.get_ylim()[0]
    axes.set_yticks(RETURN_TICKS, [str(tick) for tick in RETURN_TICKS], minor=False)
    axes.set_yticks([], minor=True)
    axes.set_ylim(bottom, 0)
    axes.grid(alpha=0.3)


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


@click.command()
@click.argument("runs", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--timeline", is_flag=True, help="RUNS are traces: the files of --trace.")
@click.option(
    "--from",
    "start",
    type=FiniteRange(min=0),
    metavar="S",
    help="Where the timelines begin, in seconds.",
)
@click.option("--to", "end", type=FiniteRange(min=0), metavar="S", help="Where they end.")
@click.option(
    "--output",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="The PNG to write.  [default: learning_curve.png in the run folder, or in this one; "
    "timeline.png beside the first trace]",
)
def plot(
    runs: tuple[Path, ...],
    timeline: bool,
    start: float | None,
    end: float | None,
    output: Path | None,
) -> None:
    """Draw the learning curves of one or more RUNS, the folders of training runs.

    Returns are drawn against episodes and against wall time.

    With --timeline, draw what every worker and the learner did: a bar for each, and below one
    another the traces. Without --from and --to, two updates of the slowest trace and as much time
    of the others, and besides a hundredth of that.

    \b
    Examples:
      plot runs/first runs/second --output both.png
      plot --timeline sync.json async.json --output timeline.png
    """
    if not timeline and (start, end) != (None, None):
        raise click.UsageError("--from and --to go with --timeline")
    if start is not None and end is not None and not start < end:
        raise click.BadParameter(f"{end:g} is not after --from {start:g}", param_hint="--to")
    if output is None and timeline:
        output = runs[0].parent / "timeline.png"
    elif output is None:
        output = (runs[0] if len(runs) == 1 else Path()) / "learning_curve.png"
    figure = _timelines(runs, start, end) if timeline else _learning_curves(runs)
    require_writable(output, "--output")
    figure.savefig(output, dpi=120, format="png")
    click.echo(f"{'timeline' if timeline else 'learning curves'}: {output}")


def _learning_curves(runs: Sequence[Path]) -> Figure:
    # Imported here, not above: it brings torch, which a timeline need not wait for.
    from workflow_rl.run_dir import RunDirError, read_metrics

    try:
        return learning_curve_figure({str(run): read_metrics(run) for run in runs})
    except RunDirError as error:
        raise click.UsageError(str(error)) from None


def _timelines(paths: Sequence[Path], start: float | None, end: float | None) -> Figure:
    try:
        return timeline_figure([read_trace(path) for path in paths], start, end)
    except TraceError as error:
        raise click.UsageError(str(error)) from None
