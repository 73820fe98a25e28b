"""The picture of several policies of one run: returns, settings, and who copied whom."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import NullFormatter

from workflow_rl.reporting.drawing import save_png, scale_returns
from workflow_rl.reporting.learning_curve import learning_curve_figure
from workflow_rl.runs.config import TrainConfig
from workflow_rl.runs.exchange import SHARES, Values
from workflow_rl.runs.folder import RunDirError, read_metrics
from workflow_rl.runs.population_dir import PopulationRecord, policy_folder, read_population
from workflow_rl.runs.return_curves import Metrics, running_mean


def draw_population(path: Path) -> Path:
    """Write the picture of a folder of several policies into it, and return the picture's path.

    Raises RunDirError, OSError.
    """
    file = path / "learning_curve.png"
    save_png(figure_of_folder(path), file)
    return file


def figure_of_folder(path: Path) -> Figure:
    """Draw the learning curves of a folder of several policies, and what they copied if they did.

    Raises RunDirError.
    """
    record = read_population(path)
    metrics = [read_metrics(policy_folder(path, n)) for n in range(len(record.configs))]
    if record.exchange is None:
        return learning_curve_figure({f"policy {n}": rows for n, rows in enumerate(metrics)})
    for n, rows in enumerate(metrics):
        if record.meetings and not rows:
            file = policy_folder(path, n) / "metrics.csv"
            raise RunDirError(f"{file} is not of the population whose meetings are to be drawn")
    return population_figure(record, metrics)


def _position(record: PopulationRecord) -> str:
    """Return the column that counts a population's way from one meeting to the next."""
    config = TrainConfig.from_dict(record.configs[0])
    return "env_steps" if config.total_episodes is None else "episodes"


def population_figure(record: PopulationRecord, metrics: Sequence[Metrics]) -> Figure:
    """Draw the returns and the settings of a population's members.

    metrics: the rows of each member.
    """
    assert record.exchange is not None
    names = sorted(record.exchange["ranges"])
    position = _position(record)
    figure = Figure(figsize=(11, 3.4 + 1.8 * len(names)), layout="constrained")
    axes = figure.subplots(
        1 + len(names), 1, sharex=True, squeeze=False, height_ratios=[2, *[1] * len(names)]
    )[:, 0]
    colours = [colormaps["turbo"](x) for x in np.linspace(0.05, 0.95, len(metrics))]
    smooth = [running_mean(rows) for rows in metrics]
    for number, rows in enumerate(metrics):
        x = [row[position] for row in rows]
        axes[0].plot(x, smooth[number], color=colours[number], label=f"policy {number}")
    axes[0].set(ylabel="episode return")
    scale_returns(axes[0])
    end = max((rows[-1][position] for rows in metrics if rows), default=0)
    for name, panel in zip(names, axes[1:], strict=True):
        _draw_setting(panel, record, name, end, colours)
    _draw_copies(axes[0], record, metrics, smooth)
    axes[-1].set(xlabel=f"{position.replace('_', ' ')} of each policy")
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside right upper", frameon=False)
    figure.suptitle("Grey: a policy takes over all that another has learned, and its settings")
    return figure


def settings_over_time(record: PopulationRecord) -> list[list[Values]]:
    """Return each member's settings at the beginning and after each meeting."""
    assert record.exchange is not None
    names = sorted(record.exchange["ranges"])
    return [
        [
            {name: float(config["settings"][name]) for name in names},
            *(meeting.settings[number] for meeting in record.meetings),
        ]
        for number, config in enumerate(record.configs)
    ]


def _draw_setting(
    axes: Axes, record: PopulationRecord, name: str, end: float, colours: Sequence[Any]
) -> None:
    """Draw a setting of every member over time.

    A share is drawn as its distance from 1, because that distance is what a meeting perturbs.
    """
    at = [0, *(meeting.at for meeting in record.meetings), end]
    values = np.array(
        [[settings[name] for settings in member] for member in settings_over_time(record)]
    )
    if name in SHARES:
        values = 1 - values
    for of_member, colour in zip(values, colours, strict=True):
        axes.step(at, [*of_member, of_member[-1]], where="post", color=colour)
    for number, meeting in enumerate(record.meetings):
        for copy in meeting.copies:
            ends = [values[copy.source, number], values[copy.of, number + 1]]
            axes.plot([meeting.at] * 2, ends, color="0.45", linewidth=1, zorder=0)
    if (values > 0).all():
        axes.set_yscale("log")
        axes.yaxis.set_minor_formatter(NullFormatter())
    axes.set(ylabel=f"1 - {name}" if name in SHARES else name.replace("_", " "))
    axes.grid(alpha=0.3)


def _draw_copies(
    axes: Axes,
    record: PopulationRecord,
    metrics: Sequence[Metrics],
    smooth: Sequence[Sequence[float]],
) -> None:
    """Draw a grey line from the return of each copied member to that of its copy."""
    places = [[row[_position(record)] for row in rows] for rows in metrics]

    def return_at(member: int, at: float) -> float:
        before = int(np.searchsorted(places[member], at, side="right")) - 1
        return float(smooth[member][max(0, before)])

    for meeting in record.meetings:
        for copy in meeting.copies:
            ends = [return_at(copy.source, meeting.at), return_at(copy.of, meeting.at)]
            axes.plot([meeting.at] * 2, ends, color="0.45", linewidth=1, zorder=0)
            axes.plot(meeting.at, ends[1], marker="v", color="0.3", markersize=4)
