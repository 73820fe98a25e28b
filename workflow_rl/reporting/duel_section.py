"""The section of a report about a duel: its picture, and the tables behind it."""

from __future__ import annotations

from pathlib import Path

from workflow_rl.reporting.duel_figure import duel_figure
from workflow_rl.reporting.pages import escaped, image, number, table
from workflow_rl.reporting.report_sections import Section
from workflow_rl.runs.duel_dir import read_duel, read_measured


def duel_section(path: Path) -> Section:
    """Return what a duel's folder tells. Raises RunDirError."""
    record = read_duel(path)
    measured = read_measured(path, record)
    label = "Payoffs, mixtures and lineage; the same is in the tables below"
    body = image(duel_figure(record, measured), label)
    (first, rows), (second, columns) = record.agents.items()
    payoffs = [
        [
            escaped(agent),
            *(
                f"{number(mean, 2)} ± {number(interval, 2)}"
                for mean, interval in zip(means, intervals, strict=True)
            ),
        ]
        for agent, means, intervals in zip(rows, record.payoffs, record.intervals, strict=True)
    ]
    heading = [f"{escaped(first)} gets against", *map(escaped, columns)]
    body += table(heading, payoffs, f"Payoffs of {first}")
    lineage = []
    for generation, mixture in enumerate(record.mixtures):
        for side, other in ((first, second), (second, first)):
            met = record.opponents[generation - 1][other] if generation else []
            of_side = [found[side].get(generation) for found in measured]
            lineage.append(
                [
                    f"{generation}, {escaped(side)}",
                    _shares(record.agents[other], met) or "at the start",
                    _shares(record.agents[side], mixture[side]),
                    *("" if of is None else f"{number(of[0])} ± {number(of[1])}" for of in of_side),
                ]
            )
    names = ["Generation", "Trained against", "Mixture after it", "Score", "Worst attacker gets"]
    return Section(f"Duel {path.absolute().name}", body + table(names, lineage, "Lineage"))


def _shares(agents: list[str], shares: list[float]) -> str:
    return ", ".join(
        f"{escaped(agent)} {100 * share:.0f}%"
        for agent, share in zip(agents, shares, strict=False)
        if share
    )
