"""The picture of a duel: the payoff table, whom each generation met, and what is left to gain."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from workflow_rl.reporting.drawing import as_drawn, save_png
from workflow_rl.runs.duel_dir import DuelRecord, Measured, read_duel, read_measured


def draw_duel(path: Path) -> Path:
    """Write the picture of a duel's folder into it, and return the picture's path.

    Raises RunDirError, OSError.
    """
    file = path / "duel.png"
    save_png(figure_of_duel(path), file)
    return file


def figure_of_duel(path: Path) -> Figure:
    """Draw the duel of a folder, and what has been measured of its agents: see `read_measured`.

    Raises RunDirError.
    """
    record = read_duel(path)
    return duel_figure(record, read_measured(path, record))


def duel_figure(record: DuelRecord, measured: tuple[Measured, Measured] = ({}, {})) -> Figure:
    """Draw a duel's payoff table, the mixtures by generation, their exploitability, and the
    lineage. measured: scores, and what attackers get."""
    payoffs, (first, second) = np.array(record.payoffs), record.agents
    mixtures = [f"mixtures of {side}" for side in record.agents]
    rows = [["table", "gains"], mixtures, ["lineage", "lineage"]]
    is_measured = any(found for of_sides in measured for found in of_sides.values())
    rows += [["scores", "attacks"]] if is_measured else []
    figure = Figure(figsize=(11, 4 * len(rows)), layout="constrained")
    axes: dict[str, Axes] = figure.subplot_mosaic(rows)
    largest = float(np.abs(payoffs).max()) or 1.0
    image = axes["table"].imshow(payoffs, cmap="RdBu", vmin=-largest, vmax=largest, aspect="auto")
    figure.colorbar(image, ax=axes["table"], label=as_drawn(f"{first} gets"))
    axes["table"].set(xlabel=as_drawn(f"agents of {second}"), ylabel=as_drawn(f"agents of {first}"))
    axes["table"].set_title("Payoffs")
    axes["gains"].plot(gains_in_table(record), marker="o")
    axes["gains"].set(xlabel="generation", ylabel="best answer's gain", ylim=(0, None))
    axes["gains"].set_title("Exploitability of the mixtures, by agents of the table")
    axes["gains"].grid(alpha=0.3)
    for name, side in zip(mixtures, record.agents, strict=True):
        _draw_mixtures(axes[name], record, side)
    _draw_lineage(axes["lineage"], record)
    if is_measured:
        _draw_measured(axes["scores"], "Score of the agent alone (evaluate)", measured[0])
        _draw_measured(axes["attacks"], "Its worst new attacker gets (exploit)", measured[1])
    for name in axes.keys() & {"gains", "lineage", "scores", "attacks"}:
        axes[name].xaxis.set_major_locator(MaxNLocator(integer=True))
    return figure


def gains_in_table(record: DuelRecord) -> list[float]:
    """Return what the best answer in the whole table gains against each generation's mixtures, on
    average over both sides. The same episodes chose the mixtures: noise is included, and the end is
    0."""
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


def _draw_lineage(axes: Axes, record: DuelRecord) -> None:
    """Draw each agent at its generation, and a line to each agent that it was trained against."""
    (first, rows), (second, columns) = record.agents.items()
    places = {}
    n_starts = {
        side: len(agents) - len(record.opponents) * record.responses[side]
        for side, agents in record.agents.items()
    }
    for side, agents, height in ((first, rows, 1.0), (second, columns, 0.0)):
        n_start, n_trained = n_starts[side], record.responses[side]
        for number, agent in enumerate(agents):
            generation = max(0, (number - n_start) // n_trained + 1)
            # Several agents at the start or of a generation stand one above the other.
            beside = (number - n_start) % n_trained if generation else n_start - 1 - number
            aside = 0.12 * beside * (1 if height else -1)
            places[side, number] = generation, height + aside
            name = as_drawn(str(number) if generation else f"{number}: {Path(agent).stem}")
            axes.annotate(
                name, places[side, number], (0, 8 if height else -8), ha="center",
                textcoords="offset points", va="bottom" if height else "top", fontsize=8,
            )  # fmt: skip
    for met, (side, other) in itertools.product(
        range(len(record.opponents)), ((first, second), (second, first))
    ):
        shares = record.opponents[met][other]
        n_trained = record.responses[side]
        start = n_starts[side] + met * n_trained
        learners = [places[side, start + n] for n in range(n_trained)]
        for learner, (number, share) in itertools.product(learners, enumerate(shares)):
            if share:
                axes.plot(
                    *zip(learner, places[other, number], strict=True), alpha=min(share, 1),
                    color="C0" if side == first else "C3", linewidth=4 * share, zorder=0,
                )  # fmt: skip
    x, y = zip(*places.values(), strict=True)
    axes.plot(x, y, "o", color="0.2", markersize=4)
    axes.set(xlabel="generation", yticks=[0, 1], yticklabels=[as_drawn(second), as_drawn(first)])
    axes.set(ylim=(-0.5, 1.5))
    axes.set_title("Whom each agent was trained against: the thicker, the more often")


def _draw_measured(axes: Axes, title: str, measured: Measured) -> None:
    for side, found in measured.items():
        if found:
            means, intervals = zip(*found.values(), strict=True)
            axes.errorbar([*found], means, intervals, marker="o", label=as_drawn(side))
            axes.legend()
    axes.set(title=title, xlabel="generation")
    axes.grid(alpha=0.3)
