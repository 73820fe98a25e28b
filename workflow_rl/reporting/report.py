"""One or more runs on one HTML page, with all that their folders tell."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path

from workflow_rl.environments.source import guests
from workflow_rl.reporting import report_sections
from workflow_rl.reporting.pages import escaped, filled, image, number, source, table
from workflow_rl.reporting.policies_figure import duel_figure
from workflow_rl.reporting.report_run import Run, read_run
from workflow_rl.reporting.report_sections import Section
from workflow_rl.reporting.timeline import RunTrace
from workflow_rl.runs.duel_dir import is_duel, read_duel, read_measured
from workflow_rl.runs.folder import distinct_names, read_metrics, runs_in

PAGES = "workflow_rl.reporting.pages"
_log = logging.getLogger(__name__)


def read_runs(paths: Sequence[Path]) -> list[Run]:
    """Read run folders, and the members of populations, each under a name of its own. Raises
    UserError."""
    folders = runs_in(*dict.fromkeys(paths))
    names = distinct_names(folders)
    begun = [folder for folder in folders if read_metrics(folder)] or folders
    runs = []
    for folder, name in zip(folders, names, strict=True):
        if folder in begun:
            runs.append(read_run(folder)._replace(name=name))
        else:
            _log.warning("%s is left out: no update of it has ended yet", name)
    return runs


def sections_of(runs: Sequence[Run], traces: Sequence[RunTrace], further: Path) -> list[Section]:
    """Return all sections, with those of the runs' guests. further: a folder for linked pages."""
    by_guest: dict[str, list[Section]] = {}
    for env_id in dict.fromkeys(str(run.config["env"]) for run in runs):
        if env_id in guests:
            theirs = [run for run in runs if run.config["env"] == env_id]
            guests_sections = guests[env_id].report_sections(theirs, further)
            if guests_sections is not None:
                by_guest[env_id] = list(guests_sections)
    sections = [report_sections.overview(runs), report_sections.curves(runs)]
    sections += report_sections.learning(runs)
    if others := [run for run in runs if run.config["env"] not in by_guest]:
        sections.append(report_sections.scores(others))
    for guests_sections in by_guest.values():
        sections += guests_sections
    return [
        *sections,
        *report_sections.measures(runs),
        *report_sections.exploits(runs),
        report_sections.time_spent(runs, traces),
        report_sections.faults(runs),
        report_sections.settings(runs),
    ]


def page_of(paths: Sequence[Path], traces: Sequence[RunTrace], further: Path) -> str:
    """Return the page about runs and duels as HTML. further: a folder for linked pages. Raises
    UserError."""
    duels = [path for path in dict.fromkeys(paths) if is_duel(path)]
    runs = read_runs([path for path in paths if path not in duels])
    sections = [duel_section(path) for path in duels]
    sections += sections_of(runs, traces, further) if runs else []
    names = [*(path.absolute().name for path in duels), *(run.name for run in runs)]
    if len(names) > 1:
        return page(f"{len(names)} runs", ", ".join(names), sections)
    return page(names[0], str(runs[0].config["env"]) if runs else "a duel", sections)


def page(title: str, about: str, sections: Sequence[Section]) -> str:
    """Return a page of sections, which may have charts, as HTML."""
    from plotly.offline import get_plotlyjs

    links, bodies = "", ""
    for n, (heading, body) in enumerate(sections):
        links += f'<li><a href="#section-{n}">{escaped(heading)}</a></li>'
        bodies += (
            f'<section class="panel" aria-labelledby="section-{n}">'
            f'<h2 id="section-{n}">{escaped(heading)}</h2>\n{body}</section>\n'
        )
    return filled(
        PAGES,
        "report.html",
        title=escaped(title),
        about=escaped(about),
        links=links,
        sections=bodies,
        plotly=get_plotlyjs(),
        script=source(PAGES, "report.js"),
    )


def duel_section(path: Path) -> Section:
    """Return what a duel's folder tells. Raises UserError."""
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
