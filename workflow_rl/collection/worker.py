"""What runs in a worker process: the answers to requests, envs and an actor, and marks of a trace.

This module does not import torch.
"""

from __future__ import annotations

import os
import sysconfig
import time
import traceback
from array import array
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import cloudpickle

from workflow_rl.agents.policies.numpy_policy import Actor, burn_in_of
from workflow_rl.collection.messages import Command, Failure, Reply, Request, Unroll
from workflow_rl.collection.player import Player, at_reset, play_episodes, player_at
from workflow_rl.collection.trace import ACTIVITY_BITS, Activity
from workflow_rl.environments.env_batch import DelayedEnvs, EnvBatch, EpisodeError
from workflow_rl.environments.episode import EpisodeSpec
from workflow_rl.environments.simulator_process import exception_parts
from workflow_rl.errors import ElsewhereError, ObservationError
from workflow_rl.terminal import MOST, shortened

if TYPE_CHECKING:
    from workflow_rl.environments.env_batch import Obs

_ROOT = Path(__file__).resolve().parents[2]
_OWN_CODE = (str(_ROOT / "workflow_rl") + os.sep, str(_ROOT / "agents") + os.sep)
_LIBRARIES = tuple(sysconfig.get_path(name) + os.sep for name in ("stdlib", "purelib", "platlib"))
"""The folders of this package and of libraries. Frames of other files are the user's code."""


class Worker:
    """A worker's envs and actor, and its answers to requests.

    step_delay: seconds that are added to every step. traced: record the worker's activities, and
    send the record with answers.

    start_result: the result of the reply to START. failure: the Failure that ended the worker, or
    None. send: sends a message during the function of an ASK.
    """

    def __init__(self, n_envs: int, step_delay: float = 0.0, traced: bool = False) -> None:
        self.start_result: Any = None
        self.failure: Failure | None = None
        self.send: Callable[[Any], object]
        self._n_envs = n_envs
        self._step_delay = step_delay
        self._marks = WorkerMarks() if traced else None
        self._envs: EnvBatch
        self._actor: Actor
        self._player: Player
        self._mark(Activity.STARTING)

    def _mark(self, activity: Activity) -> None:
        """If the worker is traced, record that it begins this activity."""
        if self._marks is not None:
            self._marks.add(activity)

    def messages(self, request: Request) -> Iterator[Any]:
        """Do what a request asks. Yield the messages to send: replies, and a Failure at the end.

        After a failure, every request yields the Failure. `Trace.take_marks` reads the messages.
        """
        if self.failure is None:
            try:
                for reply in self._replies(*request):
                    yield self._with_marks(reply)
            except GeneratorExit:
                raise
            except BaseException as error:
                self.failure = failure_of(request.command, error)
        if self.failure is not None:
            yield self._with_marks(self.failure)
        elif self._marks is not None:
            if request.command is Command.CLOSE:
                yield self._marks.last()
            else:
                self._marks.add(Activity.WAITING)

    def _with_marks(self, answer: Reply | Failure) -> Any:
        return answer if self._marks is None else self._marks.along(answer)

    def _replies(self, command: Command, payload: Any) -> Iterator[Reply]:
        start = time.perf_counter()
        match command:
            case Command.START:
                self._envs = cloudpickle.loads(payload)(self._n_envs)
                if self._step_delay:
                    self._envs = DelayedEnvs(self._envs, self._step_delay)
                yield Reply(self.start_result)
            case Command.LOAD_ACTOR:
                self._mark(Activity.LOADING)
                self._actor = cloudpickle.loads(payload)
            case Command.PLAY:
                yield from self._play(payload)
            case Command.UNROLL:
                yield from self._unroll(payload)
            case Command.RESET:
                self._mark(Activity.RESETTING)
                first = at_reset(self._envs.reset(*payload))
                yield Reply(first, time.perf_counter() - start)
            case Command.STEP:
                self._mark(Activity.STEPPING)
                transitions = self._envs.step(*payload)
                yield Reply(transitions, time.perf_counter() - start)
            case Command.ASK:
                cloudpickle.loads(payload)(self._envs, lambda *told: self.send(Reply(told)))
                yield Reply(None)
            case Command.CLOSE:
                self._envs.close()

    @property
    def _played(self) -> EnvBatch:
        """The envs for a worker that acts by itself."""
        return self._envs if self._marks is None else TracedEnvs(self._envs, self._marks)

    def _play(self, specs: Sequence[EpisodeSpec]) -> Iterator[Reply]:
        start = time.perf_counter()
        for finished in play_episodes(self._played, self._actor, specs):
            yield Reply(finished, time.perf_counter() - start)
            self._mark(Activity.PLAYING)
            start = time.perf_counter()

    def _unroll(self, unroll: Unroll) -> Iterator[Reply]:
        start = time.perf_counter()
        self._mark(Activity.PLAYING)
        if unroll.positions is not None:
            self._player = player_at(self._played, unroll.positions, burn_in_of(self._actor))
        trajectories = self._player.unroll(self._actor, unroll.n_steps)
        yield Reply(trajectories, time.perf_counter() - start)


def failure_of(command: Command, error: BaseException) -> Failure:
    spec = final = None
    raised = error
    if isinstance(error, EpisodeError):
        spec, raised = error.spec, error.__cause__ or error
        if isinstance(raised, ObservationError):
            final = f"{error} {raised}"
    if isinstance(raised, ElsewhereError):
        what, place, told = raised.what, raised.place, raised.told
    else:
        what, place, told = exception_parts(raised, _OWN_CODE + _LIBRARIES)
        if not place and (frames := traceback.extract_tb(raised.__traceback__)):
            place = f" ({frames[-1].filename}, line {frames[-1].lineno})"
    summary = shortened(what, MOST // 4) + place
    return Failure(command, summary, shortened(told, 10 * MOST), spec, final)


# The least nanoseconds between messages with marks. In synchronous collection, marks in the answer
# to every step would cost several percent of the speed.
SENT_EVERY = 50_000_000


class WorkerMarks:
    """The marks of a worker that are not sent yet.

    A worker that acts by itself marks only resets and the playing between resets. To read the clock
    twice in each step would cost a percent of CybORG's speed. If the main process acts, every step
    is a message.

    due: marks are sent with the first message whose mark is not below this number.
    """

    def __init__(self) -> None:
        self.due = 0
        self._marks: list[int] = []

    def add(self, activity: int) -> int:
        """Mark the beginning of this activity. Return the mark."""
        marked = time.perf_counter_ns() << ACTIVITY_BITS | activity
        self._marks.append(marked)
        return marked

    def take(self) -> bytes:
        """Return all marks so far, int64, and forget these marks."""
        self.due = self._marks[-1] + (SENT_EVERY << ACTIVITY_BITS)
        marks = array("q", self._marks).tobytes()
        self._marks.clear()
        return marks

    def along(self, answer: Any) -> Any:
        """Return the message for an answer that is sent now. If marks are due, they are in it.

        `Trace.take_marks` reads the message.
        """
        return (answer, self.take()) if self.add(Activity.SENDING) >= self.due else answer

    def last(self) -> tuple[None, bytes]:
        """Return the last message, which has the remaining marks and no answer."""
        self.add(Activity.IDLE)
        return None, self.take()


class TracedEnvs:
    """An EnvBatch that marks resetting, and playing after each reset."""

    def __init__(self, envs: EnvBatch, marks: WorkerMarks) -> None:
        self.n_envs, self.step, self.close = envs.n_envs, envs.step, envs.close
        self._envs, self._marks = envs, marks

    def reset(self, envs: Sequence[int], specs: Sequence[EpisodeSpec]) -> Obs:
        self._marks.add(Activity.RESETTING)
        obs = self._envs.reset(envs, specs)
        self._marks.add(Activity.PLAYING)
        return obs
