"""A comparison of modes as tables and as a chart."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib import colormaps
from matplotlib.figure import Figure
from numpy.typing import NDArray
from prettytable import PrettyTable, TableStyle

from workflow_rl.runs.learning_curve import running_mean, scale_returns

Row = Mapping[str, Any]
Metrics = Sequence[Mapping[str, float]]

RETURN_WINDOW = 100
"""Episodes whose mean return is compared with the target, and drawn."""


def modes_table(rows: Sequence[Row]) -> PrettyTable:
    """A line for each mode."""
    target = rows[0]["target_return"]
    columns: dict[str, Callable[[Row], str]] = {
        "mode": lambda row: row["mode"],
        "episodes/s": lambda row: f"{row['episodes_per_second']:.1f}",
        "T (s)": lambda row: f"{row['seconds_per_update']:.4f}",
        "EPS": lambda row: f"{row['eps']:.1f}",
        "utilisation": lambda row: f"{row['worker_utilisation']:.1%}",
        "learner idle": lambda row: f"{row['learner_idle']:.1%}",
        "lag": lambda row: f"{row['policy_lag_mean']:.1f}, max {row['policy_lag_max']:g}",
        "stale": lambda row: f"{row['stale_fraction']:.1%}",
        "dropped": lambda row: f"{row['dropped_steps']:g}",
        "return": lambda row: f"{row['return_mean_last_300']:.1f}",
        f"reach {target:g}": lambda row: f"{row['seeds_at_target']} of {row['n_seeds']}",
        "in episodes": lambda row: _to_target(row, "episodes", ".0f"),
        "in seconds": lambda row: _to_target(row, "seconds", ".2f"),
    }
    table = PrettyTable(list(columns), align="r")
    table.set_style(TableStyle.SINGLE_BORDER)
    table.align["mode"] = "l"
    table.add_rows([[cell(row) for cell in columns.values()] for row in rows])
    return table


def _to_target(row: Row, what: str, form: str) -> str:
    number, ratio = row[f"{what}_to_target"], row[f"{what}_to_target_x_async"]
    if number is None:
        return "not reached"
    return format(number, form) + (f" ({ratio:.2f} x)" if ratio is not None else "")


def alf_table(rows: Sequence[Row]) -> PrettyTable:
    """A line for each number of envs an actor."""
    table = PrettyTable(["K", "sync T (s)", "sync EPS", "async T (s)", "async EPS", "ratio"])
    table.set_style(TableStyle.SINGLE_BORDER)
    table.align = "r"
    for row in rows:
        cells = [f"{row['envs_per_actor']}"]
        for way in ("sync", "async"):
            cells += [f"{row[f'{way}_seconds_per_update']:.4f}", f"{row[f'{way}_eps']:.1f}"]
        table.add_row([*cells, f"{row['ratio']:.2f}"])
    return table


def modes_figure(runs: Mapping[str, Sequence[Metrics]], target_return: float) -> Figure:
    """The seeds' median return against episodes and against wall time, by the name of the mode.

    The band reaches from the worst seed to the best.
    """
    figure = Figure(figsize=(12, 5), layout="constrained")
    by_episodes, by_seconds = figure.subplots(1, 2, sharey=True)
    palette = colormaps["tab10" if len(runs) <= 10 else "tab20"]
    for index, (name, its_runs) in enumerate(runs.items()):
        for axes, column in ((by_episodes, "episodes"), (by_seconds, "wall_seconds")):
            x, returns = on_one_axis(its_runs, column)
            if not len(x):
                continue
            colour = palette(index % palette.N)
            axes.fill_between(
                x, returns.min(axis=0), returns.max(axis=0), color=colour, alpha=0.15, linewidth=0
            )
            axes.plot(
                x,
                np.median(returns, axis=0),
                color=colour,
                # sync and async learn the very same: one shows behind the other.
                linewidth=1.8 if index else 5,
                linestyle="--" if name.endswith("-vtrace") else "-",
                label=name,
            )
    by_episodes.set(xlabel="episodes", ylabel="episode return")
    by_seconds.set(xlabel="wall time (seconds)")
    for axes in (by_episodes, by_seconds):
        axes.set_xlim(left=0)
        label = f"target: {target_return:g}"
        axes.axhline(target_return, color="black", linewidth=1, linestyle=":", label=label)
        scale_returns(axes)
    figure.legend(*by_episodes.get_legend_handles_labels(), loc="outside right center")
    n_seeds = max(map(len, runs.values()))
    figure.suptitle(
        f"Mean return of the last {RETURN_WINDOW} episodes: "
        f"median, worst and best of {n_seeds} seeds"
    )
    return figure


def on_one_axis(
    runs: Sequence[Metrics], column: str, of: str = "return_mean"
) -> tuple[NDArray[Any], NDArray[Any]]:
    """Where all runs have a return: 400 values [X] of the column, and the returns there [run, X].

    X is 0 if there is no such place. of: the column of the returns.
    """
    curves = []
    for metrics in runs:
        x = np.array([row[column] for row in metrics], dtype=float)
        returns = np.array(running_mean(metrics, RETURN_WINDOW, of))
        curves.append((x[np.isfinite(returns)], returns[np.isfinite(returns)]))
    start = max(x[0] if len(x) else np.inf for x, _ in curves)
    end = min(x[-1] if len(x) else -np.inf for x, _ in curves)
    if start > end:
        return np.empty(0), np.empty((len(runs), 0))
    grid = np.linspace(start, end, 400)
    return grid, np.array([np.interp(grid, x, returns) for x, returns in curves])
