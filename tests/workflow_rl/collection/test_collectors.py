"""Both collectors return what plain episodes are, whatever the number of workers."""

from __future__ import annotations

from collections import Counter
from functools import partial
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.tiny_envs import CountingEnv
from tests.workflow_rl.collection.collectors import COLLECTORS
from workflow_rl.cage2.scenario2 import RED_AGENTS
from workflow_rl.collection.async_collector import AsyncCollector
from workflow_rl.collection.local_pool import LocalPool
from workflow_rl.collection.messages import Command
from workflow_rl.collection.sync_collector import SyncCollector
from workflow_rl.environments.env_batch import SerialEnvs
from workflow_rl.environments.episode import episode_spec


@pytest.mark.parametrize("collect", COLLECTORS)
def test_collectors_return_what_plain_episodes_are(
    collect, policy, specs, expected, same_trajectories
):
    rollout = collect(CountingEnv, policy, specs)
    same_trajectories(rollout.trajectories, expected)
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
def test_no_shape_changes_the_result(
    collect, policy, expected, same_trajectories, n_workers, size, n_episodes
):
    specs = [episode_spec(3, number, RED_AGENTS) for number in range(n_episodes)]
    rollout = collect(CountingEnv, policy, specs, n_workers, size)
    same_trajectories(rollout.trajectories, expected[:n_episodes])


class CountingPool(LocalPool):
    """Counts the messages to and from workers, by command."""

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
