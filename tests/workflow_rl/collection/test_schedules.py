import os
import signal
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import CancelledError
from contextlib import contextmanager
from functools import partial
from typing import Any

import numpy as np
import pytest

from tests.patience import eventually
from tests.tiny_envs import CountingEnv
from workflow_rl.agents.policies.numpy_policy import NumpyPolicy, PolicyParameters
from workflow_rl.agents.trajectory import Trajectory
from workflow_rl.cage2.scenario2 import RED_AGENTS
from workflow_rl.collection.assignments import first_positions
from workflow_rl.collection.async_collector import AsyncCollector
from workflow_rl.collection.local_pool import LocalPool
from workflow_rl.collection.messages import StopRequested, TooManyFailuresError
from workflow_rl.collection.rollout import Following, Rollout
from workflow_rl.collection.schedule import BegunBatch, CollectorThread, ExactLag, PlayBatch, Share
from workflow_rl.collection.trace import COLLECTOR, Activity, Trace
from workflow_rl.environments.env_batch import SerialEnvs
from workflow_rl.reporting.timeline import read_trace
from workflow_rl.runs.newest_batches import FreeRunning

STEPS = 3


def policy_of(version: int) -> NumpyPolicy:
    layer = np.zeros((52, 145), np.float32)
    return NumpyPolicy(PolicyParameters((layer,), (layer[0],), "tanh"), version)


def rollout_of(number: int, policy: NumpyPolicy) -> Rollout:
    """An episode of this number, of 3 steps."""
    steps = np.zeros(STEPS)
    trajectory = Trajectory(
        number, "", policy.policy_version, steps, steps, steps, steps, steps, False, True
    )
    return Rollout([trajectory], 1.0, 0.5, n_workers=2, workers_restarted=number % 2)


class Counting(ExactLag):
    """Batches of one episode each, numbered as in a run: from those that it has given on."""

    def __init__(
        self,
        workers: Any,
        play_batch: PlayBatch,
        lag: int,
        begun: Sequence[BegunBatch] = (),
        given: int = 0,
    ) -> None:
        thread = CollectorThread(workers)
        super().__init__(thread, workers, play_batch, self._numbered, None, lag, begun)
        self._given = given

    def _numbered(self, begun_episodes: int) -> Share:
        return Share(self._given + begun_episodes, 1)

    def next_rollout(self, policy: NumpyPolicy) -> Rollout:
        rollout = super().next_rollout(policy)
        self._given += 1
        return rollout


class Workers:
    """Stands in for the pool and its collector; plays batches at once, or when allowed to."""

    def __init__(self, at_once: bool = True) -> None:
        self.begun: list[int] = []
        self.collected: list[int] = []
        self.allowed = threading.Semaphore(0)
        self.at_once = at_once
        self.cancelled = threading.Event()
        self.closed = threading.Event()
        self.trace = Trace()

    def cancel(self) -> None:
        self.cancelled.set()

    def close(self) -> None:
        self.closed.set()

    def play_batch(
        self, policy: NumpyPolicy, share: Share, following: Following = lambda: None
    ) -> Rollout:
        self.begun.append(share.first_episode)
        while not self.at_once and not self.allowed.acquire(timeout=0.02):
            if self.cancelled.is_set():
                raise CancelledError
        assert share.n_episodes == 1
        self.collected.append(share.first_episode)
        return rollout_of(share.first_episode, policy)

    def collect(self, policy: NumpyPolicy, specs: Any) -> Rollout:
        self.collected.append(-1)
        return rollout_of(-1, policy)

    def batches(self, newest: Any) -> Any:
        while (policy := newest()) is not None:
            yield self.play_batch(policy, Share(len([n for n in self.collected if n >= 0]), 1))

    def exact(self, lag: int, *resumed: Any) -> ExactLag:
        return Counting(self, self.play_batch, lag, *resumed)

    def free(self, capacity: int, **options: bool) -> FreeRunning:
        thread = CollectorThread(self)  # type: ignore[arg-type]
        return FreeRunning(thread, self, self.batches, capacity, **options)  # type: ignore[arg-type]


def number_and_version(rollout: Rollout) -> tuple[int, int]:
    (trajectory,) = rollout.trajectories
    return trajectory.episode, trajectory.policy_version


@pytest.mark.parametrize("lag", [0, 1, 3])
def test_every_batch_is_collected_ahead_with_the_weights_of_exactly_lag_updates_ago(lag):
    workers = Workers()
    with workers.exact(lag) as schedule:
        for update in range(7):
            rollout = schedule.next_rollout(policy_of(update))
            assert number_and_version(rollout) == (update, max(0, update - lag))
            # Of each batch that the learner has not had.
            begun = [
                (batch.share.first_episode, batch.policy.policy_version)
                for batch in schedule.begun()
            ]
            assert begun == [
                (batch, max(0, batch - lag)) for batch in range(update + 1, update + lag + 1)
            ]
            if update:
                assert rollout.queue_length >= lag - 1
            # While the learner learns, so many batches are collected ahead, and no more.
            eventually(lambda: workers.collected == list(range(update + lag + 1)))  # noqa: B023
            eventually(lambda: all(future.done() for *_, future in schedule._begun))
        time.sleep(0.05)
        assert workers.collected == list(range(7 + lag))


@pytest.mark.parametrize("capacity", [1, 2, 4])
def test_where_collecting_waits_nothing_is_dropped_and_no_more_than_capacity_waits(capacity):
    workers = Workers()
    with workers.free(capacity) as schedule:
        for update in range(12):
            rollout = schedule.next_rollout(policy_of(update))
            number, version = number_and_version(rollout)
            assert number == update
            # Not older than what may wait, what finds no room, and what is in the making.
            assert update - version <= capacity + 2
            assert rollout.queue_length <= capacity
            assert (rollout.dropped_steps, rollout.dropped_episodes) == (0, 0)
            # Besides those that wait there is the one that finds no room.
            eventually(lambda: len(workers.collected) == update + 1 + capacity + 1)  # noqa: B023
            assert len(schedule._waiting) == capacity
        time.sleep(0.05)
        assert len(workers.collected) == 12 + capacity + 1


def test_how_long_the_learner_holds_collecting_is_counted_and_traced(tmp_path):
    workers = Workers()
    with Trace(tmp_path / "trace.json") as workers.trace, workers.free(1) as schedule:
        schedule.next_rollout(policy_of(0))
        eventually(lambda: len(workers.collected) == 3)
        time.sleep(0.05)
        schedule.next_rollout(policy_of(1))
        eventually(lambda: len(workers.collected) == 4)
        held_seconds = schedule.next_rollout(policy_of(2)).held_seconds
    assert held_seconds >= 0.05
    collector = read_trace(tmp_path / "trace.json").rows[COLLECTOR]
    held = collector.activity == Activity.HELD
    assert (collector.end - collector.start)[held].max() >= 0.05


def test_collecting_uses_the_newest_weights_there_are():
    workers = Workers(at_once=False)
    with workers.free(3) as schedule:
        for version in range(5):
            # The next batch has been begun by now, and this one ends after the policy is known.
            schedule.begin(policy_of(version))
            workers.allowed.release()
            rollout = schedule.next_rollout(policy_of(version))
            assert number_and_version(rollout) == (version, max(0, version - 1))
            assert rollout.held_seconds == 0, "the learner is ahead"
            eventually(lambda: workers.begun == list(range(version + 2)))  # noqa: B023


def test_what_is_dropped_is_the_oldest_and_is_counted_with_what_it_cost():
    workers = Workers(at_once=False)
    with workers.free(2, drop=True) as schedule:
        workers.allowed.release(1)
        assert number_and_version(schedule.next_rollout(policy_of(0)))[0] == 0
        workers.allowed.release(5)  # 1 to 5; room for two.
        eventually(lambda: [r.trajectories[0].episode for r in [*schedule._waiting]] == [4, 5])
        rollout = schedule.next_rollout(policy_of(1))
        assert number_and_version(rollout)[0] == 4
        assert (rollout.dropped_steps, rollout.dropped_episodes) == (3 * STEPS, 3)
        assert (rollout.env_steps, rollout.episodes) == (4 * STEPS, 4)
        assert (rollout.collect_seconds, rollout.busy_seconds) == (4.0, 2.0)
        assert rollout.workers_restarted == 2  # Of batches 1 and 3.
        following = schedule.next_rollout(policy_of(2))
        assert number_and_version(following)[0] == 5
        assert following.dropped_steps == 0


@pytest.mark.parametrize("drop", [False, True])
def test_all_that_waits_is_taken_at_once(drop):
    workers = Workers(at_once=False)
    with workers.free(4, drop=drop, take_all=True) as schedule:
        workers.allowed.release(1)
        schedule.next_rollout(policy_of(0))
        workers.allowed.release(3)
        eventually(lambda: len(schedule._waiting) == 3)
        rollout = schedule.next_rollout(policy_of(1))
        assert [t.episode for t in rollout.trajectories] == [1, 2, 3]
        assert (rollout.queue_length, rollout.collect_seconds) == (0, 3.0)
        assert rollout.steps_to_learn == 3 * STEPS


def test_joined_batches_end_where_the_last_of_them_ends():
    positions = [
        tuple(first_positions(0, RED_AGENTS, 1, first_episode=number)) for number in range(3)
    ]

    def batches(newest: Any) -> Any:
        for number in range(3):
            yield rollout_of(number, newest())._replace(positions=positions[number])
        while newest() is not None:
            time.sleep(0.01)

    workers = Workers()
    with FreeRunning(CollectorThread(workers), workers, batches, 2, take_all=True) as schedule:  # type: ignore[arg-type]
        taken = [schedule.next_rollout(policy_of(0))]
        eventually(lambda: len(schedule._waiting) + len(taken[0].trajectories) == 3)
        while taken[-1].positions != positions[2]:
            taken.append(schedule.next_rollout(policy_of(0)))
        for rollout in taken:
            assert rollout.positions == positions[rollout.trajectories[-1].episode]
        assert [t.episode for rollout in taken for t in rollout.trajectories] == [0, 1, 2]


def test_dropped_batches_are_not_kept():
    workers = Workers()
    with workers.free(1, drop=True) as schedule:
        schedule.next_rollout(policy_of(0))
        before = len(workers.collected)
        eventually(lambda: len(workers.collected) > before + 200)
        assert len(schedule._dropped) == 1
        assert schedule._dropped[0].trajectories == []


@pytest.mark.parametrize("kind", ["exact", "free"])
def test_an_evaluation_after_a_failure_fails_for_the_same_reason(kind):
    workers = Workers()
    failed = threading.Event()

    def fail(*_: Any) -> Any:
        try:
            raise TooManyFailuresError("the workers")
        finally:
            failed.set()

    def failing_second(policy: NumpyPolicy, share: Share, following: Following) -> Rollout:
        return rollout_of(0, policy) if share.first_episode == 0 else fail()

    def failing_batches(newest: Any) -> Any:
        yield rollout_of(0, newest())
        fail()

    schedule: Any = (
        Counting(workers, failing_second, 1)
        if kind == "exact"
        else FreeRunning(CollectorThread(workers), workers, failing_batches, 2)  # type: ignore[arg-type]
    )
    with schedule:
        schedule.next_rollout(policy_of(0))
        assert failed.wait(60)
        with pytest.raises(TooManyFailuresError, match="the workers"):
            schedule.evaluate(policy_of(1), [])
        with pytest.raises(TooManyFailuresError, match="the workers"):
            schedule.next_rollout(policy_of(1))
    assert workers.collected == []


@contextmanager
def interrupted(schedule: Any, error: BaseException) -> Iterator[None]:
    """Raise the error in this thread, by a signal that comes to another one."""

    def interrupt(*_: Any) -> None:
        raise error

    def send() -> None:
        # In a call of `next_rollout`, and then in the middle of its waiting.
        begun = "_begun" if isinstance(schedule, ExactLag) else "_collecting"
        eventually(lambda: getattr(schedule, begun))
        time.sleep(0.5)
        signal.pthread_kill(threading.get_ident(), signal.SIGUSR1)

    before = signal.signal(signal.SIGUSR1, interrupt)
    sender = threading.Thread(target=send)
    try:
        sender.start()
        start = time.monotonic()
        with pytest.raises(type(error)):
            yield
        # No batch ever comes that could end the waiting.
        assert time.monotonic() - start < 30
    finally:
        sender.join()
        signal.signal(signal.SIGUSR1, before)


@pytest.mark.parametrize("kind", ["exact", "free"])
def test_a_signal_is_acted_on_while_the_learner_waits_whichever_thread_it_comes_to(kind):
    workers = Workers(at_once=False)
    schedule: Any = workers.exact(1) if kind == "exact" else workers.free(1)
    with schedule, interrupted(schedule, StopRequested(signal.SIGUSR1)):
        schedule.next_rollout(policy_of(0))


@pytest.mark.parametrize("kind", ["exact", "free"])
@pytest.mark.parametrize("where", ["waiting for room", "waiting for a worker", "idle"])
def test_closing_is_bounded_and_may_be_repeated(kind, where, monkeypatch):
    # A thread that does not give up is not taken for one that gets no core.
    monkeypatch.setattr("workflow_rl.collection.schedule.JOIN_SECONDS", 60.0)
    workers = Workers(at_once=where != "waiting for a worker")
    schedule = workers.exact(1) if kind == "exact" else workers.free(1)
    with schedule:
        if where != "idle":
            workers.allowed.release()
            schedule.next_rollout(policy_of(0))
            time.sleep(0.05)
        start = time.monotonic()
    assert time.monotonic() - start < 30
    schedule.__exit__()
    assert not [thread for thread in threading.enumerate() if thread.name == "collector"]
    assert not workers.closed.is_set()


@pytest.mark.parametrize("kind", ["exact", "free"])
def test_closing_is_bounded_when_a_worker_takes_no_message(kind):
    """A stopped worker, and a policy larger than its pipe: sending blocks for the whole timeout."""
    large = np.zeros((52, 40_000), np.float32)
    policy = NumpyPolicy(PolicyParameters((large,), (large[0],), "tanh"))
    with LocalPool(partial(SerialEnvs, CountingEnv), 1, timeout=60) as pool:
        collector = AsyncCollector(pool)
        collector.start_unrolls(first_positions(0, RED_AGENTS, 1), 2)
        (worker,) = pool._workers
        os.kill(worker.process.pid, signal.SIGSTOP)
        thread = CollectorThread(pool)
        schedule: Any = ExactLag(
            thread,
            collector,
            lambda policy, *_: collector.unroll(policy),
            lambda _: Share(0, 0),
            None,
            1,
        )
        if kind == "free":
            collector.unroll_assignments().add_rounds(1)

            def batches(newest: Any) -> Any:
                for _ in collector.play(collector.unroll_assignments(), newest):
                    yield rollout_of(0, policy)

            schedule = FreeRunning(thread, collector, batches, 1)

        start = time.monotonic()
        with interrupted(schedule, KeyboardInterrupt()), schedule:
            schedule.next_rollout(policy)
    assert time.monotonic() - start < 30
    worker.process.join(60)
    assert worker.process.exitcode == -signal.SIGKILL
