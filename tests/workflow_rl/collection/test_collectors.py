import os
import signal
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.patience import eventually
from tests.tiny_envs import CountingEnv
from tests.workflow_rl.collection.collectors import COLLECTORS
from tests.workflow_rl.conftest import assert_same_trajectories
from workflow_rl.agents.policies.numpy_policy import NumpyPolicy
from workflow_rl.cage2.scenario2 import RED_AGENTS
from workflow_rl.collection.async_collector import AsyncCollector
from workflow_rl.collection.local_pool import LocalPool
from workflow_rl.collection.messages import Command
from workflow_rl.collection.player import play_episode
from workflow_rl.collection.sync_collector import SyncCollector
from workflow_rl.environments.env_batch import SerialEnvs
from workflow_rl.environments.episode import episode_spec


@pytest.mark.parametrize("collect", COLLECTORS)
def test_collectors_return_what_plain_episodes_are(collect, policy, specs, expected):
    rollout = collect(CountingEnv, policy, specs)
    assert_same_trajectories(rollout.trajectories, expected)
    assert len({t.length for t in expected}) > 1, "the test needs episodes of different lengths"
    assert {t.terminated for t in expected} == {True, False}
    assert all(t.terminated != t.truncated for t in rollout.trajectories)
    assert all(t.policy_version == 4 for t in rollout.trajectories)
    assert rollout.env_steps == sum(t.length for t in expected)
    assert 0 < rollout.utilisation <= 1
    assert rollout.workers_restarted == 0


@settings(max_examples=4, deadline=None, suppress_health_check=list(HealthCheck))
@given(n_workers=st.integers(1, 7), size=st.integers(1, 5), n_episodes=st.integers(1, 11))
@pytest.mark.parametrize("collect", COLLECTORS)
def test_no_shape_changes_the_result(collect, policy, expected, n_workers, size, n_episodes):
    specs = [episode_spec(3, number, RED_AGENTS) for number in range(n_episodes)]
    rollout = collect(CountingEnv, policy, specs, n_workers, size)
    assert_same_trajectories(rollout.trajectories, expected[:n_episodes])


class CountingPool(LocalPool):
    def __init__(self, *given: Any, **options: Any) -> None:
        super().__init__(*given, **options)
        self.sent, self.received = Counter[Command](), 0

    def send(self, index: int, command: Command, *content: Any) -> None:
        self.sent[command] += 1
        super().send(index, command, *content)

    def receive(self, index: int) -> Any:
        self.received += 1
        return super().receive(index)


def test_every_step_is_a_barrier_and_an_episode_is_one_pair_of_messages(policy, specs, expected):
    lengths = [trajectory.length for trajectory in expected[:2]]
    with CountingPool(partial(SerialEnvs, CountingEnv), 2, 1) as pool:
        SyncCollector(pool, 2).collect(policy, specs[:2])
    assert pool.sent[Command.STEP] == sum(lengths)
    with CountingPool(partial(SerialEnvs, CountingEnv), 2) as pool:
        AsyncCollector(pool, 1).collect(policy, specs)
    assert pool.sent[Command.STEP] == 0
    assert pool.sent[Command.PLAY] == len(specs)
    assert pool.received == sum(pool.sent.values())


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


def test_idle_workers_begin_with_what_follows(policy):
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
    assert_same_trajectories(one.trajectories, expected[0])
    assert_same_trajectories(evaluated.trajectories, expected[2])
    assert_same_trajectories(
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


def test_what_follows_is_dropped_if_something_else_does(policy, specs, expected):
    with LocalPool(partial(SerialEnvs, CountingEnv), 2) as pool:
        collector = AsyncCollector(pool)
        elsewhere = [episode_spec(9, number, RED_AGENTS) for number in range(4)]
        collector.collect(policy, specs, lambda: (policy, elsewhere))
        assert_same_trajectories(collector.collect(policy, specs).trajectories, expected)
