"""The command `report`: one or more runs on one HTML page, with all that their folders tell."""

from __future__ import annotations

import itertools
import json
import logging
import math
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

import click
import numpy as np

from agents.policies.archive import MOST_BYTES
from workflow_rl.collection.trace import COLLECTOR, LEARNER, Activity
from workflow_rl.commands.options import PATH
from workflow_rl.environments.environment import guests
from workflow_rl.output_files import NOT_OURS, read_text, require_writable, sha256_of, write_text
from workflow_rl.reporting.pages import escaped, filled, folded, number, source, table, uncollected
from workflow_rl.reporting.timeline import COLOURS, RunTrace, TraceError, read_trace, shares_of

_log = logging.getLogger(__name__)

PAGES = "workflow_rl.reporting.pages"
RETURN_WINDOW = 100
"""Episodes whose mean return is drawn."""
SEED = "seed"
# What is the same run all the same: it says how it is played, not what.
_LIKE_SEEDS = (SEED, "n_workers", "envs_per_worker", "checkpoint_every", "keep_every")


class Run(NamedTuple):
    """A run's folder as it was read. config: flat, by "ppo.discount" and the like. summary,
    evaluation: None if there is none."""

    path: Path
    name: str
    config: Mapping[str, Any]
    metrics: Sequence[Mapping[str, float]]
    summary: Mapping[str, Any] | None
    evaluation: Mapping[str, Any] | None

    @property
    def last(self) -> Mapping[str, float]:
        """The last update's row of metrics."""
        return self.metrics[-1]

    @property
    def is_finished(self) -> bool:
        """Whether it came to its end; earlier versions wrote a summary then alone."""
        return self.summary is not None and bool(self.summary.get("finished", True))

    def total(self, column: str) -> float:
        """Summed over all updates; NaN if an earlier version did not write it."""
        return float(sum(row.get(column, math.nan) for row in self.metrics))


class Section(NamedTuple):
    """A part of the page, as HTML."""

    title: str
    body: str


def read_run(path: Path) -> Run:
    """Raises RunDirError."""
    from workflow_rl.runs.folder import (
        RunDirError,
        read_config,
        read_metrics,
        read_summary,
    )

    config = _flat(read_config(path).to_dict())
    metrics = read_metrics(path)
    if not metrics:
        raise RunDirError(f"{path} has nothing to report yet: no update has ended")
    summary = read_summary(path) if (path / "summary.json").exists() else None
    return Run(path, path.absolute().name, config, metrics, summary, _evaluation(path))


def _evaluation(path: Path) -> Mapping[str, Any] | None:
    """What `evaluate` left in the folder, if it is of the agent that is there now."""
    from workflow_rl.runs.checkpoint import checkpoint_path
    from workflow_rl.runs.evaluation import AGENT_DIGEST
    from workflow_rl.runs.folder import RunDirError, require_numbers

    file = path / "evaluation.json"
    if not file.exists():
        return None
    try:
        evaluation = json.loads(read_text(file, 2**28))
        cells = evaluation.get("cells")
        for sample in [evaluation] if cells is None else cells:
            _require_sample(sample)
        for cell in cells or ():
            require_numbers(cell["max_steps"])
            if not isinstance(cell["red_agent"], str):
                raise ValueError("a cell is of no red agent")
        if evaluation.get("official_protocol"):
            _require_mean(evaluation["total"], evaluation["total_interval_95"])
        scored, agent = evaluation.get(AGENT_DIGEST), checkpoint_path(path)
        if scored is None or scored != sha256_of(agent, MOST_BYTES):
            _log.warning("%s does not say that it is of %s: it is left out", file, agent)
            return None
        return dict(evaluation)
    except KeyError as error:
        raise RunDirError(f"{file} cannot be read: it has no {error}") from None
    except NOT_OURS as error:
        raise RunDirError(f"{file} cannot be read: {error}") from None


def _require_sample(sample: Mapping[str, Any]) -> None:
    """Raises KeyError, TypeError, ValueError if it is not what evaluate writes."""
    from workflow_rl.runs.folder import require_numbers

    _require_mean(sample["mean"], sample["interval_95"])
    require_numbers(*sample["returns"])
    if not sample["returns"]:
        raise ValueError("it is of no episodes")


def _require_mean(mean: Any, interval: Any) -> None:
    """Of a single episode there is no interval."""
    from workflow_rl.runs.folder import require_numbers

    require_numbers(mean, *(() if interval is None else (interval,)))


def _flat(config: Mapping[str, Any]) -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for name, value in config.items():
        if isinstance(value, Mapping):
            flat |= {f"{name}.{inner}": one for inner, one in _flat(value).items()}
        else:
            flat[name] = value
    return flat


# --- Sections ------------------------------------------------------------------------------------


def overview(runs: Sequence[Run]) -> Section:
    """What each run was and came to, and what went wrong."""
    rows = []
    for run in runs:
        last = run.metrics[-1]
        best = (run.summary or {}).get("best_score")
        returns = _recent_return(run)
        rows.append(
            [
                escaped(run.name),
                escaped(run.config["env"]),
                escaped(run.config["mode"]),
                number(run.config[SEED], 0),
                number(last["update"], 0),
                number(last["episodes"], 0),
                number(last.get("env_steps", math.nan), 0),
                number(last["wall_seconds"]),
                number(returns),
                number(best),
                "finished" if run.is_finished else f"not finished{_why(run)}",
            ]
        )
    heading = ["Run", "Environment", "Mode", "Seed", "Updates", "Episodes", "Steps", "Seconds"]
    heading += [f"Return of the last {RETURN_WINDOW}", "Best score", "State"]
    return Section("Runs", table(heading, rows, "Runs"))


def _why(run: Run) -> str:
    reason = (run.summary or {}).get("reason")
    return "" if reason is None else escaped(f" ({reason})")


def _recent_return(run: Run) -> float:
    from workflow_rl.runs.learning_curve import running_mean

    return running_mean(run.metrics, RETURN_WINDOW)[-1]


def groups_of(runs: Sequence[Run]) -> dict[str, list[Run]]:
    """Runs that differ in their seed alone, by a name."""
    groups: dict[str, list[Run]] = {}
    for run in runs:
        key = json.dumps({k: v for k, v in run.config.items() if k not in _LIKE_SEEDS}, default=str)
        groups.setdefault(key, []).append(run)
    named: dict[str, list[Run]] = {}
    for group in groups.values():
        name = group[0].name
        if len(group) > 1:
            name = f"{_common_start([run.name for run in group]) or name} ({len(group)} seeds)"
        while name in named:
            name += "'"
        named[name] = group
    return named


def _common_start(names: Sequence[str]) -> str:
    """Without what is left of the seeds, as in runs/seed-1."""
    letters = itertools.takewhile(lambda at: len(set(at)) == 1, zip(*names, strict=False))
    start = "".join(at[0] for at in letters).rstrip("0123456789").rstrip("-_ ")
    return start.removesuffix("seed").rstrip("-_ ")


def curves(runs: Sequence[Run]) -> Section:
    """Returns against episodes, steps and wall time; a band over seeds, and if there is nothing
    else to compare, a line for each kind of episode. Beside other agents' returns, where known."""
    from workflow_rl.reporting.compare_modes_report import on_one_axis
    from workflow_rl.reporting.report_charts import Curve, chart, curves_figure, keys

    groups = groups_of(runs)
    known = _known_returns(runs)
    lines = [(name, group, "return_mean") for name, group in groups.items()]
    if len(groups) == 1:
        columns = _return_columns(runs)
        if columns:
            lines = [("all", list(runs), "return_mean")]
        lines += [(name, list(runs), column) for name, column in columns.items()]
    charts = []
    for column, title in (
        ("episodes", "episodes"),
        ("env_steps", "env steps"),
        ("wall_seconds", "seconds"),
    ):
        drawn = []
        for name, group, returns in lines:
            is_told = all(column in row for run in group for row in run.metrics)
            metrics = [run.metrics for run in group]
            drawn.append(Curve(name, *on_one_axis(metrics, column, returns)) if is_told else None)
        caption = f"Return against {title}"
        figure = curves_figure(drawn, title, known)
        charts.append(chart(figure, caption, f"{caption}; a table follows"))
    band = any(len(group) > 1 for group in groups.values())
    text = f"Mean return of the last {RETURN_WINDOW} episodes" + (
        ": median of the seeds, and a band from the worst to the best." if band else "."
    )
    evaluated = any(_finite(row.get("eval_return_mean")) for run in runs for row in run.metrics)
    heading = ["Run", *(f"after {share}% of its updates" for share in (10, 25, 50, 75, 100))]
    text += " The dotted lines are what other agents are known to get." if known else ""
    body = f'<p class="muted">{text}</p>' + keys([name for name, _, _ in lines])
    body += f'<div class="charts">{"".join(charts)}</div>'
    body += folded("As a table", table(heading, _milestones(runs), "Returns"))
    if evaluated:
        rows = [
            [escaped(run.name), number(row["update"], 0), number(row["eval_return_mean"], 2)]
            for run in runs
            for row in run.metrics
            if _finite(row.get("eval_return_mean"))
        ]
        body += folded(
            "Evaluations in the run (--eval-every)",
            table(("Run", "Update", "Mean return"), rows, "Evaluations", "tall"),
        )
    return Section("Learning curves", body)


def _known_returns(runs: Sequence[Run]) -> Mapping[str, float]:
    """Other agents' mean returns, if they are the same for all runs."""
    from workflow_rl.runs.folder import read_config
    from workflow_rl.runs.learning_curve import known_returns

    first, *others = (known_returns(read_config(run.path)) for run in runs)
    return first if all(other == first for other in others) else {}


def _return_columns(runs: Sequence[Run]) -> Mapping[str, str]:
    """Of the returns of each kind of episode, by its name, where all runs have them."""
    from workflow_rl.runs.folder import read_config, return_columns

    columns = return_columns(read_config(runs[0].path))
    rows = [row for run in runs for row in run.metrics]
    return {name: column for name, column in columns.items() if all(column in row for row in rows)}


def _finite(value: float | None) -> bool:
    return value is not None and math.isfinite(value)


def _milestones(runs: Sequence[Run]) -> Iterable[list[str]]:
    from workflow_rl.runs.learning_curve import running_mean

    for run in runs:
        means = running_mean(run.metrics, RETURN_WINDOW)
        at = [math.ceil(share * len(means)) - 1 for share in (0.1, 0.25, 0.5, 0.75, 1)]
        yield [escaped(run.name), *(number(means[i]) for i in at)]


def settings(runs: Sequence[Run]) -> Section:
    """Those that differ, and all of the first run."""
    names = dict.fromkeys(name for run in runs for name in run.config)
    differing = [n for n in names if len({repr(run.config.get(n)) for run in runs}) > 1]
    body = ""
    if len(runs) > 1:
        rows = [
            [escaped(name), *(f"<code>{escaped(run.config.get(name))}</code>" for run in runs)]
            for name in differing
        ]
        heading = ["Setting", *(escaped(run.name) for run in runs)]
        body = table(heading, rows, "Settings that differ") if rows else "<p>None differs.</p>"
    same = [
        [escaped(name), f"<code>{escaped(runs[0].config.get(name))}</code>"]
        for name in names
        if name not in differing
    ]
    which = "All settings" if len(runs) == 1 else "Settings that are the same"
    body += folded(which, table(("Setting", "Value"), same, which, "tall"))
    return Section("Settings that differ" if len(runs) > 1 else "Settings", body)


def scores(runs: Sequence[Run]) -> Section:
    """What `evaluate` left in the folders, where it is a sample of returns."""
    from workflow_rl.reporting.report_charts import chart, means_figure

    rows, names, means, intervals = [], list[str](), list[float](), list[float]()
    for run in runs:
        evaluation = run.evaluation
        if evaluation is None or "mean" not in evaluation:
            rows.append(
                [escaped(run.name), "not scored yet: <code>python -m workflow_rl evaluate</code>"]
            )
            continue
        interval = evaluation["interval_95"]
        interval = math.nan if interval is None else interval
        names.append(run.name)
        means.append(evaluation["mean"])
        intervals.append(interval)
        rows.append(
            [
                escaped(run.name),
                number(evaluation["mean"], 2),
                f"± {number(interval, 2)}",
                number(min(evaluation["returns"]), 2),
                number(max(evaluation["returns"]), 2),
                number(len(evaluation["returns"]), 0),
                escaped(evaluation.get("actions", "")),
            ]
        )
    heading = ("Run", "Mean return", "95%", "Lowest", "Highest", "Episodes", "Actions")
    body = table(heading, rows, "Scores")
    if len(names) > 1:
        figure = means_figure(names, means, intervals, "mean return, 95% interval")
        body = chart(figure, "Scores", "Scores of the runs; a table follows") + body
    return Section("Scores", body)


def time_spent(runs: Sequence[Run], traces: Sequence[RunTrace]) -> Section:
    """Of the learner, of the workers, and of each worker where there is a trace."""
    from workflow_rl.reporting import report_charts as charts_of

    rows, parts = [], {"learning": list[float](), "waiting for episodes": [], "the rest": []}
    busy = []
    for run in runs:
        wall = run.last["wall_seconds"]
        learning, waiting = run.total("update_seconds"), run.total("learner_idle_seconds")
        rest = max(0.0, wall - learning - waiting)
        for name, seconds in zip(parts, (learning, waiting, rest), strict=True):
            parts[name].append(seconds / max(wall, 1e-9))
        busy.append(run.last.get("worker_utilisation_run", math.nan))
        collecting = run.total("collect_seconds")
        rows.append(
            [
                escaped(run.name),
                *(number(one) for one in (wall, learning, waiting, rest, collecting)),
                number(run.config["n_workers"], 0),
                f"{number(100 * busy[-1])}%",
            ]
        )
    names = [run.name for run in runs]
    utilisation = {"busy": busy, "idle": [1 - one for one in busy]}
    charts = ""
    for whose, shares, colours in (
        ("The learner's time", parts, (charts_of.COLOURS[0], charts_of.GREY, charts_of.COLOURS[2])),
        ("The workers' time", utilisation, (charts_of.COLOURS[0], charts_of.GREY)),
    ):
        figure = charts_of.shares_figure(names, shares, colours=colours)
        drawn = charts_of.chart(figure, whose, f"{whose}; a table follows")
        charts += f"<div>{charts_of.keys(list(shares), colours)}{drawn}</div>"
    heading = ("Run", "Seconds", "Learning", "Waiting", "The rest", "Collecting", "Workers", "Busy")
    body = (
        '<p class="muted">The rest is starting, saving and evaluating. Episodes are collected '
        "while the learner waits, and, where it overlaps, while it learns. Busy: stepping, acting "
        "or resetting.</p>"
        f'<div class="charts">{charts}</div>'
    )
    body += table(heading, rows, "Seconds")
    for trace in traces:
        body += _of_each_worker(trace)
    if not traces:
        body += (
            '<p class="muted">What each worker did is known of runs with --trace: see --help.</p>'
        )
    return Section("How time was spent", body)


def _of_each_worker(trace: RunTrace) -> str:
    from workflow_rl.reporting.report_charts import chart, keys, shares_figure

    names = [name for name in trace.rows if name != COLLECTOR]
    shares = [shares_of(trace.rows[name], np.array([0.0, trace.end]))[:, 0] for name in names]
    parts = {
        activity.name.lower(): [float(one[activity]) for one in shares]
        for activity in Activity
        if any(one[activity] >= 0.0005 for one in shares)
    }
    rows = [
        [escaped(name), *(f"{number(100 * part[i])}%" for part in parts.values())]
        for i, name in enumerate(names)
    ]
    caption = f"Each worker: {trace.title}"
    colours = [COLOURS[Activity[name.upper()]] for name in parts]
    figure = shares_figure(names, parts, colours=colours)
    drawn = chart(figure, caption, f"{caption}; a table follows")
    return (
        keys(list(parts), colours)
        + drawn
        + folded("As a table", table(("Process", *parts), rows, caption))
        + f'<p class="muted">Of {trace.end:.1f} s. {LEARNER}: the process that learns.</p>'
    )


def faults(runs: Sequence[Run]) -> Section:
    """What went wrong."""
    from workflow_rl.runs.folder import DIVERGED_FILE

    rows = []
    for run in runs:
        at = [row["update"] for row in run.metrics if row.get("workers_restarted", 0) > 0]
        skipped = (run.summary or {}).get("skipped_episodes", [])
        n_skipped = len(skipped) if run.summary else int(run.total("skipped_episodes"))
        which = f" ({', '.join(map(str, skipped[:10]))})" if skipped else ""
        notes = []
        if not run.is_finished:
            notes.append(f"not finished{_why(run)}: {run.last['update']:g} updates")
        if (run.path / DIVERGED_FILE).exists():
            notes.append(f"a batch could not be learned from: {DIVERGED_FILE}")
        when = f" (updates {', '.join(f'{update:g}' for update in at[:10])})" if at else ""
        rows.append(
            [
                escaped(run.name),
                number(run.total("workers_restarted"), 0) + escaped(when),
                f"{n_skipped}{escaped(which)}",
                number(run.total("dropped_steps"), 0),
                escaped("; ".join(notes)) or "none",
            ]
        )
    heading = ("Run", "Workers replaced", "Episodes left out", "Steps dropped", "Otherwise")
    return Section("Faults", table(heading, rows, "Faults"))


def sections_of(runs: Sequence[Run], traces: Sequence[RunTrace], further: Path) -> list[Section]:
    """All of them, with those of the runs' guests. further: a folder for pages to link to."""
    by_guest: dict[str, list[Section]] = {}
    for env_id in dict.fromkeys(str(run.config["env"]) for run in runs):
        if env_id in guests:
            theirs = [run for run in runs if run.config["env"] == env_id]
            own = guests[env_id].report_sections(theirs, further)
            if own is not None:
                by_guest[env_id] = list(own)
    sections = [overview(runs), curves(runs)]
    if others := [run for run in runs if run.config["env"] not in by_guest]:
        sections.append(scores(others))
    for own in by_guest.values():
        sections += own
    return [*sections, time_spent(runs, traces), faults(runs), settings(runs)]


def report_page(runs: Sequence[Run], sections: Sequence[Section]) -> str:
    """All on one page."""
    from plotly.offline import get_plotlyjs

    links, bodies = "", ""
    for n, (title, body) in enumerate(sections):
        links += f'<li><a href="#section-{n}">{escaped(title)}</a></li>'
        bodies += (
            f'<section class="panel" aria-labelledby="section-{n}">'
            f'<h2 id="section-{n}">{escaped(title)}</h2>\n{body}</section>\n'
        )
    names = ", ".join(run.name for run in runs)
    return filled(
        PAGES,
        "report.html",
        title=escaped(runs[0].name if len(runs) == 1 else f"{len(runs)} runs"),
        about=escaped(names if len(runs) > 1 else str(runs[0].config["env"])),
        links=links,
        sections=bodies,
        plotly=get_plotlyjs(),
        script=source(PAGES, "report.js"),
    )


@click.command()
@click.argument("runs", nargs=-1, required=True, type=PATH)
@click.option(
    "--trace",
    "trace_paths",
    type=PATH,
    multiple=True,
    metavar="FILE",
    help="What --trace of a trainer wrote, to show what each worker did; may be given again.",
)
@click.option(
    "--output",
    type=PATH,
    default=Path("report.html"),
    show_default=True,
    metavar="FILE",
    help="The page to write. What it links to lies beside it, in a folder of the same name.",
)
def report(runs: tuple[Path, ...], trace_paths: tuple[Path, ...], output: Path) -> None:
    """Write one HTML page about one or more RUNS, the folders of training runs.

    Curves, scores, settings that differ, how time was spent, and faults; runs that differ in their
    seed alone become a band. On CAGE-2 also what the agent does against each red agent, and
    replays of its best, median and worst episodes.

    Example: report runs/mixed-0 runs/mixed-1 runs/mixed-2 --output mixed.html
    """
    from workflow_rl.runs.checkpoint import CheckpointError
    from workflow_rl.runs.folder import RunDirError, distinct_names
    from workflow_rl.runs.population_dir import run_folders

    logging.basicConfig(format="%(levelname)s: %(message)s")
    require_writable(output, "--output")
    further = output.with_name(f"{output.stem}_files")
    if further.exists() and not further.is_dir():
        raise click.BadParameter(f"{further} is no folder", param_hint="--output")
    try:
        with uncollected():
            folders = [folder for path in dict.fromkeys(runs) for folder in run_folders(path)]
            read = [
                read_run(folder)._replace(name=name)
                for folder, name in zip(folders, distinct_names(folders), strict=True)
            ]
            traces = [read_trace(path) for path in trace_paths]
            page = report_page(read, sections_of(read, traces, further))
    except (RunDirError, CheckpointError, TraceError) as error:
        raise click.UsageError(str(error)) from None
    write_text(output, page)
    click.echo(f"report: {output}")
    if f'href="{quote(os.fsencode(further.name))}/' in page:
        click.echo(f"with:   {further}")
