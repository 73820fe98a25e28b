"""When rollouts are collected: before the learner wants one, or while it learns from another."""

from __future__ import annotations

import functools
import itertools
import math
import queue
import threading
import time
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import Future, wait
from typing import Protocol, Self, TypeAlias

from agents.numpy_policy import NumpyPolicy
from agents.trajectory import Trajectory
from workflow_rl.config import TrainConfig
from workflow_rl.episode import EpisodeSpec, episode_spec
from workflow_rl.parallel_env_async import AsyncParallelEnv
from workflow_rl.rollout import Collector, Rollout, in_order, joined
from workflow_rl.slots import Slot, first_slots
from workflow_rl.work import Work
from workflow_rl.worker_pool import POLL_SECONDS, WorkerPool

JOIN_SECONDS = 1.0

Play: TypeAlias = Callable[[], Rollout | None]

PlayBatch: TypeAlias = Callable[[NumpyPolicy, int], Rollout]
"""Collects the batch of this number, counted from 0, with this policy."""

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

    def policies(self) -> list[NumpyPolicy]:
        """Those whose rollouts the learner has not had yet, oldest first."""

    def __enter__(self) -> Self: ...

    def __exit__(self, *error: object) -> None: ...


class _CollectorThread:
    """The thread that alone speaks to the workers: it plays one thing after another.

    Once one has failed the workers are in disarray, and all later ones fail for the same reason.
    """

    def __init__(self, pool: WorkerPool) -> None:
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
    before. A rollout depends on its number and its policy alone, so that a run is the same
    whichever takes longer.

    policies: those of the first batches, if the run is a resumed one.
    """

    def __init__(
        self,
        pool: WorkerPool,
        collector: Collector,
        play_batch: PlayBatch,
        lag: int,
        first_batch: int = 0,
        policies: Sequence[NumpyPolicy] = (),
    ) -> None:
        self.lag = lag
        self._pool = pool
        self._collector = collector
        self._play_batch = play_batch
        self._next_batch = first_batch
        self._to_begin = deque(policies)
        self._begun: deque[tuple[NumpyPolicy, Future[Rollout | None]]] = deque()

    def _begin(self, policy: NumpyPolicy) -> None:
        play = functools.partial(self._play_batch, policy, self._next_batch)
        self._begun.append((policy, self._thread.submit(play)))
        self._next_batch += 1

    def next_rollout(self, policy: NumpyPolicy) -> Rollout:
        """The rollout of `lag` updates ago, while that of `policy` begins to be collected."""
        while len(self._begun) <= self.lag:
            self._begin(policy)
        rollout = _result_of(self._begun[0][1])
        self._begun.popleft()
        waiting = sum(future.done() for _, future in self._begun)
        return rollout._replace(queue_length=waiting)

    def evaluate(self, policy: NumpyPolicy, specs: Sequence[EpisodeSpec]) -> Rollout:
        """Play these once the batches begun are collected."""
        play = functools.partial(self._collector.collect, policy, specs)
        return _result_of(self._thread.submit(play))

    def policies(self) -> list[NumpyPolicy]:
        """Those whose rollouts the learner has not had yet, oldest first."""
        return [*(policy for policy, _ in self._begun), *self._to_begin]

    def __enter__(self) -> Self:
        self._thread = _CollectorThread(self._pool)
        while self._to_begin:
            self._begin(self._to_begin.popleft())
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
        pool: WorkerPool,
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

    def policies(self) -> list[NumpyPolicy]:
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


def make_schedule(
    config: TrainConfig,
    pool: WorkerPool,
    collector: Collector,
    updates: int,
    episodes: int,
    slots: list[Slot] | None,
    policies: Sequence[NumpyPolicy],
) -> Schedule:
    """The schedule that a config asks for.

    updates, episodes: that the run has behind it. slots, policies: where a run to be resumed left
    its envs, and the policies of the batches it had begun.
    """
    if config.num_steps_per_env is not None:
        slots = slots or first_slots(config.seed, config.red_agent, config.n_envs, episodes)
        collector.start_slots(slots, config.num_steps_per_env)
    play_batch = functools.partial(_play_batch, config, collector)
    if config.batching == "exact-lag":
        lag = config.num_batches_to_accumulate if config.async_rl else 0
        return ExactLag(pool, collector, play_batch, lag, updates, policies)
    batches: Batches
    if config.batching == "whole-batches":
        batches = functools.partial(_whole_batches, play_batch, itertools.count(updates))
    else:
        assert isinstance(collector, AsyncParallelEnv)
        batches = _FirstCome(config, collector, episodes).batches
    drop = config.when_full == "drop"
    return FreeRunning(
        pool, collector, batches, config.num_batches_to_accumulate, drop, config.take_all
    )


def _play_batch(
    config: TrainConfig, collector: Collector, policy: NumpyPolicy, number: int
) -> Rollout:
    """The same share of every env, or so many episodes as there are left."""
    if config.num_steps_per_env is not None:
        return collector.unroll(
            policy, config.steps_per_update // (config.n_envs * config.num_steps_per_env)
        )
    size = config.episodes_per_update
    last = (number + 1) * size
    if config.batching == "exact-lag":
        last = min(last, config.total_episodes)
    specs = [
        episode_spec(config.seed, episode, config.red_agent)
        for episode in range(number * size, last)
    ]
    return collector.collect(policy, specs)


def _whole_batches(
    play_batch: PlayBatch, numbers: Iterator[int], newest: Newest
) -> Generator[Rollout, None, None]:
    while (policy := newest()) is not None:
        yield play_batch(policy, next(numbers))


class _FirstCome:
    """Batches of whatever the workers send first."""

    def __init__(
        self, config: TrainConfig, collector: AsyncParallelEnv, first_episode: int
    ) -> None:
        self._config = config
        self._collector = collector
        self._work = self._endless_work(first_episode)
        self._trajectories: list[Trajectory] = []
        self._seconds = self._busy_seconds = 0.0
        self._failures_before = 0

    def _endless_work(self, first_episode: int) -> Work:
        config = self._config
        if config.num_steps_per_env is not None:
            unrolls = self._collector.unroll_work()
            unrolls.add_rounds(math.inf)
            return unrolls
        numbers = itertools.count(first_episode)
        specs = (episode_spec(config.seed, number, config.red_agent) for number in numbers)
        return self._collector.episode_work(specs, math.inf)

    def batches(self, newest: Newest) -> Generator[Rollout, None, None]:
        """One after another; what is left at a pause is the beginning of the next."""
        start = time.perf_counter()
        for trajectories, busy_seconds in self._collector.play(self._work, newest):
            self._trajectories += trajectories
            self._busy_seconds += busy_seconds
            if self._is_enough():
                now = time.perf_counter()
                self._seconds += now - start
                start = now
                yield self._take()
        self._seconds += time.perf_counter() - start

    def _is_enough(self) -> bool:
        if self._config.num_steps_per_env is None:
            return len(self._trajectories) >= self._config.episodes_per_update
        return sum(t.length for t in self._trajectories) >= self._config.steps_per_update

    def _take(self) -> Rollout:
        pool = self._collector.pool
        rollout = Rollout(
            trajectories=in_order(self._trajectories),
            collect_seconds=self._seconds,
            busy_seconds=self._busy_seconds,
            n_workers=pool.n_workers,
            workers_restarted=pool.failures - self._failures_before,
        )
        self._trajectories = []
        self._seconds = self._busy_seconds = 0.0
        self._failures_before = pool.failures
        return rollout
