"""When rollouts are collected: before the learner wants one, or while it learns from another."""

from __future__ import annotations

import functools
import threading
from collections import deque
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import Future, wait
from typing import NamedTuple, Protocol, Self, TypeAlias

from agents.policies.numpy_policy import Actor, NumpyPolicy
from workflow_rl.collection.failures import POLL_SECONDS, Workers
from workflow_rl.collection.rollout import (
    Collector,
    Following,
    NothingPlayableError,
    Rollout,
    joined,
)
from workflow_rl.environments.episode import EpisodeSpec

JOIN_SECONDS = 1.0

Play: TypeAlias = Callable[[Following], Rollout | None]
"""Has the workers play, and those for which nothing is left begin with what follows."""


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


PlayBatch: TypeAlias = Callable[[NumpyPolicy, Share, Following], Rollout]
"""Collects a batch with this policy, and may begin with what follows."""

SpecsOf: TypeAlias = Callable[[Share], Sequence[EpisodeSpec]]
"""The episodes of a batch."""

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

    def begin(self, policy: NumpyPolicy) -> None:
        """Let the workers have what the next call of `next_rollout` would give them."""

    def evaluate(self, policy: NumpyPolicy, specs: Sequence[EpisodeSpec]) -> Rollout:
        """Play these, beside the training. Those that raise are left out, if need be all."""

    def begun(self) -> list[BegunBatch]:
        """Those that the learner has not had yet, oldest first, where a resumed run needs them."""

    def __enter__(self) -> Self: ...

    def __exit__(self, *error: object) -> None: ...


class _Submitted(NamedTuple):
    """What the collector's thread is to play. begin_early: its episodes, if they are known."""

    future: Future[Rollout | None]
    play: Play
    begin_early: Following


class CollectorThread:
    """The thread that alone speaks to the workers: it plays one thing after another.

    The schedules of several policies may share it. Once a play has failed the workers are in
    disarray, and all later ones fail for the same reason.
    """

    def __init__(self, pool: Workers) -> None:
        self._pool = pool
        self._thread: threading.Thread | None = None
        self._changed = threading.Condition()  # Guards both below.
        self._submitted: deque[_Submitted] = deque()
        self._closing = False

    def start(self) -> None:
        """May be called again."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="collector", daemon=True)
            self._thread.start()

    def submit(self, play: Play, begin_early: Following = lambda: None) -> Future[Rollout | None]:
        """Have it play this after all before."""
        future: Future[Rollout | None] = Future()
        with self._changed:
            self._submitted.append(_Submitted(future, play, functools.cache(begin_early)))
            self._changed.notify()
        return future

    def close(self) -> None:
        """Have it give up whatever it does. Takes a few seconds at most. May be called again."""
        if self._thread is None:
            return
        self._pool.cancel()
        with self._changed:
            self._closing = True
            self._changed.notify()
        self._thread.join(JOIN_SECONDS)
        if self._thread.is_alive():
            # Half-way through a message of a worker that hangs: without the worker it goes on.
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
        """None once it is to end."""
        with self._changed:
            self._changed.wait_for(lambda: self._submitted or self._closing)
            return self._submitted.popleft() if self._submitted else None

    def _following(self) -> tuple[Actor, Sequence[EpisodeSpec]] | None:
        with self._changed:
            following = self._submitted[0] if self._submitted else None
        return following and following.begin_early()


def _result_of(future: Future[Rollout | None]) -> Rollout:
    # Python calls signal handlers in the main thread alone, which has to wake up for that: the
    # signal itself may have come to another thread.
    while not future.done():
        wait([future], POLL_SECONDS)
    rollout = future.result()
    assert rollout is not None
    return rollout


def _evaluated(
    thread: CollectorThread,
    collector: Collector,
    policy: NumpyPolicy,
    specs: Sequence[EpisodeSpec],
) -> Rollout:
    def play(following: Following) -> Rollout:
        try:
            return collector.collect(policy, specs)
        except NothingPlayableError as error:
            return error.rollout

    return _result_of(thread.submit(play))


class ExactLag:
    """Batch `b` is collected with the weights that have seen `b - lag` updates: none at first.

    With lag 0 learning and collecting take turns. With lag 1 they overlap, as in Cleanba (Huang et
    al. 2023): while the learner learns from a batch, the next is collected with the weights from
    before, and workers for which nothing is left of a batch begin with the following one. A rollout
    depends on its share and its policy alone, so that a run is the same whichever takes longer.

    specs_of: the episodes of a batch, if it can be begun before the one before it is complete.
    begun: the first batches, if the run is a resumed one.
    """

    def __init__(
        self,
        thread: CollectorThread,
        collector: Collector,
        play_batch: PlayBatch,
        next_share: NextShare,
        specs_of: SpecsOf | None,
        lag: int,
        begun: Sequence[BegunBatch] = (),
    ) -> None:
        self.lag = lag
        self._thread = thread
        self._collector = collector
        self._play_batch = play_batch
        self._next_share = next_share
        self._specs_of = specs_of
        self._to_begin = deque(begun)
        self._begun: deque[tuple[BegunBatch, Share, Future[Rollout | None]]] = deque()

    def _submit(self, policy: NumpyPolicy, share: Share | None = None) -> None:
        if share is None:
            share = self._next_share(sum(other.n_episodes for _, other, _ in self._begun))

        def begin_early() -> tuple[Actor, Sequence[EpisodeSpec]] | None:
            return None if self._specs_of is None else (policy, self._specs_of(share))

        play = functools.partial(self._play_batch, policy, share)
        future = self._thread.submit(play, begin_early)
        self._begun.append((BegunBatch(policy, share), share, future))

    def begin(self, policy: NumpyPolicy) -> None:
        """Have the batches collected that the next call of `next_rollout` would begin."""
        while len(self._begun) <= self.lag:
            self._submit(policy)

    def next_rollout(self, policy: NumpyPolicy) -> Rollout:
        """The rollout of `lag` updates ago, while that of `policy` begins to be collected."""
        self.begin(policy)
        rollout = _result_of(self._begun[0][2])
        self._begun.popleft()
        waiting = sum(future.done() for *_, future in self._begun)
        return rollout._replace(queue_length=waiting)

    def evaluate(self, policy: NumpyPolicy, specs: Sequence[EpisodeSpec]) -> Rollout:
        """Play these once the batches begun are collected."""
        return _evaluated(self._thread, self._collector, policy, specs)

    def begun(self) -> list[BegunBatch]:
        """Those that the learner has not had yet, oldest first."""
        return [*(batch for batch, *_ in self._begun), *self._to_begin]

    def __enter__(self) -> Self:
        self._thread.start()
        while self._to_begin:
            self._submit(*self._to_begin.popleft())
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
        thread: CollectorThread,
        collector: Collector,
        batches: Batches,
        capacity: int,
        drop: bool = False,
        take_all: bool = False,
    ) -> None:
        self._thread = thread
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

    def begin(self, policy: NumpyPolicy) -> None:
        """Have the workers play with this policy from now on."""
        with self._changed:
            self._policy = policy
            if self._collecting is None:
                self._collecting = self._thread.submit(self._collect)

    def next_rollout(self, policy: NumpyPolicy) -> Rollout:
        """The batch that has waited longest, or all that wait, once there is one."""
        self.begin(policy)
        with self._changed:
            assert self._collecting is not None
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
        self._collecting = None
        return _evaluated(self._thread, self._collector, policy, specs)

    def begun(self) -> list[BegunBatch]:
        """None: a resumed run begins its batches anew."""
        return []

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._pause()
        self._thread.close()

    def _pause(self) -> None:
        """Have collecting end soon; the next call of `next_rollout` lets it go on."""
        with self._changed:
            self._policy = None
            self._changed.notify_all()

    def _collect(self, following: Following) -> None:
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
