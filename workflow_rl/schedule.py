"""When rollouts are collected: before the learner wants one, or while it learns from another."""

from __future__ import annotations

import contextlib
import functools
import itertools
import math
import threading
import time
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Protocol, Self, TypeAlias

from agents.numpy_policy import NumpyPolicy
from agents.trajectory import Trajectory
from workflow_rl.config import TrainConfig
from workflow_rl.episode import EpisodeSpec, episode_spec
from workflow_rl.parallel_env_async import AsyncParallelEnv
from workflow_rl.rollout import Collector, Rollout, in_order
from workflow_rl.slots import Slot, first_slots
from workflow_rl.work import Work
from workflow_rl.worker_pool import WorkerPool

PlayBatch: TypeAlias = Callable[[NumpyPolicy, int], Rollout]
"""Collects the batch of this number, counted from 0, with this policy."""

Batches: TypeAlias = Callable[[Callable[[], NumpyPolicy]], Generator[Rollout, None, None]]
"""Collects one batch after another, asking for the newest policy as it goes."""


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
        self._pending: deque[tuple[NumpyPolicy, Future[Rollout]]] = deque()
        self._thread = ThreadPoolExecutor(1, "collector")
        self._first_policies = policies

    def _begin(self, policy: NumpyPolicy) -> None:
        future = self._thread.submit(self._play_batch, policy, self._next_batch)
        self._pending.append((policy, future))
        self._next_batch += 1

    def next_rollout(self, policy: NumpyPolicy) -> Rollout:
        """The rollout of `lag` updates ago, while that of `policy` begins to be collected."""
        while len(self._pending) <= self.lag:
            self._begin(policy)
        _, future = self._pending.popleft()
        waiting = sum(future.done() for _, future in self._pending)
        return future.result()._replace(queue_length=waiting)

    def evaluate(self, policy: NumpyPolicy, specs: Sequence[EpisodeSpec]) -> Rollout:
        """Play these once the batches begun are collected."""
        return self._thread.submit(self._collector.collect, policy, specs).result()

    def policies(self) -> list[NumpyPolicy]:
        """Those whose rollouts the learner has not had yet, oldest first."""
        return [policy for policy, _ in self._pending]

    def __enter__(self) -> Self:
        for policy in self._first_policies:
            self._begin(policy)
        return self

    def __exit__(self, *error: object) -> None:
        self._pool.cancel()
        self._thread.shutdown(cancel_futures=True)


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
        self._changed = threading.Condition()
        self._waiting: deque[Rollout] = deque()
        self._dropped: list[Rollout] = []
        self._policy: NumpyPolicy | None = None
        self._evaluation: Future[Rollout] | None = None
        self._play_evaluation: Callable[[], Rollout] | None = None
        self._failure: BaseException | None = None
        self._closed = False
        self._thread = threading.Thread(target=self._run, name="collector", daemon=True)

    def next_rollout(self, policy: NumpyPolicy) -> Rollout:
        """The batch that has waited longest, or all that wait, once there is one."""
        with self._changed:
            self._policy = policy
            if self._thread.ident is None:
                self._thread.start()
            self._changed.wait_for(lambda: self._waiting or self._failure)
            if self._failure is not None:
                raise self._failure
            taken = [self._waiting.popleft()]
            while self._take_all and self._waiting:
                taken.append(self._waiting.popleft())
            dropped, self._dropped = self._dropped, []
            queue_length = len(self._waiting)
            self._changed.notify_all()
        # The time that went into the dropped ones was spent all the same.
        return taken[0]._replace(
            trajectories=in_order(t for rollout in taken for t in rollout.trajectories),
            collect_seconds=sum(rollout.collect_seconds for rollout in dropped + taken),
            busy_seconds=sum(rollout.busy_seconds for rollout in dropped + taken),
            workers_restarted=sum(rollout.workers_restarted for rollout in dropped + taken),
            queue_length=queue_length,
            dropped_steps=sum(rollout.env_steps for rollout in dropped),
            dropped_episodes=sum(t.ended for rollout in dropped for t in rollout.trajectories),
        )

    def evaluate(self, policy: NumpyPolicy, specs: Sequence[EpisodeSpec]) -> Rollout:
        """Play these between two batches."""
        done: Future[Rollout] = Future()
        with self._changed:
            if self._failure is not None:
                raise self._failure
            self._play_evaluation = functools.partial(self._collector.collect, policy, specs)
            self._evaluation = done
            self._changed.notify_all()
        return done.result()

    def policies(self) -> list[NumpyPolicy]:
        """None: a resumed run begins its batches anew."""
        return []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        self._pool.cancel()
        if self._thread.ident is not None:
            self._thread.join()

    def _run(self) -> None:
        try:
            while not self._closed:
                with contextlib.closing(self._batches(self._newest)) as batches:
                    for rollout in batches:
                        self._put(rollout)
                        if self._closed or self._evaluation is not None:
                            break
                if self._evaluation is not None:
                    self._evaluate()
        except BaseException as error:
            with self._changed:
                self._failure = error
                if self._evaluation is not None:
                    self._evaluation.set_exception(error)
                self._changed.notify_all()

    def _newest(self) -> NumpyPolicy:
        assert self._policy is not None
        return self._policy

    def _put(self, rollout: Rollout) -> None:
        with self._changed:
            if self._drop and len(self._waiting) == self._capacity:
                self._dropped.append(self._waiting.popleft())
            self._changed.wait_for(
                lambda: len(self._waiting) < self._capacity or self._closed or self._evaluation
            )
            self._waiting.append(rollout)
            self._changed.notify_all()

    def _evaluate(self) -> None:
        assert self._play_evaluation is not None
        rollout = self._play_evaluation()
        with self._changed:
            assert self._evaluation is not None
            self._evaluation.set_result(rollout)
            self._evaluation = None


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
        work = _endless(config, collector, episodes)
        batches = functools.partial(_first_come, config, collector, work)
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
    play_batch: PlayBatch, numbers: Iterator[int], newest: Callable[[], NumpyPolicy]
) -> Generator[Rollout, None, None]:
    for number in numbers:
        yield play_batch(newest(), number)


def _endless(config: TrainConfig, collector: AsyncParallelEnv, first_episode: int) -> Work:
    if config.num_steps_per_env is not None:
        unrolls = collector.unroll_work()
        unrolls.add_rounds(math.inf)
        return unrolls
    numbers = itertools.count(first_episode)
    specs = (episode_spec(config.seed, number, config.red_agent) for number in numbers)
    return collector.episode_work(specs, math.inf)


def _first_come(
    config: TrainConfig,
    collector: AsyncParallelEnv,
    work: Work,
    newest: Callable[[], NumpyPolicy],
) -> Generator[Rollout, None, None]:
    """Batches of whatever the workers send first."""
    pool = collector.pool
    start, failures_before = time.perf_counter(), pool.failures
    trajectories: list[Trajectory] = []
    busy_seconds = 0.0
    with contextlib.closing(collector.play(work, newest)) as arriving:
        for some, seconds in arriving:
            trajectories += some
            busy_seconds += seconds
            if config.num_steps_per_env is None:
                is_enough = len(trajectories) >= config.episodes_per_update
            else:
                is_enough = sum(t.length for t in trajectories) >= config.steps_per_update
            if is_enough:
                now = time.perf_counter()
                yield Rollout(
                    trajectories=in_order(trajectories),
                    collect_seconds=now - start,
                    busy_seconds=busy_seconds,
                    n_workers=pool.n_workers,
                    workers_restarted=pool.failures - failures_before,
                )
                start, failures_before = now, pool.failures
                trajectories, busy_seconds = [], 0.0
