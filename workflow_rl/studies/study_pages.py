"""The page about runs and studies, with what a duel and `exploit` have left in their folders."""

from collections.abc import Sequence
from pathlib import Path

from workflow_rl.reporting.pages import escaped, image, number, table
from workflow_rl.reporting.report_run import Run, read_runs
from workflow_rl.reporting.report_sections import Section, page, sections_of
from workflow_rl.reporting.timeline import RunTrace
from workflow_rl.studies.duel_dir import (
    EXPLOIT_FILE,
    is_duel,
    read_duel,
    read_exploit,
    read_measured,
)
from workflow_rl.studies.policies_figure import duel_figure


def page_of(paths: Sequence[Path], traces: Sequence[RunTrace], further: Path) -> str:
    """Return the page about runs and duels as HTML. further: a folder for linked pages. Raises
    UserError."""
    duels = [path for path in dict.fromkeys(paths) if is_duel(path)]
    runs = read_runs([path for path in paths if path not in duels])
    sections = [duel_section(path) for path in duels]
    sections += sections_of(runs, traces, further, exploits(runs)) if runs else []
    names = [*(path.absolute().name for path in duels), *(run.name for run in runs)]
    if len(names) > 1:
        return page(f"{len(names)} runs", ", ".join(names), sections)
    return page(names[0], str(runs[0].config["env"]) if runs else "a duel", sections)


def exploits(runs: Sequence[Run]) -> list[Section]:
    """Return the results of `exploit` in the runs' folders, or above them, if there are any."""
    folders = dict.fromkeys(f for run in runs for f in (run.path, run.path.absolute().parent))
    rows = []
    for found in (read_exploit(f) for f in folders if (f / EXPLOIT_FILE).is_file()):
        met = {str(score["run"]): score for score in found["attackers"]}
        worst = str(found["attackers"][found["worst"]]["run"])
        fixed = {f"{n} (minus the agent's return)": score for n, score in found["fixed"].items()}
        for name, score in {**met, **fixed}.items():
            whose = f"{name} (the worst, chosen on other episodes)" if name == worst else name
            interval = f"± {number(score['interval_95'], 2)}"
            scored = escaped(found["agent"]), escaped(found["side"]), escaped(whose)
            rows.append([*scored, number(score["mean"], 2), interval])
    heading = ("Agent", "Side", "Opponent", "Opponent's mean return", "95%")
    return [Section("Exploitability", table(heading, rows, "Exploitability"))] if rows else []


def duel_section(path: Path) -> Section:
    """Return the section about a duel. path: its folder. Raises UserError."""
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
