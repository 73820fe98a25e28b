"""Workers that have nothing to do begin with the collection that follows."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial

from tests.patience import eventually
from tests.tiny_envs import CountingEnv
from workflow_rl.agents.policies.numpy_policy import NumpyPolicy
from workflow_rl.cage2.scenario2 import RED_AGENTS
from workflow_rl.collection.async_collector import AsyncCollector
from workflow_rl.collection.local_pool import LocalPool
from workflow_rl.collection.player import play_episode
from workflow_rl.environments.env_batch import SerialEnvs
from workflow_rl.environments.episode import episode_spec


@contextmanager
def stopped(pid: int, until: Callable[[], bool]) -> Iterator[None]:
    """A process that stands still until something is so; if it never is, for some seconds."""

    def go_on() -> None:
        with suppress(AssertionError):
            eventually(until, 20)
        os.kill(pid, signal.SIGCONT)

    os.kill(pid, signal.SIGSTOP)
    waiting = threading.Thread(target=go_on)
    waiting.start()
    try:
        yield
    finally:
        waiting.join()


def test_idle_workers_begin_with_what_follows(policy, same_trajectories):
    """One episode of the first collection is held up; meanwhile the rest of it and the following
    one are played, an evaluation comes in between, a worker is killed, and nothing is lost."""
    first, second, other = (
        [episode_spec(seed, number, RED_AGENTS) for number in range(6)] for seed in (3, 4, 5)
    )
    plain = SerialEnvs(CountingEnv, 1)
    expected = [
        [play_episode(plain, policy, spec) for spec in specs] for specs in (first, second, other)
    ]
    later = NumpyPolicy(policy.parameters, policy_version=5)
    with LocalPool(partial(SerialEnvs, CountingEnv), 2) as pool:
        collector = AsyncCollector(pool)

        def are_played_ahead() -> bool:
            ahead = collector._ahead
            return ahead is not None and len(ahead.gathering.trajectories) >= 5

        with stopped(pool._workers[0].process.pid, are_played_ahead):
            one = collector.collect(policy, first, lambda: (later, second))
        assert are_played_ahead(), "the other worker had nothing else to do"
        evaluated = collector.collect(policy, other)
        pool._workers[1].process.kill()
        two = collector.collect(later, second)
    same_trajectories(one.trajectories, expected[0])
    same_trajectories(evaluated.trajectories, expected[2])
    same_trajectories(
        [t._replace(policy_version=4) for t in two.trajectories],
        expected[1],
    )
    assert {t.policy_version for t in two.trajectories} == {5}


def test_a_batch_is_returned_when_it_is_complete_whatever_follows(policy):
    specs = [episode_spec(3, number, RED_AGENTS) for number in range(4)]
    following = [episode_spec(4, number, RED_AGENTS) for number in range(50_000)]
    with LocalPool(partial(SerialEnvs, CountingEnv), 2) as pool:
        collector = AsyncCollector(pool)
        with stopped(pool._workers[0].process.pid, lambda: collector._ahead is not None):
            rollout = collector.collect(policy, specs, lambda: (policy, following))
        assert len(rollout.trajectories) == 4
        assert collector._ahead is not None
        assert len(collector._ahead.gathering.trajectories) < len(following)


def test_what_follows_is_dropped_if_something_else_does(policy, specs, expected, same_trajectories):
    with LocalPool(partial(SerialEnvs, CountingEnv), 2) as pool:
        collector = AsyncCollector(pool)
        elsewhere = [episode_spec(9, number, RED_AGENTS) for number in range(4)]
        collector.collect(policy, specs, lambda: (policy, elsewhere))
        same_trajectories(collector.collect(policy, specs).trajectories, expected)
