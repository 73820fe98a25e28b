"""Traces as pictures: a bar for every worker and for the learner, coloured by activity."""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from numpy.typing import NDArray

from workflow_rl.collection.trace import COLLECTOR, LEARNER, Activity
from workflow_rl.errors import UserError
from workflow_rl.output_files import NOT_OURS, read_json
from workflow_rl.reporting.learning_curve import as_drawn

UPDATES_SHOWN = 2
ZOOM = 100
MOST_BYTES = 2**28  # --trace stops long before.
MOST_ROWS = 5000  # In memory a row takes thousands of times as much as in the file.
LATEST = 1e9  # Seconds.
COLUMNS = 1600  # Pixels of a bar.
BUSY = (Activity.STEPPING, Activity.ACTING, Activity.PLAYING, Activity.RESETTING)
NAMES = {
    Activity.PLAYING: "playing (stepping, acting)",
    Activity.HELD: "held (the learner is behind)",
}
COLOURS = {
    Activity.STEPPING: "#1b4f9c",
    Activity.PLAYING: "#2f6fc1",
    Activity.ACTING: "#2a9d8f",
    Activity.RESETTING: "#7b3fa0",
    Activity.WAITING: "#ececec",
    Activity.SENDING: "#e8b800",
    Activity.RECEIVING: "#f4d35e",
    Activity.LOADING: "#a0a0a0",
    Activity.STARTING: "#606060",
    Activity.LEARNING: "#e4572e",
    Activity.MODELLING: "#f2a7c3",
    Activity.HELD: "#b8d8ba",
    Activity.EVALUATING: "#f29e4c",
    Activity.SAVING: "#8d5524",
}


class Spans(NamedTuple):
    """What one row did, in order: start and end in seconds, float64 [S]; activity: int [S]."""

    start: NDArray[np.float64]
    end: NDArray[np.float64]
    activity: NDArray[np.int64]


class RunTrace(NamedTuple):
    """A trace as it was read.

    about: the run's config. rows: the spans of each process by its name, in the file's order.
    """

    path: Path
    about: Mapping[str, Any]
    rows: Mapping[str, Spans]

    @property
    def title(self) -> str:
        modes = {"sync": "Synchronous", "async": "Asynchronous"}
        mode = modes.get(str(self.about.get("mode")), "")
        overlap = ", collecting while learning" if self.about.get("async_rl") else ""
        return f"{mode}{overlap} ({self.path.name})"

    @property
    def end(self) -> float:
        return max(float(spans.end[-1]) for spans in self.rows.values())

    def learning(self) -> list[tuple[float, float]]:
        """Return start and end of each update's learning, models' fits included, in seconds."""
        if LEARNER not in self.rows:
            return []
        start, end, activity = self.rows[LEARNER]
        learns = np.isin(activity, (Activity.LEARNING, Activity.MODELLING))
        changes = np.diff(learns.astype(int), prepend=0, append=0)
        begins, ends = np.flatnonzero(changes == 1), np.flatnonzero(changes == -1) - 1
        return list(zip(start[begins].tolist(), end[ends].tolist(), strict=True))

    def busy_share(self, start: float, end: float) -> float:
        """Return the share of the workers' time in which they step, act or reset."""
        workers = [spans for row, spans in self.rows.items() if row not in (LEARNER, COLLECTOR)]
        edges = np.array([start, end])
        shares = [activity_shares(spans, edges)[list(BUSY)].sum() for spans in workers]
        return float(np.mean(shares or [math.nan]))


def read_trace(path: Path) -> RunTrace:
    """Read a file that --trace wrote. Raises UserError."""
    try:
        trace = read_json(path, MOST_BYTES)
        name_of: dict[int, str] = {}
        spans: dict[int, list[tuple[float, float, int]]] = {}
        for event in trace["traceEvents"]:
            if event["ph"] == "M" and event["name"] == "thread_name":
                name_of[event["tid"]] = event["args"]["name"]
            elif event["ph"] == "X":
                activity = Activity[event["name"].upper()]
                span = (event["ts"] / 1e6, (event["ts"] + event["dur"]) / 1e6, activity)
                if not 0 <= span[0] <= span[1] <= LATEST:
                    raise ValueError(f"a span from {span[0]} to {span[1]} s")
                spans.setdefault(event["tid"], []).append(span)
        rows = {
            str(name_of[tid]): Spans(*map(np.array, zip(*sorted(of_row), strict=True)))
            for tid, of_row in spans.items()
        }
        about = dict(trace.get("otherData", {}))
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error.strerror}") from None
    except NOT_OURS:
        raise UserError(f"{path} is not a trace: give a file that --trace wrote") from None
    if not rows:
        raise UserError(f"{path} is a trace in which nothing happens")
    if len(rows) > MOST_ROWS:
        raise UserError(f"{path} has {len(rows)} rows: at most {MOST_ROWS} can be drawn")
    return RunTrace(path, about, rows)


def activity_shares(spans: Spans, edges: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the share of each activity in the time between neighbouring edges.

    edges: seconds, [C + 1]. Returns [len(Activity), C].
    """
    shares = np.zeros((len(Activity), len(edges) - 1))
    for activity in Activity:
        chosen = spans.activity == activity
        if chosen.any():
            # The time spent on an activity up to any moment is piecewise linear.
            times = np.stack([spans.start[chosen], spans.end[chosen]], axis=1).ravel()
            spent = np.cumsum(np.diff(times, prepend=times[0]) * (np.arange(len(times)) % 2))
            shares[activity] = np.diff(np.interp(edges, times, spent)) / np.diff(edges)
    return shares


def timeline_figure(
    traces: Sequence[RunTrace], start: float | None = None, end: float | None = None
) -> Figure:
    """Draw a panel for each trace, from `start` to `end` in seconds.

    Without these, draw two panels for each trace. The first shows as much time as UPDATES_SHOWN
    updates of the slowest trace take, the second a ZOOM-th of that time.
    """
    if start is None and end is None:
        length = max(_length_of_updates(trace) for trace in traces)
        wide = [_window(trace, length) for trace in traces]
        windows = [
            [window, _zoomed(trace, window)] for trace, window in zip(traces, wide, strict=True)
        ]
    else:
        begin = start or 0.0
        windows = [
            [(begin, max(trace.end, begin + 1e-6) if end is None else end)] for trace in traces
        ]
    heights = [min(4.5, 0.9 + 0.2 * len(trace.rows)) for trace in traces]
    figure = Figure(figsize=(13, sum(heights) + 0.7), layout="constrained")
    panels = figure.subplots(
        len(traces),
        len(windows[0]),
        squeeze=False,
        gridspec_kw={"height_ratios": heights, "width_ratios": [1.7, 1][: len(windows[0])]},
    )
    shown: set[Activity] = set()
    for trace, of_trace, axes_of_trace in zip(traces, windows, panels, strict=True):
        for window, axes in zip(of_trace, axes_of_trace, strict=True):
            shown |= _draw(axes, trace, *window)
        n_workers = len(trace.rows.keys() - {LEARNER, COLLECTOR})
        shown_from, shown_to = of_trace[0]
        busy = trace.busy_share(shown_from, min(shown_to, trace.end))
        title = {"fontsize": 11, "fontweight": "bold"}
        axes_of_trace[0].set_title(as_drawn(trace.title), loc="left", **title)
        axes_of_trace[0].set_title(
            f"{n_workers} workers, {busy:.0%} busy", loc="right", fontsize=11
        )
        for axes in axes_of_trace[1:]:
            axes.set_title("enlarged", loc="left", fontsize=11)
            axes.set_yticks([])
    figure.legend(
        handles=[
            Patch(
                facecolor=colour,
                edgecolor="#999999",
                label=NAMES.get(activity, activity.name.lower()),
            )
            for activity, colour in COLOURS.items()
            if activity in shown
        ],
        loc="outside lower center",
        ncols=6,
        frameon=False,
    )
    return figure


def _first_shown(trace: RunTrace) -> int:
    """Return a picture's first update. Of many updates, the first two are not typical."""
    return min(2, max(0, len(trace.learning()) - UPDATES_SHOWN - 1))


def _length_of_updates(trace: RunTrace) -> float:
    starts = [start for start, _ in trace.learning()]
    first = _first_shown(trace)
    if len(starts) < first + UPDATES_SHOWN + 1:
        return trace.end
    return 1.1 * (starts[first + UPDATES_SHOWN] - starts[first])


def _window(trace: RunTrace, length: float) -> tuple[float, float]:
    learning = trace.learning()
    start = learning[_first_shown(trace)][0] - length / 20 if learning else 0.0
    start = max(0.0, min(start, trace.end - length))
    return start, start + length


def _zoomed(trace: RunTrace, window: tuple[float, float]) -> tuple[float, float]:
    """Return a small part of the window, between two updates' learning if the window has two."""
    start, end = window
    middle = (start + end) / 2
    inside = [(begun, ended) for begun, ended in trace.learning() if start <= begun < end]
    if len(inside) > 1:
        middle = (inside[0][1] + inside[1][0]) / 2
    half = (end - start) / ZOOM / 2
    return middle - half, middle + half


def _draw(axes: Axes, trace: RunTrace, start: float, end: float) -> set[Activity]:
    """Draw the rows from `start` to `end`, and return their activities."""
    names = list(trace.rows)
    edges = np.linspace(start, end, COLUMNS + 1)
    palette = np.ones((len(Activity), 3))
    for activity, colour in COLOURS.items():
        palette[activity] = to_rgb(colour)
    shares = np.stack([activity_shares(spans, edges) for spans in trace.rows.values()])
    # A pixel with several activities gets the mixture of their colours.
    blank = 1 - shares.sum(axis=1, keepdims=True).transpose(0, 2, 1)
    image = np.clip(np.einsum("rac,ak->rck", shares, palette) + blank, 0, 1)
    unit, offset, label = (1.0, 0.0, "seconds")
    if end - start < 0.2:
        unit, offset, label = (1e3, start, f"milliseconds from {start:.3f} s")
    # The learner and the collector stay readable among many workers' thin bars.
    every = math.ceil(len(names) / 20)
    heights = [every if name in (LEARNER, COLLECTOR) else 1 for name in names]
    edge_of_row = np.cumsum([0, *heights])
    extent = ((start - offset) * unit, (end - offset) * unit, edge_of_row[-1], 0)
    image = np.repeat(image, heights, axis=0)
    axes.imshow(image, aspect="auto", interpolation="nearest", extent=extent)
    for row, edge in enumerate(edge_of_row[1:-1]):
        if every == 1 or heights[row] > 1:
            axes.axhline(edge, color="white", linewidth=2.5)
    labelled = [row for row, height in enumerate(heights) if height > 1 or row % every == 2 % every]
    axes.set_yticks(
        [(edge_of_row[row] + edge_of_row[row + 1]) / 2 for row in labelled],
        [as_drawn(names[row].replace("-", " ")) for row in labelled],
        fontsize=8,
    )
    axes.tick_params(axis="y", length=0)
    axes.set_xlabel(label, fontsize=9)
    axes.spines[:].set_visible(False)
    return {activity for activity in Activity if shares[:, activity].any()}
