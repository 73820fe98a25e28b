"""The page of a report, and the sections that runs on any environment have."""

import math
import shlex
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np

from workflow_rl.collection.trace import COLLECTOR, LEARNER, Activity
from workflow_rl.environments.source import guests
from workflow_rl.evaluation.measures import BY_STEP, Readings, figure_of
from workflow_rl.reporting.learning_curve import lines_of
from workflow_rl.reporting.pages import PAGES, escaped, filled, folded, number, source, table
from workflow_rl.reporting.report_charts import (
    COLOURS,
    GREY,
    Curve,
    chart,
    curve_of,
    curves_figure,
    keys,
    means_figure,
    shares_figure,
)
from workflow_rl.reporting.report_run import SEED, Run
from workflow_rl.reporting.timeline import COLOURS as COLOURS_OF_ACTIVITIES
from workflow_rl.reporting.timeline import RunTrace, activity_shares
from workflow_rl.runs.folder import DIVERGED_FILE, population_of, read_config
from workflow_rl.runs.metrics import group_of
from workflow_rl.runs.return_curves import (
    AXES,
    Metrics,
    groups_of,
    known_to_all,
    on_one_axis,
    running_mean,
    window_of,
)
from workflow_rl.terminal import in_short


class Section(NamedTuple):
    """A part of the page, as HTML."""

    title: str
    body: str


def sections_of(
    runs: Sequence[Run],
    traces: Sequence[RunTrace],
    further: Path,
    of_studies: Sequence[Section] = (),
) -> list[Section]:
    """Return all sections, with those of the runs' guests.

    further: a folder for linked pages. of_studies: sections about studies of these runs.
    """
    by_guest: dict[str, list[Section]] = {}
    for env_id in dict.fromkeys(str(run.config["env"]) for run in runs):
        if env_id in guests:
            theirs = [run for run in runs if run.config["env"] == env_id]
            guests_sections = guests[env_id].report_sections(theirs, further)
            if guests_sections is not None:
                by_guest[env_id] = list(guests_sections)
    sections = [overview(runs), curves(runs)]
    sections += learning(runs)
    if others := [run for run in runs if run.config["env"] not in by_guest]:
        sections.append(scores(others))
    for guests_sections in by_guest.values():
        sections += guests_sections
    return [
        *sections,
        *measures(runs),
        *of_studies,
        time_spent(runs, traces),
        faults(runs),
        settings(runs),
    ]


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


def overview(runs: Sequence[Run]) -> Section:
    rows = [
        [
            escaped(run.name),
            escaped(run.config["env"]),
            escaped(run.config["mode"]),
            number(run.config[SEED], 0),
            number(run.last["update"], 0),
            number(run.last["episodes"], 0),
            number(run.last["env_steps"], 0),
            number(run.last["wall_seconds"]),
            f"{number(running_mean(run.metrics)[-1])} of the last {window_of(run.metrics)}",
            number((run.summary or {}).get("best_score")),
            escaped(run.state),
        ]
        for run in runs
    ]
    heading = ["Run", "Environment", "Mode", "Seed", "Updates", "Episodes", "Steps", "Seconds"]
    heading += ["Mean return", "Best score", "State"]
    return Section("Runs", table(heading, rows, "Runs"))


def curves(runs: Sequence[Run]) -> Section:
    """Return charts of returns against episodes, steps and wall time, and their tables.

    Runs that differ in their seed alone become a band. A single group has a line for each kind of
    episode, or for each agent of a team. Other agents' returns are lines to compare with.
    """
    groups = _by_seed(runs)
    known = known_to_all(read_config(run.path) for run in runs)
    lines = lines_of(groups)
    charts = [_curves_chart(lines, position, running_mean, known) for position in AXES]
    text = "Mean return of a run's last episodes, as many as the table above says"
    is_band = any(len(group) > 1 for group in groups.values())
    text += ": mean of the seeds, and its 95% confidence interval." if is_band else "."
    text += " The dotted lines are what other agents are known to get." if known else ""
    body = _charts(text, keys([name for name, _, _ in lines]), charts)
    return Section("Learning curves", body + _milestones(runs) + _evaluations(runs))


def learning(runs: Sequence[Run]) -> list[Section]:
    """Return a chart of each metric of the algorithm that changes, if there are any.

    Runs that differ in their seed alone become a band. A single group that is a team of several
    policies has a line for each of them.
    """
    groups = _by_seed(runs)
    columns = dict.fromkeys(name for run in runs for name in run.last)
    told = [name for name in columns if _is_told(name, runs)]
    # A metric of one policy of a team is called "metric_policy".
    metric_of = {column: name for column in told for name in told if column.startswith(f"{name}_")}
    policies: list[str] = []
    if len(groups) == 1:
        policies = [column.removeprefix(f"{name}_") for column, name in metric_of.items()]
    policies = list(dict.fromkeys(policies))
    names = ["all", *policies] if policies else [*groups]
    charts = []
    for column in told:
        if column in metric_of:
            continue
        lines = [(name, group, column) for name, group in zip(names, groups.values(), strict=False)]
        for policy in policies:
            lines.append((policy, lines[0][1], f"{column}_{policy}"))
        charts.append(_curves_chart(lines, "env_steps", _values))
    text = "What the algorithm told of each update: the columns of metrics.csv that changed."
    return [Section("Learning", _charts(text, keys(names), charts))] if charts else []


def _curves_chart(
    lines: Sequence[tuple[str, Sequence[Metrics], str]],
    position: str,
    values: Callable[..., Sequence[float]],
    known: Mapping[str, float] | None = None,
) -> str:
    """Return a chart of curves against the column `position`.

    lines: as of `lines_of`. values: of a run's metrics and a column. known: see `curves_figure`;
    None: the curves are not of returns.
    """
    drawn = [
        curve_of(name, *on_one_axis(runs, position, partial(values, column=column)))
        for name, runs, column in lines
    ]
    figure = curves_figure(drawn, AXES[position], known)
    if known is None:
        caption = lines[0][2].replace("_", " ")
        return chart(figure, caption, f"{caption} against {AXES[position]}")
    caption = f"Return against {AXES[position]}"
    return chart(figure, caption, f"{caption}; a table follows")


def _charts(text: str, legend: str, charts: Sequence[str]) -> str:
    return f'<p class="muted">{text}</p>{legend}<div class="charts">{"".join(charts)}</div>'


def _by_seed(runs: Sequence[Run]) -> dict[str, list[Metrics]]:
    """Return the metrics of groups of runs that differ in their seed alone, by a name for each."""
    numbers = groups_of([run.name for run in runs], [run.config for run in runs])
    return {name: [runs[n].metrics for n in group] for name, group in numbers.items()}


def _is_told(column: str, runs: Sequence[Run]) -> bool:
    """Return whether a column is a metric of the algorithm that changes in a run."""
    if column == "update" or group_of(column) != "learning":
        return False
    return any(len({*filter(math.isfinite, _values(run.metrics, column))}) > 1 for run in runs)


def _values(metrics: Metrics, column: str) -> list[float]:
    return [row.get(column, math.nan) for row in metrics]


def _milestones(runs: Sequence[Run]) -> str:
    shares = (10, 25, 50, 75, 100)
    rows = []
    for run in runs:
        means = running_mean(run.metrics)
        indices = [math.ceil(share / 100 * len(means)) - 1 for share in shares]
        rows.append([escaped(run.name), *(number(means[index]) for index in indices)])
    heading = ["Run", *(f"after {share}% of its updates" for share in shares)]
    return folded("As a table", table(heading, rows, "Returns"))


def _evaluations(runs: Sequence[Run]) -> str:
    rows = [
        [escaped(run.name), number(row["update"], 0), number(row["eval_return_mean"], 2)]
        for run in runs
        for row in run.metrics
        if math.isfinite(row.get("eval_return_mean", math.nan))
    ]
    if not rows:
        return ""
    return folded(
        "Evaluations in the run (--eval-every)",
        table(("Run", "Update", "Mean return"), rows, "Evaluations", "tall"),
    )


def settings(runs: Sequence[Run]) -> Section:
    """Return the settings in which the runs differ, and the settings that are equal in all."""
    names = dict.fromkeys(name for run in runs for name in run.config)
    differing = [n for n in names if len({repr(run.config.get(n)) for run in runs}) > 1]

    def told(run: Run, name: str) -> str:
        return f"<code>{escaped(in_short(run.config.get(name)))}</code>"

    body = ""
    if len(runs) > 1:
        rows = [[escaped(name), *(told(run, name) for run in runs)] for name in differing]
        heading = ["Setting", *(escaped(run.name) for run in runs)]
        body = table(heading, rows, "Settings that differ") if rows else "<p>None differs.</p>"
    same = [[escaped(name), told(runs[0], name)] for name in names if name not in differing]
    which = "All settings" if len(runs) == 1 else "Settings that are the same"
    body += folded(which, table(("Setting", "Value"), same, which, "tall"))
    return Section("Settings that differ" if len(runs) > 1 else "Settings", body)


def scores(runs: Sequence[Run]) -> Section:
    """Return the scores that `evaluate` wrote into the folders, if they are samples of returns."""
    rows, names, means, intervals = [], list[str](), list[float](), list[float]()
    for run in runs:
        name, evaluation = escaped(run.name), run.evaluation
        if evaluation is None or "mean" not in evaluation:
            command = f"python -m workflow_rl evaluate {escaped(shlex.quote(run.name))}"
            rows.append([name, f"not scored yet: <code>{command}</code>, where the folder lies"])
            continue
        mean, interval, returns = (evaluation[key] for key in ("mean", "interval_95", "returns"))
        names.append(run.name)
        means.append(mean)
        intervals.append(math.nan if interval is None else interval)
        rows.append(
            [
                name,
                number(mean, 2),
                f"± {number(interval, 2)}",
                number(min(returns), 2),
                number(max(returns), 2),
                number(len(returns), 0),
                escaped(evaluation.get("actions", "")),
            ]
        )
    heading = ("Run", "Mean return", "95%", "Lowest", "Highest", "Episodes", "Actions")
    body = table(heading, rows, "Scores")
    if len(names) > 1:
        figure = means_figure(names, means, intervals, "mean return, 95% interval")
        body = chart(figure, "Scores", "Scores of the runs; a table follows") + body
    return Section("Scores", body)


def measures(runs: Sequence[Run]) -> list[Section]:
    """Return a table of what `evaluate` measured besides the return, and a chart of each figure for
    which `evaluate` kept every step. The result is empty if nothing was measured."""
    measured = [(run, read) for run in runs if (read := run.measured)]
    rows = []
    for name in dict.fromkeys(name for _, read in measured for name in read):
        cells = (_figure_told(read[name]) if name in read else "" for _, read in measured)
        rows.append([escaped(name), *cells])
    heading = ["Mean, 95%", *(escaped(run.name) for run, _ in measured)]
    body = _charts_by_step([run for run, _ in measured]) + table(heading, rows, "Measures")
    return [Section("Measures", body)] if rows else []


def _figure_told(readings: Readings) -> str:
    figure = figure_of(readings)
    median = "" if math.isnan(figure.median) else f", median {number(figure.median, 0)}"
    return f"{figure.mean}{median}"


def _charts_by_step(runs: Sequence[Run]) -> str:
    """Return a chart of each figure and task: a line and a band for each run."""
    drawn: dict[str, list[Curve]] = {}
    for run in runs:
        assert run.evaluation is not None
        for task, figures in run.evaluation.get(BY_STEP, {}).items():
            for name, course in figures.items():
                mean, low, high = (np.array(course[key], float) for key in ("mean", "low", "high"))
                curve = Curve(run.name, np.arange(1.0, len(mean) + 1), mean, low, high, True)
                drawn.setdefault(f"{name.replace('_', ' ')}: {task}", []).append(curve)
    if not drawn:
        return ""
    text = "The mean of the episodes, and where 90% of them are."
    charts = [
        chart(curves_figure(of, "steps", None), title, f"{title}, step by step")
        for title, of in drawn.items()
    ]
    return _charts(text, keys([run.name for run in runs]), charts)


def _policies_beside(run: Run, runs: Sequence[Run]) -> list[Run]:
    """Return the other policies among the runs that shared this run's workers."""
    above = population_of(run.path)
    others = [other for other in runs if above is not None and other is not run]
    return [other for other in others if population_of(other.path) == above]


def time_spent(runs: Sequence[Run], traces: Sequence[RunTrace]) -> Section:
    """Return how the learner and the workers spent their time; for a trace, each of the workers."""
    rows, parts = [], {"learning": list[float](), "waiting for episodes": [], "the rest": []}
    busy, busy_for_others = [], []
    for run in runs:
        beside = _policies_beside(run, runs)
        wall = run.last["wall_seconds"]
        learning, waiting = run.total("update_seconds"), run.total("learner_idle_seconds")
        rest = max(0.0, wall - learning - waiting)
        for name, seconds in zip(parts, (learning, waiting, rest), strict=True):
            parts[name].append(seconds / max(wall, 1e-9))
        busy.append(run.last.get("worker_utilisation_run", math.nan))
        busy_for_others.append(
            sum(other.last.get("worker_utilisation_run", math.nan) for other in beside)
        )
        collecting = run.total("collect_seconds")
        rows.append(
            [
                escaped(run.name),
                *(number(seconds) for seconds in (wall, learning, waiting, rest, collecting)),
                number(run.config["n_workers"], 0),
                f"{number(100 * busy[-1])}%",
            ]
        )
    names = [run.name for run in runs]
    utilisation = {"busy": busy}
    if any(busy_for_others):
        utilisation["busy for the other policies"] = busy_for_others
    idle = [max(0.0, 1 - sum(shares)) for shares in zip(busy, busy_for_others, strict=True)]
    utilisation["idle"] = idle
    charts = ""
    for whose, shares, colours in (
        ("The learner's time", parts, (COLOURS[0], GREY, COLOURS[2])),
        ("The workers' time", utilisation, (*COLOURS[: len(utilisation) - 1], GREY)),
    ):
        figure = shares_figure(names, shares, colours=colours)
        drawn = chart(figure, whose, f"{whose}; a table follows")
        charts += f"<div>{keys(list(shares), colours)}{drawn}</div>"
    heading = ("Run", "Seconds", "Learning", "Waiting", "The rest", "Collecting", "Workers", "Busy")
    body = (
        '<p class="muted">The rest is starting, saving, evaluating, and what the learner does for '
        "other policies that are trained together with this one. Episodes are collected "
        "while the learner waits, and, where it overlaps, while it learns. Busy: stepping, acting "
        f'or resetting.</p><div class="charts">{charts}</div>'
    )
    body += table(heading, rows, "Seconds") + "".join(map(_of_each_worker, traces))
    if not traces:
        body += (
            '<p class="muted">What each worker did is known of runs with --trace: see --help.</p>'
        )
    return Section("How time was spent", body)


def _of_each_worker(trace: RunTrace) -> str:
    names = [name for name in trace.rows if name != COLLECTOR]
    shares = [activity_shares(trace.rows[name], np.array([0.0, trace.end]))[:, 0] for name in names]
    parts = {
        activity.name.lower(): [float(share[activity]) for share in shares]
        for activity in Activity
        if any(share[activity] >= 0.0005 for share in shares)
    }
    rows = [
        [escaped(name), *(f"{number(100 * part[i])}%" for part in parts.values())]
        for i, name in enumerate(names)
    ]
    caption = f"Each worker: {trace.title}"
    colours = [COLOURS_OF_ACTIVITIES[Activity[name.upper()]] for name in parts]
    figure = shares_figure(names, parts, colours=colours)
    return (
        keys(list(parts), colours)
        + chart(figure, caption, f"{caption}; a table follows")
        + folded("As a table", table(("Process", *parts), rows, caption))
        + f'<p class="muted">Of {trace.end:.1f} s. {LEARNER}: the process that learns.</p>'
    )


def faults(runs: Sequence[Run]) -> Section:
    rows = []
    for run in runs:
        updates = [row["update"] for row in run.metrics if row.get("workers_restarted", 0) > 0]
        listed = ", ".join(f"{update:g}" for update in updates[:10])
        when = f" (updates {listed})" if updates else ""
        skipped = (run.summary or {}).get("skipped_episodes", [])
        n_skipped = len(skipped) if run.summary else int(run.total("skipped_episodes"))
        which = f" ({', '.join(map(str, skipped[:10]))})" if skipped else ""
        notes = []
        if run.state != "finished":
            notes.append(f"{run.state}: {run.last['update']:g} updates")
        if (run.path / DIVERGED_FILE).exists():
            notes.append(f"a batch could not be learned from: {DIVERGED_FILE}")
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
