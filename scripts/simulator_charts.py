"""The rows of `measure_simulators` as a table, in words and as a chart."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby
from operator import itemgetter
from typing import Any

from matplotlib.figure import Figure
from prettytable import PrettyTable

from workflow_rl.cage2.simulator_speed import COMPILED
from workflow_rl.reporting.text_table import text_table

Row = Mapping[str, Any]

COLOURS = {"random": "C0", "network": "C1"}
LABELS = {"stock": "stock csle-cyborg", "cyborg": "csle-cyborg sped up"}


def speed_table(rows: Sequence[Row]) -> PrettyTable:
    """Return a line for each row, grouped by red agent, policy and cores."""
    headings = ["red agent", "simulator", "policy", "cores", "envs", "steps/s", "x stock"]
    cells = [
        [
            *(row[name] for name in ("red_agent", "simulator", "policy", "cores")),
            f"{row['n_envs']:,}",
            f"{row['steps_per_second']:,.0f}",
            f"{row['ratio_to_stock']:,.1f}",
            f"{row['ratio_to_best']:.2f}" if row["simulator"] == COMPILED else "",
        ]
        for row in rows
    ]
    return text_table([*headings, "of best"], cells, left=3, groups=[_line(row) for row in rows])


def _line(row: Row) -> tuple[Any, ...]:
    """Return what rows that differ in the number of envs alone have in common."""
    is_compiled = row["simulator"] == COMPILED
    return row["red_agent"], is_compiled, is_compiled and (row["policy"], row["cores"] > 1)


def best_batches(rows: Sequence[Row]) -> list[str]:
    """Return a sentence for each line of the chart: the fastest batch size."""
    sentences = []
    for _, line in groupby((row for row in rows if row["simulator"] == COMPILED), key=_line):
        best = max(line, key=lambda row: row["steps_per_second"])
        sentences.append(
            f"{best['red_agent']}, {best['policy']} policy, {_cores(best)}: "
            f"{best['steps_per_second']:,.0f} steps/s with {best['n_envs']:,} envs, "
            f"{best['ratio_to_stock']:,.0f} x stock"
        )
    return sentences


def _cores(row: Row) -> str:
    return "1 core" if row["cores"] == 1 else f"{row['cores']} cores"


def speed_figure(rows: Sequence[Row]) -> Figure:
    """Draw steps per second against the number of envs, with a panel for each red agent."""
    panels = {name: list(of_agent) for name, of_agent in groupby(rows, lambda r: r["red_agent"])}
    figure = Figure(figsize=(1.4 + 5.4 * len(panels), 5.6), layout="constrained")
    all_axes = figure.subplots(1, len(panels), sharey=True, squeeze=False)[0]
    for axes, (red_agent, of_agent) in zip(all_axes, panels.items(), strict=True):
        for row in of_agent:
            if row["simulator"] != COMPILED:
                _draw_level(axes, row)
        compiled = [row for row in of_agent if row["simulator"] == COMPILED]
        for _, line in groupby(compiled, key=_line):
            _draw_line(axes, sorted(line, key=lambda row: row["n_envs"]))
        axes.set(xlabel="envs", xscale="log", yscale="log")
        # The text is above the lines, which leave no room for labels between them.
        axes.set_title("\n".join((f"Red: {red_agent}", *_best_on_one_core(compiled))), fontsize=9)
        axes.set_ylim(top=3 * max(row["steps_per_second"] for row in rows))
        for axis in (axes.xaxis, axes.yaxis):
            axis.set_major_formatter(lambda value, _: f"{value:,.0f}")
        axes.tick_params(labelleft=True)
        axes.grid(alpha=0.3)
    all_axes[0].set_ylabel("env steps per second, resets included")
    lines, labels = all_axes[0].get_legend_handles_labels()
    figure.legend(lines, labels, loc="outside lower center", ncols=2)
    return figure


def _best_on_one_core(rows: Sequence[Row]) -> list[str]:
    """Return a sentence for each policy: the fastest of its batch sizes."""
    on_one = (row for row in rows if row["cores"] == 1)
    by_policy = groupby(sorted(on_one, key=itemgetter("policy")), key=itemgetter("policy"))
    best = [max(group, key=itemgetter("steps_per_second")) for _, group in by_policy]
    return [
        f"{row['policy']} policy, 1 core: up to {row['steps_per_second']:,.0f} steps/s, "
        f"{row['ratio_to_stock']:,.0f} x stock"
        for row in best
    ]


def _draw_line(axes: Any, points: Sequence[Row]) -> None:
    """Draw the compiled simulator with one policy, on one core or several."""
    most_cores = max(points, key=lambda row: row["cores"])
    on_one_core = most_cores["cores"] == 1
    colour = COLOURS[points[0]["policy"]]
    axes.plot(
        [row["n_envs"] for row in points],
        [row["steps_per_second"] for row in points],
        color=colour,
        linestyle="-" if on_one_core else "--",
        marker="o" if on_one_core else "s",
        markersize=5,
        label=f"compiled, {points[0]['policy']} policy, {_cores(most_cores)}",
    )


def _draw_level(axes: Any, row: Row) -> None:
    """Draw CybORG, which has no batches, as a horizontal line."""
    axes.axhline(row["steps_per_second"], color="0.35", linestyle=":", linewidth=1.5)
    axes.annotate(
        f"{LABELS[row['simulator']]}, 1 env, random policy: {row['steps_per_second']:,.0f}",
        (1, row["steps_per_second"]),
        xycoords=("axes fraction", "data"),
        xytext=(-6, 4),
        textcoords="offset points",
        ha="right",
        va="bottom",
        fontsize=8,
        color="0.25",
    )
