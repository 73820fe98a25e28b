"""How schedules end: by failures, by signals, and by closing, which is bounded."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import numpy as np
import pytest

from tests.patience import eventually
from tests.tiny_envs import CountingEnv
from tests.workflow_rl.collection.schedules import Counting, Workers, policy_of, rollout_of
from workflow_rl.agents.policies.numpy_policy import NumpyPolicy, PolicyParameters
from workflow_rl.cage2.scenario2 import RED_AGENTS
from workflow_rl.collection.async_collector import AsyncCollector
from workflow_rl.collection.env_positions import first_positions
from workflow_rl.collection.failures import StopRequested, TooManyFailuresError
from workflow_rl.collection.free_running import FreeRunning
from workflow_rl.collection.local_pool import LocalPool
from workflow_rl.collection.rollout import Following, Rollout
from workflow_rl.collection.schedule import CollectorThread, ExactLag, Share
from workflow_rl.environments.env_batch import SerialEnvs


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
