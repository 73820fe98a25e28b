"""What every worker and the learner of a run do when, as a trace that Perfetto opens.

A process or thread marks the moments at which it turns to something else; a span lasts from one
mark to the next. So the spans of a row never overlap, and none of its time is left out.
"""

from __future__ import annotations

import json
import logging
import time
from array import array
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from enum import IntEnum
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, Self

from workflow_rl.output_files import write_text

if TYPE_CHECKING:
    from agents.policies.distributions import Actions, Choice
    from agents.policies.numpy_policy import Actor
    from workflow_rl.environments.env_batch import EnvBatch, Obs, Transitions
    from workflow_rl.environments.episode import EpisodeSpec

LEARNER = "learner"
COLLECTOR = "collector"
MAX_SPANS = 640_000  # Below 50 MB, which the viewers open in a few seconds.


SENT_EVERY = 50_000_000  # Nanoseconds: at every step of a barrier it would cost several percent.

_ACTIVITY_BITS = 4
_log = logging.getLogger(__name__)


class Activity(IntEnum):
    """What a row of a trace does. Playing is stepping or acting; idle time is left blank."""

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


# Looking up a member of an enumeration takes as long as reading the clock.
_STEPPING, _SENDING, _WAITING = (
    int(activity) for activity in (Activity.STEPPING, Activity.SENDING, Activity.WAITING)
)


def unpacked(marked: int) -> tuple[int, Activity]:
    """A mark's time in nanoseconds, of a clock that all processes share, and its activity.

    They are packed into one integer, the activity in the lowest bits.
    """
    return marked >> _ACTIVITY_BITS, Activity(marked & (1 << _ACTIVITY_BITS) - 1)


class Pipe(Protocol):
    """What a worker needs of its connection."""

    def send(self, obj: Any, /) -> None: ...

    def recv(self) -> Any: ...


class WorkerMarks:
    """A worker's marks that have not been sent yet.

    Once it has an actor of its own, the first step after a reset or a message is told apart, and
    the rest is playing: to read the clock twice a step would cost a percent of the sped-up
    CybORG's speed. Where the main process acts, every step is a message.

    due: the mark from which on they are to be sent.
    """

    def __init__(self) -> None:
        self.envs: TracedEnvs | None = None
        self.actor: TracedActor | None = None
        self.due = 0
        self._marks: list[int] = []

    def add(self, activity: int) -> int:
        """From now on this. Returns the mark."""
        marked = time.perf_counter_ns() << _ACTIVITY_BITS | activity
        self._marks.append(marked)
        return marked

    def turn_to(self, activity: int) -> int:
        """From now on this, and after it steps. Returns the mark."""
        if self.actor is not None and self.envs is not None:
            self.actor.watch()
            self.envs.watch()
        return self.add(activity)

    def take(self) -> bytes:
        """All marks so far, int64, which it forgets."""
        self.due = self._marks[-1] + (SENT_EVERY << _ACTIVITY_BITS)
        marks = array("q", self._marks).tobytes()
        self._marks.clear()
        return marks

    def along(self, answer: Any) -> Any:
        """The message of an answer that is sent now: the marks go with it if they are due."""
        return (answer, self.take()) if self.turn_to(_SENDING) >= self.due else answer

    def last(self) -> tuple[None, bytes]:
        """The message of the marks that are left, with no answer."""
        self.add(Activity.IDLE)
        return None, self.take()


class TracedPipe:
    """Marks waiting and sending, and now and then sends the marks along: see `Trace.take_marks`."""

    def __init__(self, pipe: Pipe, marks: WorkerMarks) -> None:
        self._pipe = pipe
        self._marks = marks

    def send(self, answer: Any, /) -> None:
        """Send it, along with the marks if they are due."""
        self._pipe.send(self._marks.along(answer))

    def recv(self) -> Any:
        """The next request."""
        self._marks.turn_to(_WAITING)
        return self._pipe.recv()

    def send_last(self) -> None:
        """Send the marks that are left, with no answer."""
        self._pipe.send(self._marks.last())


class TracedEnvs:
    """Envs that mark resetting and, while watched, stepping."""

    step: Callable[..., Transitions]

    def __init__(self, envs: EnvBatch, marks: WorkerMarks) -> None:
        self.n_envs = envs.n_envs
        self.close = envs.close
        self._envs = envs
        self._marks = marks
        marks.envs = self
        self.watch()

    def watch(self) -> None:
        """Mark the next step."""
        self.step = self._first_step

    def reset(self, envs: Sequence[int], specs: Sequence[EpisodeSpec]) -> Obs:
        """Begin an episode in each of M envs. Returns obs [M, D]."""
        self._marks.turn_to(Activity.RESETTING)
        return self._envs.reset(envs, specs)

    def _first_step(self, envs: Sequence[int], actions: Actions) -> Transitions:
        self._marks.add(_STEPPING)
        if self._marks.actor is not None:
            self.step = self._envs.step
        return self._envs.step(envs, actions)


class TracedActor:
    """An actor that, while watched, marks acting, and what comes after that step as playing."""

    act: Callable[..., Choice]

    def __init__(self, actor: Actor, marks: WorkerMarks) -> None:
        self.policy_version = actor.policy_version
        self.reset = actor.reset
        self._actor = actor
        self._marks = marks
        marks.actor = self
        self.watch()

    def watch(self) -> None:
        """Mark the next time it acts."""
        self.act = self._first_act

    def _first_act(self, *observed: Any) -> Choice:
        self._marks.add(Activity.ACTING)
        self.act = self._second_act
        return self._actor.act(*observed)

    def _second_act(self, *observed: Any) -> Choice:
        self._marks.add(Activity.PLAYING)
        self.act = self._actor.act
        return self._actor.act(*observed)


class Trace:
    """Gathers the rows of a run; a context manager that writes the file at its end, however that
    comes about. May be written to from any thread, each row from one at a time.

    path: the file; None records nothing.
    about: plain values that go into the file, for whoever draws it.
    max_spans: after so many the rest of the run is left out.
    """

    def __init__(
        self,
        path: Path | None = None,
        about: Mapping[str, Any] | None = None,
        max_spans: int = MAX_SPANS,
    ) -> None:
        self.path = path
        self._about = dict(about or {})
        self._rows: defaultdict[str, array[int]] = defaultdict(lambda: array("q"))
        # Without a lock: two threads at once may miscount, by little.
        self._room = max_spans

    @property
    def is_on(self) -> bool:
        """Whether anything is recorded."""
        return self.path is not None

    def mark(self, row: str, activity: Activity) -> None:
        """From now on the row does this."""
        if self.path is not None and self._room > 0:
            self._rows[row].append(time.perf_counter_ns() << _ACTIVITY_BITS | activity)
            self._room -= 1

    def take_marks(self, worker: str, message: Any, ahead: int = 0) -> Any:
        """The answer in a worker's message, without the marks that may come with it.

        ahead: nanoseconds to add to the worker's clock, if it is another machine's.
        """
        if type(message) is not tuple:
            return message
        answer, marks = message
        shift = ahead << _ACTIVITY_BITS
        self.extend(worker, [marked + shift for marked in array("q", marks)])
        return answer

    def extend(self, row: str, marks: Sequence[int]) -> None:
        """Marks of a row, later than all it has."""
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
        """The rows in the Trace Event Format: complete events ("X"), a thread for each row.

        Times in microseconds from the first mark.
        """
        rows = sorted(self._rows, key=_place)
        start = min((unpacked(marks[0])[0] for marks in self._rows.values() if marks), default=0)
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
    """The learner first, then the collector, then the workers by number."""
    number = row.rpartition("-")[2]
    return row != LEARNER, row != COLLECTOR, int(number) if number.isdecimal() else 0


def _metadata(name: str, tid: int, args: Mapping[str, Any]) -> str:
    return json.dumps({"name": name, "ph": "M", "pid": 1, "tid": tid, "args": args})


def _events(marks: array[int], tid: int, start: int) -> Iterator[str]:
    for marked, following in pairwise(marks):
        (begin, activity), (end, next_activity) = unpacked(marked), unpacked(following)
        # What a process did last has no end that anyone knows: its replacement starts later.
        if activity != Activity.IDLE and next_activity != Activity.STARTING:
            yield (
                f'{{"name":"{activity.name.lower()}","ph":"X","ts":{_microseconds(begin - start)},'
                f'"dur":{_microseconds(end - begin)},"pid":1,"tid":{tid}}}'
            )


def _microseconds(nanoseconds: int) -> str:
    """Exact in decimals, so that where one span ends and the next begins stays one number."""
    return f"{nanoseconds // 1000}.{nanoseconds % 1000:03d}"
