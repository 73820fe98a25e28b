"""Pictures of several policies.

Of one run: returns, settings, and who copied whom. Of a duel: the payoff table, whom each
generation met, and what is left to gain.
"""

import itertools
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator, NullFormatter

from workflow_rl.errors import UserError
from workflow_rl.reporting.learning_curve import (
    as_drawn,
    learning_curve_figure,
    save_png,
    scale_returns,
)
from workflow_rl.runs.config import TrainConfig
from workflow_rl.runs.folder import population_record, read_metrics
from workflow_rl.runs.return_curves import Metrics, running_mean
from workflow_rl.runs.several_policies import SHARES, PopulationRecord, Values
from workflow_rl.studies.duel_dir import DuelRecord, Measured, is_duel, read_duel, read_measured


def draw_folder(path: Path) -> Path:
    """Write the picture of several policies or of a duel into their folder. Return its path. Raises
    UserError, OSError."""
    figure = figure_of_folder(path)
    assert figure is not None
    save_png(figure, picture_in(path))
    return picture_in(path)


def picture_in(path: Path) -> Path:
    return path / ("duel.png" if is_duel(path) else "learning_curve.png")


def figure_of_folder(path: Path) -> Figure | None:
    """Draw the learning curves of a folder of several policies, and what they copied if they did.

    Of a duel's folder, draw the duel, and what has been measured of its agents: see
    `read_measured`. Return None for the folder of a run. Raises UserError.
    """
    if is_duel(path):
        duel = read_duel(path)
        return duel_figure(duel, read_measured(path, duel))
    record = population_record(path)
    if record is None:
        return None
    folders = record.folders(path)
    metrics = [read_metrics(folder) for folder in folders]
    if record.exchange is None:
        return learning_curve_figure({f"policy {n}": rows for n, rows in enumerate(metrics)})
    for folder, rows in zip(folders, metrics, strict=True):
        if record.meetings and not rows:
            file = folder / "metrics.csv"
            raise UserError(f"{file} is not of the population whose meetings are to be drawn")
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
    """Draw a setting of every member over time. A share is drawn as its distance from 1, because a
    meeting perturbs this distance."""
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


def duel_figure(record: DuelRecord, measured: tuple[Measured, Measured] = ({}, {})) -> Figure:
    """Draw a duel's payoff table, the mixtures by generation, their exploitability, and the
    lineage. measured: the agents' scores, and the means of their worst attackers."""
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
    """Return the gain of the best answer in the whole table against each generation's mixtures, as
    a mean over both sides. The table's episodes also chose the mixtures, so the gains include
    noise, and the last gain is 0."""
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
            # Several agents of one generation, or of the start, are drawn above each other.
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
