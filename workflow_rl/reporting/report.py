"""One or more runs on one HTML page, with all that their folders tell."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path

from workflow_rl.environments.guests import guests
from workflow_rl.reporting import report_sections
from workflow_rl.reporting.pages import escaped, filled, source
from workflow_rl.reporting.report_run import Run, read_run
from workflow_rl.reporting.report_sections import Section
from workflow_rl.reporting.timeline import RunTrace

PAGES = "workflow_rl.reporting.pages"
_log = logging.getLogger(__name__)


def read_runs(paths: Sequence[Path]) -> list[Run]:
    """Read run folders, and the members of populations, each under a name of its own.

    Raises RunDirError.
    """
    from workflow_rl.runs.folder import distinct_names, read_metrics
    from workflow_rl.runs.population_dir import run_folders

    folders = [folder for path in dict.fromkeys(paths) for folder in run_folders(path)]
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
    if others := [run for run in runs if run.config["env"] not in by_guest]:
        sections.append(report_sections.scores(others))
    for guests_sections in by_guest.values():
        sections += guests_sections
    return [
        *sections,
        *report_sections.exploits(runs),
        report_sections.time_spent(runs, traces),
        report_sections.faults(runs),
        report_sections.settings(runs),
    ]


def report_page(runs: Sequence[Run], sections: Sequence[Section]) -> str:
    """Return the page about runs as HTML."""
    names = ", ".join(run.name for run in runs)
    return page(
        runs[0].name if len(runs) == 1 else f"{len(runs)} runs",
        names if len(runs) > 1 else str(runs[0].config["env"]),
        sections,
    )


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
