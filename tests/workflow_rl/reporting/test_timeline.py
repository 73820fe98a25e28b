import json
from pathlib import Path

import numpy as np
import pytest
from matplotlib.colors import to_rgb

from tests.cli import output_of
from workflow_rl.collection.trace import LEARNER, Activity, Trace
from workflow_rl.errors import UserError
from workflow_rl.reporting.timeline import (
    COLOURS,
    Spans,
    activity_shares,
    read_trace,
    timeline_figure,
)

PERIOD = 100  # Milliseconds of an update in `a_trace`.


def at(milliseconds: float, activity: Activity) -> int:
    return round(milliseconds * 1e6) << 4 | activity


def a_trace(path: Path, updates: int = 6, n_workers: int = 2, mode: str = "sync") -> Path:
    """Updates of 100 ms: 20 of learning, then 80 in which workers step and wait 1 ms in turn."""
    with Trace(path, {"mode": mode}) as trace:
        for update in range(updates):
            start = PERIOD * update
            trace.extend(LEARNER, [at(start, Activity.LEARNING), at(start + 20, Activity.WAITING)])
            for worker in range(n_workers):
                does = [Activity.WAITING] * 20 + [Activity.WAITING, Activity.STEPPING] * 40
                marks = [at(start + time, activity) for time, activity in enumerate(does)]
                trace.extend(f"worker-{worker}", marks)
        trace.extend(LEARNER, [at(PERIOD * updates, Activity.IDLE)])
    return path


def test_shares_of_the_time_between_two_moments():
    spans = Spans(
        np.array([0.0, 1.0, 4.0]),
        np.array([1.0, 3.0, 5.0]),
        np.array([Activity.STEPPING, Activity.WAITING, Activity.STEPPING]),
    )
    shares = activity_shares(spans, np.array([-1.0, 0.5, 2.5, 4.5, 8.5]))
    # Of 1.5 s, 2 s, 2 s and 4 s.
    assert shares[Activity.STEPPING] == pytest.approx([0.5 / 1.5, 0.25, 0.25, 0.125])
    assert shares[Activity.WAITING] == pytest.approx([0, 0.75, 0.25, 0])
    assert shares.sum() == pytest.approx(shares[[Activity.STEPPING, Activity.WAITING]].sum())


def test_reads_what_was_written(tmp_path):
    trace = read_trace(a_trace(tmp_path / "trace.json"))
    assert list(trace.rows) == ["learner", "worker-0", "worker-1"]
    assert trace.title == "Synchronous (trace.json)"
    assert trace.learning()[1] == pytest.approx((0.1, 0.12))
    assert trace.end == pytest.approx(0.6)
    assert trace.busy_share(0.1, 0.2) == pytest.approx(0.4)
    assert trace.busy_share(0.1, 0.12) == pytest.approx(0)


@pytest.mark.parametrize(
    ("updates", "seconds", "zoomed_from"),
    [
        (6, (0.189, 0.409), "0.259"),  # From before the third update's learning.
        (4, (0.089, 0.309), "0.159"),
        (3, (0, 0.22), "0.059"),
        (2, (0, 0.2), "0.059"),  # All of it.
    ],
)
def test_two_updates_and_a_hundredth_of_them_are_shown(updates, seconds, zoomed_from, tmp_path):
    trace = read_trace(a_trace(tmp_path / "trace.json", updates))
    wide, zoomed = timeline_figure([trace]).axes
    assert wide.get_xlim() == pytest.approx(seconds)
    # In milliseconds, between two updates' learning.
    assert zoomed.get_xlim() == pytest.approx((0, 10 * (seconds[1] - seconds[0])), abs=1e-9)
    assert zoomed.get_xlabel() == f"milliseconds from {zoomed_from} s"


def test_names_in_a_trace_are_drawn_as_they_are(tmp_path):
    path = tmp_path / "from_$5_to_$9.json"
    with Trace(path, {}) as trace:
        trace.extend("$1_node_$2", [at(0, Activity.STEPPING), at(9, Activity.IDLE)])
    figure = timeline_figure([read_trace(path)])
    figure.savefig(tmp_path / "timeline.png")
    assert path.name in figure.axes[0].get_title("left").replace(r"\$", "$")
    assert figure.axes[0].get_yticklabels()[0].get_text() == r"\$1_node_\$2"


def test_all_panels_show_as_much_time_as_the_slowest_trace_needs(tmp_path):
    traces = [read_trace(a_trace(tmp_path / f"{n}.json", updates=n)) for n in (6, 1)]
    figure = timeline_figure(traces)
    widths = [np.diff(axes.get_xlim())[0] for axes in figure.axes]
    assert widths[0] == pytest.approx(widths[2])
    assert widths[1] == pytest.approx(widths[3])


def test_a_bar_has_the_colour_of_what_is_done(tmp_path):
    trace = read_trace(a_trace(tmp_path / "trace.json"))
    # 1 ms of waiting, 1 ms of stepping; the learner learns until 0.12 s.
    (axes,) = timeline_figure([trace], 0.110, 0.122).axes
    image = np.asarray(axes.images[0].get_array())
    columns = image.shape[1]
    assert image[0, 0] == pytest.approx(to_rgb(COLOURS[Activity.LEARNING]))
    assert image[0, -1] == pytest.approx(to_rgb(COLOURS[Activity.WAITING]))
    assert image[1, columns // 2] == pytest.approx(to_rgb(COLOURS[Activity.WAITING]))
    assert image[1, -columns // 24] == pytest.approx(to_rgb(COLOURS[Activity.STEPPING]))


def test_what_no_pixel_can_show_alone_is_mixed(tmp_path):
    trace = read_trace(a_trace(tmp_path / "trace.json", updates=200, n_workers=1))
    (axes,) = timeline_figure([trace], 0, 20).axes
    mean = np.asarray(axes.images[0].get_array())[1].mean(axis=0)
    stepping, waiting = (
        np.array(to_rgb(COLOURS[activity])) for activity in (Activity.STEPPING, Activity.WAITING)
    )
    assert mean == pytest.approx(0.4 * stepping + 0.6 * waiting, abs=0.01)


def test_a_hundred_workers_fit(tmp_path):
    figure = timeline_figure([read_trace(a_trace(tmp_path / "trace.json", n_workers=100))])
    assert figure.get_size_inches()[1] < 8
    # The learner's bar is as high as six workers'; every sixth worker is named.
    axes = figure.axes[0]
    assert list(axes.get_yticks()) == [3.0, *np.arange(7.5, 104, 6)]
    names = [label.get_text() for label in axes.get_yticklabels()]
    assert names[:3] == ["learner", "worker 1", "worker 7"]


def test_command_draws_a_png(tmp_path):
    paths = [str(a_trace(tmp_path / f"{mode}.json", mode=mode)) for mode in ("sync", "async")]
    output_of("plot", "--timeline", *paths)
    assert (tmp_path / "timeline.png").read_bytes().startswith(b"\x89PNG")
    output = tmp_path / "piece.png"
    output_of("plot", "--timeline", *paths, "--from", "0.1", "--to", "0.2", "--output", output)
    assert output.exists()
    for arguments, part in (
        (["run", "--from", "1"], "--timeline"),
        (["--timeline", *paths, "--from", "2", "--to", "1"], "not after"),
    ):
        assert part in output_of("plot", *arguments, code=2)


ACTING = {"ph": "X", "name": "acting", "tid": 1, "ts": 0, "dur": 1}
NAMED = {"ph": "M", "name": "thread_name", "tid": 1, "args": {"name": "worker-0"}}


def of_rows(n: int) -> list[dict]:
    names = [{**NAMED, "tid": number, "args": {"name": str(number)}} for number in range(n)]
    return names + [{**ACTING, "tid": number} for number in range(n)]


@pytest.mark.parametrize(
    ("content", "part"),
    [
        (None, "cannot be read"),
        ("{", "is not a trace"),
        ('{"traceEvents": []}', "nothing happens"),
        # A small file of many rows would fill the memory.
        (json.dumps({"traceEvents": of_rows(6000)}), "6000 rows"),
    ],
)
def test_other_files(content, part, tmp_path):
    path = tmp_path / "trace.json"
    if content is not None:
        path.write_text(content)
    with pytest.raises(UserError, match=part):
        read_trace(path)
    assert part in output_of("plot", "--timeline", str(path), code=2)
