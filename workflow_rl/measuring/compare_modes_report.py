"""A comparison of modes as tables and as a chart."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
from matplotlib import colormaps
from matplotlib.figure import Figure
from prettytable import PrettyTable

from workflow_rl.reporting.drawing import scale_returns
from workflow_rl.reporting.text_table import text_table
from workflow_rl.runs.returns import Metrics, on_one_axis, running_mean

Row = Mapping[str, Any]

RETURN_WINDOW = 100
"""How many episodes a mean return is of that is compared with the target, and drawn."""


def modes_table(rows: Sequence[Row]) -> PrettyTable:
    """Return a line for each mode."""
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
        "return": lambda row: _or_none(row["return_mean_recent"]),
        f"reach {target:g}": lambda row: f"{row['seeds_at_target']} of {row['n_seeds']}",
        "in episodes": lambda row: _to_target(row, "episodes", ".0f"),
        "in seconds": lambda row: _to_target(row, "seconds", ".2f"),
    }
    return text_table(list(columns), [[cell(row) for cell in columns.values()] for row in rows])


def _or_none(mean: float | None) -> str:
    return "no episode ended" if mean is None else f"{mean:.1f}"


def _to_target(row: Row, what: str, form: str) -> str:
    number, ratio = row[f"{what}_to_target"], row[f"{what}_to_target_x_async"]
    if number is None:
        return "not reached"
    return format(number, form) + (f" ({ratio:.2f} x)" if ratio is not None else "")


def alf_table(rows: Sequence[Row]) -> PrettyTable:
    """Return a line for each number of envs an actor has."""
    cells = []
    for row in rows:
        speeds = []
        for way in ("sync", "async"):
            speeds += [f"{row[f'{way}_seconds_per_update']:.4f}", f"{row[f'{way}_eps']:.1f}"]
        cells.append([row["envs_per_actor"], *speeds, f"{row['ratio']:.2f}"])
    headings = ["K", "sync T (s)", "sync EPS", "async T (s)", "async EPS", "ratio"]
    return text_table(headings, cells, left=0)


def modes_figure(runs: Mapping[str, Sequence[Metrics]], target_return: float) -> Figure:
    """Draw each mode's median return over its seeds against episodes and against wall time.

    runs: the metrics of every seed, by the name of the mode. A band reaches from the worst seed to
    the best.
    """
    figure = Figure(figsize=(12, 5), layout="constrained")
    by_episodes, by_seconds = figure.subplots(1, 2, sharey=True)
    palette = colormaps["tab10" if len(runs) <= 10 else "tab20"]
    for index, (name, its_runs) in enumerate(runs.items()):
        for axes, column in ((by_episodes, "episodes"), (by_seconds, "wall_seconds")):
            x, returns = on_one_axis(its_runs, column, partial(running_mean, window=RETURN_WINDOW))
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
                # sync and async learn exactly the same: the wider line shows behind the other.
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
