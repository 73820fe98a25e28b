"""The picture of a duel: the payoff table, whom each generation met, and what is left to gain."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from workflow_rl.reporting.drawing import as_drawn, save_png
from workflow_rl.runs.duel_dir import DuelRecord, read_duel


def draw_duel(path: Path) -> Path:
    """Write the picture of a duel's folder into it, and return the picture's path.

    Raises RunDirError, OSError.
    """
    file = path / "duel.png"
    save_png(duel_figure(read_duel(path)), file)
    return file


def duel_figure(record: DuelRecord) -> Figure:
    """Draw a duel's payoff table, the mixtures by generation, and their exploitability."""
    payoffs, (first, second) = np.array(record.payoffs), record.agents
    figure = Figure(figsize=(11, 8), layout="constrained")
    table, curve, *lineage = figure.subplots(2, 2).ravel()
    largest = float(np.abs(payoffs).max()) or 1.0
    image = table.imshow(payoffs, cmap="RdBu", vmin=-largest, vmax=largest, aspect="auto")
    figure.colorbar(image, ax=table, label=as_drawn(f"{first} gets"))
    table.set(xlabel=as_drawn(f"agents of {second}"), ylabel=as_drawn(f"agents of {first}"))
    table.set_title("Payoffs")
    curve.plot(gains_in_table(record), marker="o")
    curve.set(xlabel="generation", ylabel="best answer's gain", ylim=(0, None))
    curve.set_title("Exploitability of the mixtures, by agents of the table")
    curve.grid(alpha=0.3)
    for axes, side in zip(lineage, record.agents, strict=True):
        _draw_mixtures(axes, record, side)
    return figure


def gains_in_table(record: DuelRecord) -> list[float]:
    """Return what the best answer in the whole table gains against each generation's mixtures, on
    average over both sides. The same episodes chose the
    mixtures: noise is included, and the end is 0."""
    payoffs = np.array(record.payoffs)
    gains = []
    for shares in record.mixtures:
        rows, columns = (np.array(of) for of in shares.values())
        best = (payoffs[:, : len(columns)] @ columns).max()
        gains.append(float(best - (rows @ payoffs[: len(rows)]).min()) / 2)
    return gains


def _draw_mixtures(axes: Axes, record: DuelRecord, side: str) -> None:
    shares = np.zeros((len(record.agents[side]), len(record.mixtures)))
    for generation, mixture in enumerate(record.mixtures):
        shares[: len(mixture[side]), generation] = mixture[side]
    axes.imshow(shares, cmap="Greens", vmin=0, vmax=1, aspect="auto")
    axes.set(xlabel="generation", ylabel=as_drawn(f"agents of {side}"))
    axes.set_title(as_drawn(f"Mixtures of {side}"))
