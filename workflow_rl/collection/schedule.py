"""When rollouts are collected: before the learner wants one, or while it learns from another."""

from __future__ import annotations

import functools
import queue
import threading
from collections import deque
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import Future, wait
from typing import NamedTuple, Protocol, Self, TypeAlias

from agents.numpy_policy import NumpyPolicy
from workflow_rl.collection.episode import EpisodeSpec
from workflow_rl.collection.rollout import Collector, Rollout, joined
from workflow_rl.collection.workers import POLL_SECONDS, Workers

JOIN_SECONDS = 1.0

Play: TypeAlias = Callable[[], Rollout | None]


class Share(NamedTuple):
    """What a batch plays: so many of the run's episodes, or, if 0, unrolls of all envs."""

    first_episode: int
    n_episodes: int

    @property
    def end(self) -> int:
        """The first episode after it."""
        return self.first_episode + self.n_episodes


class BegunBatch(NamedTuple):
    """A batch that the learner has not had yet, and the policy that it is collected with.

    share: None if it is still to be chosen.
    """

    policy: NumpyPolicy
    share: Share | None


FollowingBatch: TypeAlias = Callable[[], BegunBatch | None]
"""The batch after this one, once it is known."""

PlayBatch: TypeAlias = Callable[[NumpyPolicy, Share, FollowingBatch], Rollout]
"""Collects a batch with this policy, and may begin with the following one."""

NextShare: TypeAlias = Callable[[int], Share]
"""What the next batch plays, when so many episodes are in batches that the learner has not had."""

Newest: TypeAlias = Callable[[], NumpyPolicy | None]
"""The policy to collect with now; None if collecting is to pause."""

Batches: TypeAlias = Callable[[Newest], Generator[Rollout, None, None]]
"""Collects one batch after another, until it is to pause. Called again, it goes on from there."""


class Schedule(Protocol):
    """Gives the learner its rollouts. A context manager; closing is bounded and idempotent.

    Calls raise TooManyFailuresError, StopRequested.
    """

    def next_rollout(self, policy: NumpyPolicy) -> Rollout:
        """The next one to learn from. `policy` is the learner's present one."""

    def evaluate(self, policy: NumpyPolicy, specs: Sequence[EpisodeSpec]) -> Rollout:
        """Play these, beside the training."""

    def begun(self) -> list[BegunBatch]:
        """Those that the learner has not had yet, oldest first, where a resumed run needs them."""

    def __enter__(self) -> Self: ...

    def __exit__(self, *error: object) -> None: ...


class _CollectorThread:
    """The thread that alone speaks to the workers: it plays one thing after another.

    Once one has failed the workers are in disarray, and all later ones fail for the same reason.
    """

    def __init__(self, pool: Workers) -> None:
        self._pool = pool
        self._queue: queue.SimpleQueue[tuple[Future[Rollout | None], Play] | None]
        self._queue = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="collector", daemon=True)
        self._thread.start()

    def submit(self, play: Play) -> Future[Rollout | None]:
        """Have it play this after all before."""
        future: Future[Rollout | None] = Future()
        self._queue.put((future, play))
        return future

    def close(self) -> None:
        """Have it give up whatever it does. Takes a few seconds at most."""
        self._pool.cancel()
        self._queue.put(None)
        self._thread.join(JOIN_SECONDS)
        if self._thread.is_alive():
            # Half-way through a message of a worker that hangs: without the worker it goes on.
            self._pool.close()
            self._thread.join()

    def _run(self) -> None:
        failure: BaseException | None = None
        while (submitted := self._queue.get()) is not None:
            future, play = submitted
            try:
                if failure is not None:
                    raise failure
                future.set_result(play())
            except BaseException as error:
                failure = error
                future.set_exception(error)


def _result_of(future: Future[Rollout | None]) -> Rollout:
    # Python calls signal handlers in the main thread alone, which has to wake up for that: the
    # signal itself may have come to another thread.
    while not future.done():
        wait([future], POLL_SECONDS)
    rollout = future.result()
    assert rollout is not None
    return rollout


class ExactLag:
    """Batch `b` is collected with the weights that have seen `b - lag` updates: none at first.

    With lag 0 learning and collecting take turns. With lag 1 they overlap, as in Cleanba (Huang et
    al. 2023): while the learner learns from a batch, the next is collected with the weights from
    before, and workers for which nothing is left of a batch begin with the following one. A rollout
    depends on its share and its policy alone, so that a run is the same whichever takes longer.

    begun: the first batches, if the run is a resumed one.
    """

    def __init__(
        self,
        pool: Workers,
        collector: Collector,
        play_batch: PlayBatch,
        next_share: NextShare,
        lag: int,
        begun: Sequence[BegunBatch] = (),
    ) -> None:
        self.lag = lag
        self._pool = pool
        self._collector = collector
        self._play_batch = play_batch
        self._next_share = next_share
        self._to_begin = deque(begun)
        self._begun: deque[tuple[int, Future[Rollout | None]]] = deque()
        # By number. The collector's thread reads it while the learner's begins further ones.
        self._batches: dict[int, BegunBatch] = {}
        self._next_number = 0

    def _begin(self, policy: NumpyPolicy, share: Share | None = None) -> None:
        if share is None:
            begun = (batch.share for batch in self._batches.values())
            share = self._next_share(sum(other.n_episodes for other in begun if other is not None))
        number = self._next_number
        self._next_number += 1
        self._batches[number] = BegunBatch(policy, share)
        play = functools.partial(
            self._play_batch, policy, share, lambda: self._batches.get(number + 1)
        )
        self._begun.append((number, self._thread.submit(play)))

    def next_rollout(self, policy: NumpyPolicy) -> Rollout:
        """The rollout of `lag` updates ago, while that of `policy` begins to be collected."""
        while len(self._begun) <= self.lag:
            self._begin(policy)
        rollout = _result_of(self._begun[0][1])
        number, _ = self._begun.popleft()
        del self._batches[number]
        waiting = sum(future.done() for _, future in self._begun)
        return rollout._replace(queue_length=waiting)

    def evaluate(self, policy: NumpyPolicy, specs: Sequence[EpisodeSpec]) -> Rollout:
        """Play these once the batches begun are collected."""
        play = functools.partial(self._collector.collect, policy, specs)
        return _result_of(self._thread.submit(play))

    def begun(self) -> list[BegunBatch]:
        """Those that the learner has not had yet, oldest first."""
        return [*(self._batches[number] for number, _ in self._begun), *self._to_begin]

    def __enter__(self) -> Self:
        self._thread = _CollectorThread(self._pool)
        while self._to_begin:
            self._begin(*self._to_begin.popleft())
        return self

    def __exit__(self, *error: object) -> None:
        self._thread.close()


class FreeRunning:
    """Batches are collected without pause with the newest weights, and wait for the learner.

    Which weights those are, and which samples make a batch, depends on who is faster when: runs
    differ.

    capacity: batches that may wait. When it is reached, collecting pauses, or with `drop` the
    oldest batch is dropped. take_all: the learner takes all that wait at once.
    """

    def __init__(
        self,
        pool: Workers,
        collector: Collector,
        batches: Batches,
        capacity: int,
        drop: bool = False,
        take_all: bool = False,
    ) -> None:
        self._pool = pool
        self._collector = collector
        self._batches = batches
        self._capacity = capacity
        self._drop = drop
        self._take_all = take_all
        self._collecting: Future[Rollout | None] | None = None
        self._changed = threading.Condition()  # Guards all below.
        self._waiting: deque[Rollout] = deque()
        self._to_put: deque[Rollout] = deque()
        self._dropped: list[Rollout] = []
        self._policy: NumpyPolicy | None = None

    def next_rollout(self, policy: NumpyPolicy) -> Rollout:
        """The batch that has waited longest, or all that wait, once there is one."""
        with self._changed:
            self._policy = policy
            if self._collecting is None:
                self._collecting = self._thread.submit(self._collect)
            while not self._waiting and not self._collecting.done():
                self._changed.wait(POLL_SECONDS)  # See _result_of.
            if not self._waiting:
                self._collecting.result()
            taken = [self._waiting.popleft()]
            while self._take_all and self._waiting:
                taken.append(self._waiting.popleft())
            dropped, self._dropped = self._dropped, []
            queue_length = len(self._waiting)
            self._changed.notify_all()
        return joined(dropped + taken)._replace(queue_length=queue_length)

    def evaluate(self, policy: NumpyPolicy, specs: Sequence[EpisodeSpec]) -> Rollout:
        """Play these once the workers have finished what they are at, which is not lost."""
        self._pause()
        play = functools.partial(self._collector.collect, policy, specs)
        self._collecting = None
        return _result_of(self._thread.submit(play))

    def begun(self) -> list[BegunBatch]:
        """None: a resumed run begins its batches anew."""
        return []

    def __enter__(self) -> Self:
        self._thread = _CollectorThread(self._pool)
        return self

    def __exit__(self, *error: object) -> None:
        self._pause()
        self._thread.close()

    def _pause(self) -> None:
        """Have collecting end soon; the next call of `next_rollout` lets it go on."""
        with self._changed:
            self._policy = None
            self._changed.notify_all()

    def _collect(self) -> None:
        self._put()
        for rollout in self._batches(lambda: self._policy):
            self._to_put.append(rollout)
            self._put()

    def _put(self) -> None:
        """Let what has been collected wait for the learner, unless there is to be a pause."""
        with self._changed:
            while self._to_put:
                if self._drop and len(self._waiting) == self._capacity:
                    self._dropped = [joined([*self._dropped, self._waiting.popleft().dropped()])]
                self._changed.wait_for(
                    lambda: len(self._waiting) < self._capacity or self._policy is None
                )
                if len(self._waiting) == self._capacity:
                    return
                self._waiting.append(self._to_put.popleft())
                self._changed.notify_all()
