"""The thread that speaks to the workers, while the learner's thread learns."""

from __future__ import annotations

import functools
import threading
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future, wait
from typing import NamedTuple, TypeAlias

from workflow_rl.agents.policies.numpy_policy import Actor
from workflow_rl.collection.pool import POLL_SECONDS, AnyPool
from workflow_rl.collection.rollout import Following, Rollout
from workflow_rl.collection.trace import COLLECTOR, Activity
from workflow_rl.environments.episode import EpisodeSpec

JOIN_SECONDS = 1.0

Play: TypeAlias = Callable[[Following], Rollout | None]
"""Collect with the workers. Those for which nothing is left begin with what follows."""


class _Submitted(NamedTuple):
    """What the thread is to play. begin_early: gives its episodes, if they are known before."""

    future: Future[Rollout | None]
    play: Play
    begin_early: Following


class CollectorThread:
    """The only thread that speaks to the workers. It plays what is submitted, one after another.

    The schedules of several policies may share the thread. Once a play has failed, the state of the
    workers is unknown, and all later plays fail for the same reason.
    """

    def __init__(self, pool: AnyPool) -> None:
        self._pool = pool
        self._thread: threading.Thread | None = None
        self._changed = threading.Condition()  # Guards both below.
        self._submitted: deque[_Submitted] = deque()
        self._closing = False

    def start(self) -> None:
        """Start the thread. May be called again."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="collector", daemon=True)
            self._thread.start()

    def submit(self, play: Play, begin_early: Following = lambda: None) -> Future[Rollout | None]:
        """Have the thread play this after all that was submitted before."""
        future: Future[Rollout | None] = Future()
        with self._changed:
            self._submitted.append(_Submitted(future, play, functools.cache(begin_early)))
            self._changed.notify()
        return future

    def mark(self, activity: Activity) -> None:
        """Mark in the trace what the collector does from now on."""
        self._pool.trace.mark(COLLECTOR, activity)

    def close(self) -> None:
        """Make the thread give up what it is playing, within seconds. May be called again."""
        if self._thread is None:
            return
        self._pool.cancel()
        with self._changed:
            self._closing = True
            self._changed.notify()
        self._thread.join(JOIN_SECONDS)
        if self._thread.is_alive():
            # It reads half a message of a worker that hangs. The end of the worker frees it.
            self._pool.close()
            self._thread.join()

    def _run(self) -> None:
        failure: BaseException | None = None
        while (submitted := self._next()) is not None:
            try:
                if failure is not None:
                    raise failure
                submitted.future.set_result(submitted.play(self._following))
            except BaseException as error:
                failure = error
                submitted.future.set_exception(error)

    def _next(self) -> _Submitted | None:
        """Wait for what to play next; None once the thread is to end."""
        with self._changed:
            self._changed.wait_for(lambda: self._submitted or self._closing)
            return self._submitted.popleft() if self._submitted else None

    def _following(self) -> tuple[Actor, Sequence[EpisodeSpec]] | None:
        with self._changed:
            following = self._submitted[0] if self._submitted else None
        return following and following.begin_early()


def result_of(future: Future[Rollout | None]) -> Rollout:
    """Wait for a rollout, and act on signals meanwhile. Raises what the play raised."""
    # Python runs signal handlers in the main thread alone, which must wake up for that: the signal
    # itself may have come to another thread.
    while not future.done():
        wait([future], POLL_SECONDS)
    rollout = future.result()
    assert rollout is not None
    return rollout
