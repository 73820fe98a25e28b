"""When rollouts are collected: on the learner's request, or while the learner learns."""

from __future__ import annotations

import functools
import threading
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future, wait
from dataclasses import dataclass
from typing import NamedTuple, Self, TypeAlias

from workflow_rl.agents.policies.numpy_policy import Actor, Policy
from workflow_rl.collection.messages import TooManyFailuresError
from workflow_rl.collection.pool import POLL_SECONDS, AnyPool
from workflow_rl.collection.rollout import Collector, Following, Rollout
from workflow_rl.collection.trace import COLLECTOR, Activity
from workflow_rl.environments.episode import EpisodeSpec


class Share(NamedTuple):
    """The part of a run that a batch plays: `n_episodes` episodes, or unrolls of all envs if 0."""

    first_episode: int
    n_episodes: int

    @property
    def end(self) -> int:
        return self.first_episode + self.n_episodes


class BegunBatch(NamedTuple):
    """A batch that the learner has not taken yet, and the policy that collects it.

    share: what the batch plays; None if it is not chosen yet.
    """

    policy: Policy
    share: Share | None


PlayBatch: TypeAlias = Callable[[Policy, Share, Following], Rollout]
"""Collects a batch with a policy. Idle workers may begin with the following batch."""

SpecsOf: TypeAlias = Callable[[Share], Sequence[EpisodeSpec]]
"""Returns the episodes of a batch."""

NextShare: TypeAlias = Callable[[int], Share]
"""Returns the share of the next batch, from the number of episodes in batches not taken yet."""


@dataclass(eq=False)
class Schedule(ABC):
    """Gives the learner its rollouts. A context manager; closing is bounded and idempotent.

    Calls raise TooManyFailuresError, StopRequested.
    """

    thread: CollectorThread
    collector: Collector

    @abstractmethod
    def next_rollout(self, policy: Policy) -> Rollout:
        """Return the next rollout to learn from. policy: the learner's current policy."""

    @abstractmethod
    def begin(self, policy: Policy) -> None:
        """Give the workers the batch that the next call of `next_rollout` would give them."""

    @abstractmethod
    def begun(self) -> list[BegunBatch]:
        """Return the batches that the learner has not taken yet, for a resumed run, in order."""

    def evaluate(self, policy: Policy, specs: Sequence[EpisodeSpec]) -> Rollout:
        """Play these episodes after all submitted batches. Unplayable episodes are left out."""

        def play(following: Following) -> Rollout:
            try:
                return self.collector.collect(policy, specs)
            except TooManyFailuresError as error:
                if error.rollout is None:
                    raise
                return error.rollout

        return result_of(self.thread.submit(play))

    def __enter__(self) -> Self:
        self.thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.thread.close()


@dataclass(eq=False)
class ExactLag(Schedule):
    """Collects batch `b` with the weights after `b - lag` updates, or the first weights.

    With lag 0, learning and collecting take turns. With lag 1 they overlap, as in Cleanba (Huang et
    al. 2023): while the learner learns from a batch, the workers collect the next batch with the
    weights from before that update. Workers without work in a batch begin with the following batch.
    A rollout depends only on its share and its policy. So a run does not depend on whether learning
    or collecting takes longer.

    next_share: returns the share of the next batch. specs_of: returns a batch's episodes, or is
    None if no batch may begin early. resumed: the first batches of a resumed run.
    """

    play_batch: PlayBatch
    next_share: NextShare
    specs_of: SpecsOf | None
    lag: int
    resumed: Sequence[BegunBatch] = ()

    def __post_init__(self) -> None:
        self._to_begin = deque(self.resumed)
        self._begun: deque[tuple[BegunBatch, Share, Future[Rollout | None]]] = deque()

    def _submit(self, policy: Policy, share: Share | None = None) -> None:
        if share is None:
            share = self.next_share(sum(other.n_episodes for _, other, _ in self._begun))

        def begin_early() -> tuple[Actor, Sequence[EpisodeSpec]] | None:
            return None if self.specs_of is None else (policy, self.specs_of(share))

        play = functools.partial(self.play_batch, policy, share)
        future = self.thread.submit(play, begin_early)
        self._begun.append((BegunBatch(policy, share), share, future))

    def begin(self, policy: Policy) -> None:
        while len(self._begun) <= self.lag:
            self._submit(policy)

    def next_rollout(self, policy: Policy) -> Rollout:
        """Submit a batch with `policy`, and return the rollout of the batch of `lag` calls ago."""
        self.begin(policy)
        rollout = result_of(self._begun[0][2])
        self._begun.popleft()
        waiting = sum(future.done() for *_, future in self._begun)
        return rollout._replace(queue_length=waiting)

    def begun(self) -> list[BegunBatch]:
        return [*(batch for batch, *_ in self._begun), *self._to_begin]

    def __enter__(self) -> Self:
        super().__enter__()
        while self._to_begin:
            self._submit(*self._to_begin.popleft())
        return self


JOIN_SECONDS = 1.0

Play: TypeAlias = Callable[[Following], Rollout | None]
"""Collects with the workers. Workers without work begin with the following collection."""


class _Submitted(NamedTuple):
    """A collection that the thread shall play. begin_early: returns its episodes, if known."""

    future: Future[Rollout | None]
    play: Play
    begin_early: Following


class CollectorThread:
    """The only thread that speaks to the workers. It plays submitted collections in order.

    The schedules of several policies may share the thread. After a collection has failed, the state
    of the workers is unknown. So all later collections fail with the same exception.
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
        """Let the thread play this after all earlier submissions."""
        future: Future[Rollout | None] = Future()
        with self._changed:
            self._submitted.append(_Submitted(future, play, functools.cache(begin_early)))
            self._changed.notify()
        return future

    def mark(self, activity: Activity) -> None:
        self._pool.trace.mark(COLLECTOR, activity)

    def close(self) -> None:
        """Make the thread stop its collection, within seconds. May be called again."""
        if self._thread is None:
            return
        self._pool.cancel()
        with self._changed:
            self._closing = True
            self._changed.notify()
        self._thread.join(JOIN_SECONDS)
        if self._thread.is_alive():
            # The thread reads half a message of a worker that hangs. The worker's end frees it.
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
        """Wait for the next submission. Return None when the thread must end."""
        with self._changed:
            self._changed.wait_for(lambda: self._submitted or self._closing)
            return self._submitted.popleft() if self._submitted else None

    def _following(self) -> tuple[Actor, Sequence[EpisodeSpec]] | None:
        with self._changed:
            following = self._submitted[0] if self._submitted else None
        return following and following.begin_early()


def result_of(future: Future[Rollout | None]) -> Rollout:
    """Wait for a rollout, and handle signals while waiting. Raises what the collection raised."""
    # Python runs signal handlers only in the main thread. It must wake up for them, because another
    # thread may have received the signal.
    while not future.done():
        wait([future], POLL_SECONDS)
    rollout = future.result()
    assert rollout is not None
    return rollout
