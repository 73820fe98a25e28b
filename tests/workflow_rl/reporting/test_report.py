"""The command `report` on any environment's runs: what it says, and that it says what it lacks."""

import base64
import csv
import hashlib
import json
import math
import os
import re
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import plotly.graph_objects as go
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.cli import output_of
from tests.html_pages import assert_valid
from workflow_rl.errors import UserError
from workflow_rl.reporting.learning_curve import learning_curve_figure
from workflow_rl.reporting.report_charts import LABELS_IN_HEIGHT
from workflow_rl.reporting.report_run import read_run
from workflow_rl.reporting.report_sections import sections_of
from workflow_rl.reporting.timeline import read_trace, timeline_figure
from workflow_rl.runs.config import TrainConfig
from workflow_rl.runs.folder import distinct_names
from workflow_rl.runs.metrics import METRICS
from workflow_rl.runs.return_curves import groups_of
from workflow_rl.runs.several_policies import PopulationRecord

UPDATES = 20


def make_run(
    path: Path, finished: bool = True, rows: dict[str, Any] | None = None, **config: Any
) -> Path:
    """The folder of a run of UPDATES updates of 10 episodes, whose return rises from -400.

    rows: further columns, of numbers or of functions of the number of the update.
    """
    more = rows or {}
    settings: dict[str, Any] = {"n_envs": 4, "env": "CartPole-v1", "total_steps": 1000, **config}
    path.mkdir(parents=True)
    (path / "config.json").write_text(json.dumps(TrainConfig("async", **settings).to_dict()))
    with (path / "metrics.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, dict.fromkeys((*METRICS, *more)), restval=0)
        writer.writeheader()
        for n in range(1, UPDATES + 1):
            row = {
                **{"update": n, "episodes": 10 * n, "env_steps": 100 * n, "wall_seconds": 2.0 * n},
                **{"update_seconds": 0.5, "learner_idle_seconds": 1.0, "collect_seconds": 1.25},
                **{"return_mean": -400 / n - settings.get("seed", 0), "eval_return_mean": math.nan},
                "worker_utilisation_run": 0.625,
                **{name: of(n) if callable(of) else of for name, of in more.items()},
            }
            writer.writerow(row)
    if finished:
        summary: dict[str, Any] = {"finished": True, "wall_seconds": 2.0 * UPDATES}
        summary |= {"best_score": -1.5, "skipped_episodes": [7]}
        (path / "summary.json").write_text(json.dumps(summary))
    return path


def page_of(tmp_path: Path, *arguments: str | Path) -> str:
    output_of("report", *arguments, "--output", tmp_path / "report.html")
    text = (tmp_path / "report.html").read_text()
    assert_valid(text)
    return text


def section(text: str, title: str) -> str:
    """Its text alone, with single spaces."""
    (body,) = re.findall(rf"<h2[^>]*>{title}</h2>(.*?)</section>", text, re.DOTALL)
    words = re.sub(r"<script.*?</script>|<[^>]+>", " ", body, flags=re.DOTALL)
    return " ".join(words.split())


def values(array: Any) -> Any:
    if isinstance(array, tuple):  # Before Plotly 6.
        return np.array(array)
    return np.frombuffer(base64.b64decode(array["bdata"]), array["dtype"])


def figures(text: str) -> list[go.Figure]:
    found = re.findall(r'<script type="application/json">(.*?)</script>', text)
    return [go.Figure(json.loads(one)) for one in found]


def test_a_run_is_told_whole(tmp_path):
    text = page_of(tmp_path, make_run(tmp_path / "run"))
    runs = section(text, "Runs")
    assert "run CartPole-v1 async 0 20 200 2,000 40.0" in runs
    recent = sum(-400 / n for n in range(19, 21)) / 2
    assert f"−{-recent:.1f} of the last 20 −1.5 finished" in runs  # noqa: RUF001
    assert "run 40.0 10.0 20.0 10.0 25.0" in section(text, "How time was spent")
    assert "62.5%" in section(text, "How time was spent")
    assert "run 0 1 (7) 0 none" in section(text, "Faults")
    assert "discount" in section(text, "Settings")
    assert "not scored yet" in section(text, "Scores")
    curves = figures(text)[:3]
    for figure, last in zip(curves, (200, 2000, 40), strict=True):
        (line,) = figure.data
        assert values(line.x)[-1] == last
        assert values(line.customdata)[-1] == pytest.approx(recent)
        # On an axis in proportion down to -10, and by the logarithm beyond.
        assert values(line.y)[-1] == pytest.approx(-1 - math.log10(-recent / 10))
        axis = figure.layout.yaxis
        assert " ".join(axis.ticktext) == "−500 −200 −100 −50 −20 −10 −5 0"  # noqa: RUF001
        assert values(axis.tickvals)[[0, 6]] == pytest.approx([-1 - math.log10(50), -0.5])
    milestones = [sum(-200 / n for n in (last - 1, last)) for last in (2, 5, 10, 15, 20)]
    told = " ".join(f"−{-mean:.1f}" for mean in milestones)  # noqa: RUF001
    assert f"run {told}" in section(text, "Learning curves")
    learner, workers = figures(text)[3:5]
    assert [list(bar.x) for bar in learner.data] == [[25.0], [50.0], [25.0]]
    assert [list(bar.x) for bar in workers.data] == [[62.5], [37.5]]
    assert not (tmp_path / "report_files").exists()
    assert str(tmp_path) not in text
    assert "Learning</h2>" not in text, "nothing of learning changes"


TOLD = {
    **{"policy_loss": -0.1, "value_loss": 2.0, "entropy": 0.7, "approx_kl": 0.01},
    **{"clip_fraction": 0.2, "explained_variance": 0.5},
}


def told_by(path: Path, columns: dict[str, float], **config: Any) -> Path:
    """A run whose columns change: each is its number times the number of the update."""
    rows = {name: lambda n, factor=factor: n * factor for name, factor in columns.items()}
    return make_run(path, rows=rows, **config)


def captions(text: str, title: str) -> list[str]:
    (body,) = re.findall(rf"<h2[^>]*>{title}</h2>(.*?)</section>", text, re.DOTALL)
    return re.findall("<figcaption>(.*?)</figcaption>", body)


def test_what_the_algorithm_tells_is_drawn(tmp_path):
    text = page_of(tmp_path, told_by(tmp_path / "run", {**TOLD, "learning_rate": 0.0}))
    shown = captions(text, "Learning")
    # What never changes is left out, and all that is not learning.
    assert shown == [name.replace("_", " ") for name in TOLD]
    charts = figures(text)[3 : 3 + len(shown)]
    for figure, factor in zip(charts, TOLD.values(), strict=True):
        (line,) = figure.data
        assert values(line.x)[-1] == 2000
        assert values(line.customdata)[-1] == pytest.approx(factor * UPDATES)
        assert figure.layout.yaxis.tickvals is None
    # Another algorithm has other pictures.
    other = told_by(tmp_path / "other", {"temperature": 0.5, "of_my_own<b>": 3.0})
    shown = captions(page_of(tmp_path, other), "Learning")
    assert shown == ["temperature", "of my own&lt;b&gt;"]


def test_seeds_are_a_band_and_policies_are_lines_of_one_picture(tmp_path):
    runs = [told_by(tmp_path / f"run-{seed}", TOLD, seed=seed) for seed in range(2)]
    text = page_of(tmp_path, *runs)
    assert [len(figure.data) for figure in figures(text)[3:9]] == [3] * 6
    team = {"entropy": 1.0, "entropy_zone": 2.0, "entropy_core": 3.0}
    text = page_of(tmp_path, told_by(tmp_path / "team", team))
    assert captions(text, "Learning") == ["entropy"]
    drawn = figures(text)[3].data
    assert [line.name for line in drawn] == ["all", "zone", "core"]
    assert [values(line.customdata)[-1] for line in drawn] == [20.0, 40.0, 60.0]


def test_seeds_become_a_band_and_settings_that_differ_are_shown(tmp_path):
    runs = [make_run(tmp_path / f"slow-{seed}", seed=seed) for seed in range(3)]
    runs.append(make_run(tmp_path / "other", settings={"discount": 0.5}))
    text = page_of(tmp_path, *runs)
    assert "slow (3 seeds)" in text
    low, high, median, other = figures(text)[0].data
    assert other.name == "other"
    assert values(median.customdata)[-1] - values(other.customdata)[-1] == pytest.approx(
        -1
    )  # Of seed 1.
    assert values(low.y)[-1] < values(median.y)[-1] < values(high.y)[-1]
    differ = section(text, "Settings that differ").split("Settings that are the same")[0]
    assert "discount 0.99 0.99 0.99 0.5" in differ
    assert "seed 0 1 2 0" in differ
    assert "n_envs" not in differ


def test_beside_other_agents_and_by_kind_of_episode(tmp_path):
    kinds = {"B_lineAgent": -20.0, "RedMeanderAgent": -30.0, "SleepAgent": 0.0}
    args = {"red_agent": "mixed", "simulator": "compiled"}
    rows = {f"return_mean_{kind}": value for kind, value in kinds.items()}
    cage2 = {"env": "workflow_rl/CAGE2-v0", "env_args": args, "total_steps": None}
    run = make_run(tmp_path / "run", rows=rows, **cage2)
    text = page_of(tmp_path, run)
    assert len(figures(text)) >= 3
    for figure in figures(text)[:3]:
        assert [line.name for line in figure.data] == ["all", *kinds]
        assert {line.name: values(line.customdata)[-1] for line in figure.data[1:]} == kinds
        known = [note.text for note in figure.layout.annotations]
        assert known[-1] == "champion: −9.2"  # noqa: RUF001
        assert len(figure.layout.shapes) == len(known) > 2
        # Names stand clear of each other, in a chart that is LABELS_IN_HEIGHT of them high.
        heights = [note.y for note in figure.layout.annotations]
        lines = [line.y0 for line in figure.layout.shapes]
        assert min(np.diff(heights)) >= 0.99 * (max(lines) - min(lines)) / LABELS_IN_HEIGHT
    assert "all B_lineAgent RedMeanderAgent SleepAgent" in section(text, "Learning curves")
    # Two runs against different red agents: a line for each, and none that holds for both.
    other = make_run(tmp_path / "other", **{**cage2, "env_args": {"red_agent": "B_lineAgent"}})
    figure = figures(page_of(tmp_path, run, other))[0]
    assert [line.name for line in figure.data] == ["run", "other"]
    assert not figure.layout.shapes


def test_names_and_groups(tmp_path):
    paths = [make_run(tmp_path / one / "run", seed=n) for n, one in enumerate(("a", "b"))]
    names = distinct_names(paths)
    assert names == ["a/run", "b/run"]
    configs = [read_run(path).config for path in paths]
    assert groups_of(names, configs) == {"2 seeds": [0, 1]}
    text = page_of(tmp_path, *paths, paths[0])  # Once is enough.
    assert "2 runs" in text


def scored(folder: Path, agent: bytes, digest: str | None = "") -> None:
    """Leave the best agent and its score. digest: of the agent that was scored, if another's."""
    evaluation: dict[str, Any] = {**EVALUATION, "interval_95": None, "returns": [9.0]}
    (folder / "best.safetensors").write_bytes(agent)
    if digest is not None:
        evaluation["agent_sha256"] = digest or hashlib.sha256(agent).hexdigest()
    (folder / "evaluation.json").write_text(json.dumps(evaluation))


def test_scores_and_evaluations_in_the_run(tmp_path):
    one = make_run(tmp_path / "one", rows={"eval_return_mean": 3.25})
    two = make_run(tmp_path / "two")
    scored(one, b"an agent")
    text = page_of(tmp_path, one, two)
    scores = section(text, "Scores")
    assert "one 9.00 ± – 9.00 9.00 1 greedy" in scores  # noqa: RUF001
    assert "two not scored yet" in scores
    assert "one 20 3.25" in section(text, "Learning curves")
    assert "hits 0.60 ±" in section(text, "Measures")
    assert "time up 2.33 ± 6.35, median 3" in section(text, "Measures")
    assert "hosts up: task" in section(text, "Measures")


def test_the_score_of_a_population_is_its_best_policys(tmp_path):
    population, configs = tmp_path / "population", []
    for number in range(2):
        policy = make_run(population / f"policy-{number}", seed=number)
        (policy / "best.safetensors").write_bytes(f"agent {number}".encode())
        configs.append(json.loads((policy / "config.json").read_text()))
    PopulationRecord(configs).write(population)
    scored(population, b"agent 1")
    scores = section(page_of(tmp_path, population), "Scores")
    assert "policy-0 not scored yet" in scores
    assert "policy-1 9.00" in scores


@pytest.mark.parametrize("digest", [None, hashlib.sha256(b"another agent").hexdigest()])
def test_scores_of_another_agent_are_not_shown(digest, tmp_path, caplog):
    """Of the one before the run went on, or of another run; or nobody knows of which."""
    run = make_run(tmp_path / "run")
    scored(run, b"an agent", digest)
    assert "run not scored yet" in section(page_of(tmp_path, run), "Scores")
    assert f"{run / 'evaluation.json'} does not say that it is of" in caplog.text


def test_a_run_that_stopped_and_its_faults(tmp_path):
    run = make_run(tmp_path / "run", finished=False, rows={"workers_restarted": 1})
    (run / "diverged.npz").touch()
    text = page_of(tmp_path, run)
    faults = section(text, "Faults")
    assert "run 20 (updates 1, 2, 3" in faults
    assert "not finished: 20 updates" in faults
    assert "diverged.npz" in faults
    assert "not finished" in section(text, "Runs")


def test_each_worker_from_a_trace(tmp_path):
    events = [
        {"ph": "M", "name": "thread_name", "tid": n, "args": {"name": name}}
        for n, name in enumerate(("learner", "collector", "worker-0"))
    ]
    for tid, name, start, seconds in [
        (0, "learning", 0.0, 1.0),
        (0, "waiting", 1.0, 3.0),
        (2, "stepping", 0.0, 3.0),
        (2, "waiting", 3.0, 1.0),
    ]:
        span = {"ph": "X", "name": name, "tid": tid, "ts": start * 1e6, "dur": seconds * 1e6}
        events.append(span)
    trace = tmp_path / "trace.json"
    trace.write_text(json.dumps({"traceEvents": events, "otherData": {"mode": "async"}}))
    text = page_of(tmp_path, make_run(tmp_path / "run"), "--trace", trace)
    told = section(text, "How time was spent")
    assert "Process stepping waiting learning" in told
    assert "worker-0 75.0% 25.0% 0.0%" in told
    assert "learner 0.0% 75.0% 25.0%" in told
    assert "collector" not in told
    assert "trace.json" in told


def test_a_name_is_no_html_and_may_be_of_any_bytes(tmp_path):
    text = page_of(tmp_path, make_run(tmp_path / "<i>&'\""))
    assert "<i>" not in text.split("</script>")[1]
    assert figures(text)[0].data[0].name == "&lt;i&gt;&amp;'\""
    text = page_of(tmp_path, make_run(tmp_path / "n\udcff"))
    assert r"<title>n\udcff" in text


MEASURED = {"hits": "1 2/4", "time up": "1|2 3|"}
COURSE = {"mean": [1.0, 2.0], "low": [0.0, 1.0], "high": [2.0, 3.0]}
EVALUATION = {
    **{"mean": 9.0, "interval_95": 1.5, "returns": [9.0, 8.0], "actions": "greedy"},
    **{"measures": {"task": MEASURED}, "by_step": {"task": {"hosts_up": COURSE}}},
}
CELL = {**EVALUATION, "max_steps": 30, "red_agent": "B_lineAgent"}
CAGE2_EVALUATION = {
    **{"official_protocol": True, "total": -20.0, "total_interval_95": 1.0},
    "cells": [CELL],
}
SPAN = {"ph": "X", "name": "stepping", "tid": 0, "ts": 0.0, "dur": 2e6}
NAMED = {"ph": "M", "name": "thread_name", "tid": 0, "args": {"name": "worker-0"}}
TRACE = {"traceEvents": [NAMED, SPAN], "otherData": {"mode": "async"}}
ODD_VALUES: list[Any] = [
    *(None, True, -1, 0.5, math.inf, math.nan, "x", "\udcff", "", [], {}, [[]], [None]),
    *(10**400, -(10**400), ["x"], {"a": 1}),
]
ODD_CONTENTS = [
    *(b"", b"null", b"[]", b"{}", b"3", b'"x"', b"{", b"\xff\xfe"),
    *(b"[" * 99_999, b"9" * 5000),
]


def fuzzed(draw: Any, value: Any) -> Any:
    """A JSON value in which one part is another, or is missing."""
    if isinstance(value, dict | list) and value and draw(st.integers(0, 4)):
        key = draw(st.sampled_from(sorted(value) if isinstance(value, dict) else [0]))
        if isinstance(value, dict) and not draw(st.integers(0, 5)):
            return {name: one for name, one in value.items() if name != key}
        changed = dict(value) if isinstance(value, dict) else list(value)
        changed[key] = fuzzed(draw, value[key])
        return changed
    return draw(st.sampled_from(ODD_VALUES))


def put(path: Path, content: Any) -> None:
    """In the place of what is there; None: a folder, False: a pipe."""
    path.unlink(missing_ok=True)
    if content is None:
        path.mkdir()
    elif content is False:
        os.mkfifo(path)
    else:
        path.write_bytes(content)


def told_or_refused(run: Path, trace: Path) -> None:
    """All that the commands `report` and `plot` make of the files, but the pictures' pixels."""
    refused = ""
    try:
        runs, traces = [read_run(run)], [read_trace(trace)]
        sections_of(runs, traces, run / "further")
        timeline_figure(traces)
        learning_curve_figure({"run": runs[0].metrics})
    except UserError as error:
        refused = f"{error}\n"
    assert refused.count("\n") == bool(refused)
    assert refused.startswith(str(run.parent) if refused else "")
    assert len(refused) < 600


@settings(max_examples=25, deadline=None)
@given(st.data(), st.booleans())
def test_an_odd_file_is_one_line_or_left_out(data, is_cage2):
    with TemporaryDirectory() as folder:
        env = "workflow_rl/CAGE2-v0" if is_cage2 else "CartPole-v1"
        run, trace = make_run(Path(folder) / "run", env=env), Path(folder) / "trace.json"
        evaluation = CAGE2_EVALUATION if is_cage2 else EVALUATION
        (run / "evaluation.json").write_text(json.dumps(evaluation))
        trace.write_text(json.dumps(TRACE))
        files = [trace, run / "summary.json", run / "evaluation.json"]
        file = data.draw(st.sampled_from(files))
        if data.draw(st.integers(0, 3)):
            content = fuzzed(data.draw, json.loads(file.read_text()))
            file.write_text(json.dumps(content))
        else:
            put(file, data.draw(st.sampled_from(ODD_CONTENTS)))
        told_or_refused(run, trace)


@settings(max_examples=25, deadline=None)
@given(
    st.sampled_from([*METRICS]),
    st.sampled_from(["9" * 400, "nan", "-inf", "1e400", "x", "", "-1", "1e308", "\u00b2", "\0"]),
    st.integers(1, UPDATES),
)
def test_odd_metrics_are_one_line_or_left_out(column, cell, update):
    with TemporaryDirectory() as folder:
        run, trace = make_run(Path(folder) / "run"), Path(folder) / "trace.json"
        trace.write_text(json.dumps(TRACE))
        lines = [line.split(",") for line in (run / "metrics.csv").read_text().splitlines()]
        lines[update][lines[0].index(column)] = cell
        (run / "metrics.csv").write_text("\n".join(map(",".join, lines)))
        told_or_refused(run, trace)


@pytest.mark.parametrize(
    ("file", "content", "said"),
    [
        ("config.json", None, "is not a run folder"),
        ("metrics.csv", "update\n", "metrics.csv cannot be read"),
        ("metrics.csv", ",".join(METRICS) + "\n", "nothing to report yet"),
        ("summary.json", {"wall_seconds": 1.0, "best_score": "high"}, ""),
        ("summary.json", {"wall_seconds": 1.0, "skipped_episodes": None}, ""),
        ("summary.json", {"wall_seconds": 10**400}, ""),
        ("evaluation.json", "{", ""),
        ("evaluation.json", [], ""),
        ("evaluation.json", {**EVALUATION, "returns": []}, ""),
        ("evaluation.json", {**EVALUATION, "returns": None}, ""),
        ("evaluation.json", {**EVALUATION, "mean": "9"}, ""),
        ("evaluation.json", {**EVALUATION, "measures": {"task": {"time": f"{10**9}|"}}}, ""),
        ("evaluation.json", {**EVALUATION, "by_step": {"task": {"up": {**COURSE, "low": []}}}}, ""),
        ("evaluation.json", {**CAGE2_EVALUATION, "total": 10**400}, ""),
        ("evaluation.json", {**CAGE2_EVALUATION, "cells": [{**CELL, "red_agent": []}]}, ""),
    ],
)
def test_what_cannot_be_read_or_says_something_odd_is_named(file, content, said, tmp_path):
    run, page = make_run(tmp_path / "run"), tmp_path / "report.html"
    page.write_text("before")
    if content is None:
        (run / file).unlink()
    else:
        (run / file).write_text(content if isinstance(content, str) else json.dumps(content))
    output = output_of("report", run, "--output", page, code=2)
    assert (said or f"{file} cannot be read: ") in output
    assert page.read_text() == "before"


@pytest.mark.parametrize(
    ("options", "in_the_way", "said"),
    [(["--trace", "run/config.json"], "x", "is not a trace"), ([], "report_files", "report_files")],
)
def test_a_trace_that_is_none_and_a_folder_in_the_way(options, in_the_way, said, tmp_path):
    run = make_run(tmp_path / "run")
    (tmp_path / in_the_way).touch()
    more = [tmp_path / option if "/" in option else option for option in options]
    assert said in output_of("report", run, *more, "--output", tmp_path / "report.html", code=2)
    assert not (tmp_path / "report.html").exists()
