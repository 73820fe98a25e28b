"""A benchmark's rows as a table and as a chart."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib.figure import Figure
from prettytable import PrettyTable

from workflow_rl.text_table import text_table

Row = Mapping[str, Any]

COLOURS = {
    "sync": "C1",
    "sync-packed": "C3",
    "async": "C0",
    "sync-training": "C8",
    "async-training": "C9",
    "steps": "C2",
}

LABEL_HEIGHT = 0.14
"""Height of a label of three lines, as a share of the height of the axes."""


def benchmark_table(rows: Sequence[Row]) -> PrettyTable:
    """Return a line for each variant, simulator by simulator."""
    headings = ["simulator", "mode", "envs", "workers", "episodes/s", "steps/s", "utilisation"]
    cells, groups = [], []
    for row in rows:
        n_envs = None if row["variant"] == "ceiling" else row["n_envs"]
        speedup = row["speedup_over_sync"]
        groups.append((row["simulator"], n_envs))
        cells.append(
            [
                row["simulator"],
                row["variant"],
                "" if n_envs is None else n_envs,
                row["n_workers"],
                f"{row['episodes_per_second']:.1f}",
                f"{row['env_steps_per_second']:.0f}",
                f"{row['worker_utilisation']:.1%}",
                f"{row['ratio_to_ceiling']:.1%}",
                "" if speedup is None else f"{speedup:.2f}",
            ]
        )
    return text_table([*headings, "of ceiling", "x sync"], cells, left=2, groups=groups)


def benchmark_figure(rows: Sequence[Row]) -> Figure:
    """Draw the episodes per second of every variant and the ceiling; a panel for each simulator."""
    simulators = list(dict.fromkeys(row["simulator"] for row in rows))
    n_bars = max(sum(row["simulator"] == name for row in rows) - 1 for name in simulators)
    figure = Figure(figsize=(len(simulators) * max(4.0, 1.1 * n_bars), 4.6), layout="constrained")
    panels = figure.subplots(1, len(simulators), squeeze=False)[0]
    for axes, simulator in zip(panels, simulators, strict=True):
        (ceiling,) = (
            row for row in rows if row["simulator"] == simulator and row["variant"] == "ceiling"
        )
        bars = [row for row in rows if row["simulator"] == simulator and row is not ceiling]
        heights = [row["episodes_per_second"] for row in bars]
        axes.bar(range(len(bars)), heights, 0.92, color=[COLOURS[row["variant"]] for row in bars])
        axes.set_xticks(
            range(len(bars)),
            [f"{row['variant'].replace('-', chr(10))}\n{row['n_envs']} envs" for row in bars],
        )
        limit = ceiling["episodes_per_second"]
        top = 1.35 * max(*heights, limit)
        for index, row in enumerate(bars):
            # A label goes into its bar where the line of the ceiling would run through the label.
            is_within = heights[index] < limit < heights[index] + LABEL_HEIGHT * top
            axes.annotate(
                f"{row['episodes_per_second']:.1f}/s\n{row['ratio_to_ceiling']:.0%} of ceiling\n"
                f"utilisation {row['worker_utilisation']:.0%}",
                (index, heights[index]),
                xytext=(0, -3 if is_within else 3),
                textcoords="offset points",
                ha="center",
                va="top" if is_within else "bottom",
                fontsize=7,
                color="white" if is_within else "black",
            )
        axes.axhline(limit, color="black", linestyle="--", label=f"ceiling {limit:.1f}/s", zorder=0)
        axes.legend(loc="upper left")
        axes.set_ylim(top=top)
        axes.set(title=f"simulator: {simulator}", ylabel="episodes per second")
    return figure
