"""Batches that are collected without waiting for updates: what waits, is dropped or taken."""

from __future__ import annotations

import time
from typing import Any

import pytest

from tests.patience import eventually
from tests.workflow_rl.collection.schedules import (
    STEPS,
    Workers,
    number_and_version,
    policy_of,
    rollout_of,
)
from workflow_rl.cage2.scenario2 import RED_AGENTS
from workflow_rl.collection.env_positions import first_positions
from workflow_rl.collection.free_running import FreeRunning
from workflow_rl.collection.schedule import CollectorThread
from workflow_rl.collection.trace import COLLECTOR, Activity, Trace
from workflow_rl.reporting.timeline import read_trace


@pytest.mark.parametrize("capacity", [1, 2, 4])
def test_where_collecting_waits_nothing_is_dropped_and_no_more_than_capacity_waits(capacity):
    workers = Workers()
    with workers.free(capacity) as schedule:
        for update in range(12):
            rollout = schedule.next_rollout(policy_of(update))
            assert number_and_version(rollout)[0] == update
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


@pytest.mark.parametrize("options", [{}, {"drop": True}, {"take_all": True}])
def test_evaluations_lose_nothing_and_make_no_queue_longer(options):
    workers = Workers()
    learned: list[int] = []
    dropped = 0
    with workers.free(2, **options) as schedule:
        for update in range(10):
            rollout = schedule.next_rollout(policy_of(update))
            learned += [t.episode for t in rollout.trajectories]
            dropped += rollout.dropped_episodes
            assert rollout.queue_length <= 2
            if update % 2:
                evaluation = schedule.evaluate(policy_of(update), [])
                assert evaluation.trajectories[0].episode == -1
                assert len(schedule._waiting) <= 2
        schedule.evaluate(policy_of(10), [])
        dropped += sum(rollout.dropped_episodes for rollout in schedule._dropped)
        left = [r.trajectories[0].episode for r in [*schedule._waiting, *schedule._to_put]]
    collected = [number for number in workers.collected if number >= 0]
    assert workers.collected.count(-1) == 6
    assert len(collected) == len(learned) + dropped + len(left)
    assert learned == sorted(set(learned))
    if not options.get("drop"):
        assert learned + left == collected


def test_dropped_batches_are_not_kept():
    workers = Workers()
    with workers.free(1, drop=True) as schedule:
        schedule.next_rollout(policy_of(0))
        before = len(workers.collected)
        eventually(lambda: len(workers.collected) > before + 200)
        assert len(schedule._dropped) == 1
        assert schedule._dropped[0].trajectories == []
