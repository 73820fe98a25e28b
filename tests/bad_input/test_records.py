"""Whatever a run's records hold: one clear line, and nothing called or changed."""

import json
from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tests.bad_input.refusals import assert_refused, cases, damage, junk, restored


@cases(20)
@given(data=st.data())
def test_configs(data, run, finished):
    path = restored(finished, run) / "config.json"
    config = json.loads(path.read_text())
    kind = data.draw(st.sampled_from(["bytes", "json", "field", "less", "deep", "cut", "vast"]))
    if kind in ("field", "less"):
        values = data.draw(st.sampled_from([config, config["settings"]]))
        name = data.draw(st.sampled_from(sorted(values)))
        values[name] = data.draw(junk)
        if kind == "less":
            del values[name]
        path.write_text(json.dumps(config))
    elif kind == "cut":
        text = path.read_text()
        path.write_text(text[: data.draw(st.integers(0, len(text) - 2))])
    damage(data.draw, path, kind)
    assert_refused(["train-champion", "--run-dir", "run"], "config.json", "--run-dir")


@cases(20)
@given(data=st.data())
def test_records(data, run, finished):
    path = restored(finished, run) / "machine.json"
    record = json.loads(path.read_text())
    kind = data.draw(st.sampled_from(["bytes", "json", "field", "long", "short", "deep", "vast"]))
    if kind == "field":
        record[data.draw(st.sampled_from(sorted(record)))] = data.draw(junk)
        path.write_text(json.dumps(record))
    elif kind in ("long", "short"):
        record["weights"] *= 100
        if kind == "short":
            record["weights"] = record["weights"][:4]
            record["config"]["total_episodes"] = 4
        path.write_text(json.dumps(record))
    damage(data.draw, path, kind)
    assert_refused(["verify", "run"], "run cannot be verified")


METRICS = ["update", "episodes", "wall_seconds", "return_mean"]


@cases(20)
@given(data=st.data())
def test_metrics(data, run, finished):
    path = restored(finished, run) / "metrics.csv"
    heading, first, *_ = path.read_text().splitlines()
    columns, cells = heading.split(","), first.split(",")
    kind = data.draw(st.sampled_from(["bytes", "column", "cell", "more", "wide", "vast"]))
    if kind == "column":
        path.write_text(heading.replace(data.draw(st.sampled_from(METRICS)), "other") + "\n")
    elif kind == "cell":
        at = columns.index(data.draw(st.sampled_from(METRICS)))
        cells[at] = data.draw(st.sampled_from(["", "x", "inf", "-inf", "1e400", "²", "9" * 5000]))
        path.write_text(f"{heading}\n{','.join(cells)}\n")
    elif kind == "more":
        path.write_text(f"{heading}\n{first},1\n")
    elif kind == "wide":
        path.write_text(f"{heading}\n{'9' * 200_000}\n")
    damage(data.draw, path, kind)
    arguments = data.draw(
        st.sampled_from([["plot", "run"], ["train-async", "--resume", "run", "--quiet"]])
    )
    assert_refused(arguments, "metrics.csv")


@cases(20)
@given(data=st.data())
def test_traces(data, run):
    span = {"ph": "X", "name": "learning", "tid": 1, "ts": 0.0, "dur": 1.0}
    name = {"ph": "M", "name": "thread_name", "tid": 1, "args": {"name": "learner"}}
    trace: Any = {"traceEvents": [name, span], "otherData": {}}
    kind = data.draw(st.sampled_from(["bytes", "json", "event", "no name", "nothing", "deep"]))
    if kind == "event":
        event = data.draw(st.sampled_from([span, name]))
        field = data.draw(st.sampled_from(sorted(event)))
        event[field] = data.draw(junk.filter(lambda value: value != 0))
        if field == "args":
            event[field] = [event[field]]
    elif kind == "no name":
        del trace["traceEvents"][0]
    elif kind == "nothing":
        del trace["traceEvents"][1]
    Path("trace.json").write_text(json.dumps(trace))
    damage(data.draw, Path("trace.json"), kind)
    output = "picture.png"
    assert_refused(["plot", "--timeline", "trace.json", "--output", output], "trace.json")
