"""The trace of a run: the activities of the learner, the collector and every worker over time.

Perfetto opens the file. A process or thread marks the times at which its activities begin. A span
lasts from one mark to the next, so the spans of a row never overlap and have no gaps.
"""

from __future__ import annotations

import json
import logging
import time
from array import array
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from enum import IntEnum
from itertools import pairwise
from pathlib import Path
from typing import Any, Self

from workflow_rl.output_files import write_text

LEARNER = "learner"
COLLECTOR = "collector"
MAX_SPANS = 640_000  # The file is below 50 MB, so that viewers open it in a few seconds.
ACTIVITY_BITS = 4
"""A mark is an integer: a time in nanoseconds, whose lowest bits hold an activity instead."""

_log = logging.getLogger(__name__)


class Activity(IntEnum):
    """The activities in a row of a trace. Playing is stepping or acting. Idle time is not shown.

    HELD: the collector waits because the learner is behind.
    """

    IDLE = 0
    STARTING = 1
    STEPPING = 2
    ACTING = 3
    PLAYING = 4
    RESETTING = 5
    LOADING = 6
    SENDING = 7
    RECEIVING = 8
    WAITING = 9
    LEARNING = 10
    EVALUATING = 11
    SAVING = 12
    MODELLING = 13
    HELD = 14


def unpacked_marks(marked: int) -> tuple[int, Activity]:
    """Return a mark's time, in nanoseconds of a clock of all processes, and its activity."""
    return marked >> ACTIVITY_BITS, Activity(marked & (1 << ACTIVITY_BITS) - 1)


class Trace:
    """Gathers the rows of a run. A context manager that writes the file at its end.

    Any thread may write, but only one thread at a time may write to a row.

    path: the file; None records nothing. about: plain values for programs that draw the file.
    """

    def __init__(self, path: Path | None = None, about: Mapping[str, Any] = {}) -> None:
        self.path = path
        self._about = dict(about)
        self._rows: defaultdict[str, array[int]] = defaultdict(lambda: array("q"))
        # Without a lock, two threads at once may miscount a little.
        self._room = MAX_SPANS

    @property
    def is_on(self) -> bool:
        return self.path is not None

    def mark(self, row: str, activity: Activity) -> None:
        if self.path is not None and self._room > 0:
            self._rows[row].append(time.perf_counter_ns() << ACTIVITY_BITS | activity)
            self._room -= 1

    def take_marks(self, worker: str, message: Any, ahead: int = 0) -> Any:
        """Return the answer in a worker's message, and take the message's marks, if there are any.

        ahead: nanoseconds to add to the times, if another machine's clock measured the times.
        """
        if type(message) is not tuple:
            return message
        answer, marks = message
        shift = ahead << ACTIVITY_BITS
        self.extend(worker, [marked + shift for marked in array("q", marks)])
        return answer

    def extend(self, row: str, marks: Sequence[int]) -> None:
        if self._room > 0:
            self._rows[row].extend(marks)
            self._room -= len(marks)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        if self.path is None:
            return
        try:
            write_text(self.path, self.to_json())
        except OSError as failure:
            _log.error("the trace %s could not be written: %s", self.path, failure.strerror)
            return
        if self._room <= 0:
            _log.warning("the trace is full: the end of the run is not in %s", self.path)

    def to_json(self) -> str:
        """Return the rows in the Trace Event Format: complete events ("X"), one thread a row.

        Times are in microseconds from the first mark.
        """
        rows = sorted(self._rows, key=_place)
        start = min(
            (unpacked_marks(marks[0])[0] for marks in self._rows.values() if marks), default=0
        )
        events = [_metadata("process_name", 1, {"name": "workflow_rl"})]
        for tid, row in enumerate(rows, 1):
            events.append(_metadata("thread_name", tid, {"name": row}))
            events.append(_metadata("thread_sort_index", tid, {"sort_index": tid}))
        for tid, row in enumerate(rows, 1):
            events += _events(self._rows[row], tid, start)
        about = json.dumps(self._about)
        return (
            f'{{"displayTimeUnit": "ms", "otherData": {about}, "traceEvents": [\n'
            + ",\n".join(events)
            + "\n]}\n"
        )


def _place(row: str) -> tuple[bool, bool, int]:
    """Return the row's sort key: the learner, the collector, then the workers by number."""
    number = row.rpartition("-")[2]
    return row != LEARNER, row != COLLECTOR, int(number) if number.isdecimal() else 0


def _metadata(name: str, tid: int, args: Mapping[str, Any]) -> str:
    return json.dumps({"name": name, "ph": "M", "pid": 1, "tid": tid, "args": args})


def _events(marks: array[int], tid: int, start: int) -> Iterator[str]:
    for marked, following in pairwise(marks):
        (begin, activity), (end, next_activity) = unpacked_marks(marked), unpacked_marks(following)
        # The end of a dead process's last activity is unknown.
        if activity != Activity.IDLE and next_activity != Activity.STARTING:
            yield (
                f'{{"name":"{activity.name.lower()}","ph":"X","ts":{_microseconds(begin - start)},'
                f'"dur":{_microseconds(end - begin)},"pid":1,"tid":{tid}}}'
            )


def _microseconds(nanoseconds: int) -> str:
    """Return microseconds with exact decimals, so that a span ends where the next span begins."""
    return f"{nanoseconds // 1000}.{nanoseconds % 1000:03d}"
