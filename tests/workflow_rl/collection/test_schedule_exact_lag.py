"""Batches that are collected with the weights of exactly so many updates ago; none is lost."""

from __future__ import annotations

import time

import pytest

from tests.patience import eventually
from tests.workflow_rl.collection.schedules import (
    Counting,
    Workers,
    begun_by,
    number_and_version,
    policy_of,
)
from workflow_rl.agents.policies.numpy_policy import NumpyPolicy
from workflow_rl.collection.failures import TooManyFailuresError
from workflow_rl.collection.rollout import Following, Rollout
from workflow_rl.collection.schedule import Share


@pytest.mark.parametrize("lag", [0, 1, 3])
def test_every_batch_is_collected_ahead_with_the_weights_of_exactly_lag_updates_ago(lag):
    workers = Workers()
    with workers.exact(lag) as schedule:
        for update in range(7):
            rollout = schedule.next_rollout(policy_of(update))
            assert number_and_version(rollout) == (update, max(0, update - lag))
            assert begun_by(schedule) == [
                (batch, max(0, batch - lag)) for batch in range(update + 1, update + lag + 1)
            ]
            if update:
                assert rollout.queue_length >= lag - 1
            # While the learner learns, so many batches are collected ahead, and no more.
            eventually(lambda: workers.collected == list(range(update + lag + 1)))  # noqa: B023
            eventually(lambda: all(future.done() for *_, future in schedule._begun))
        time.sleep(0.05)
        assert workers.collected == list(range(7 + lag))


@pytest.mark.parametrize("updates", [0, 1, 2, 5])
@pytest.mark.parametrize("lag", [0, 1, 3])
def test_resumed_with_the_batches_begun_it_goes_on_alike(lag, updates):
    with Workers().exact(lag) as schedule:
        for update in range(updates):
            schedule.next_rollout(policy_of(update))
        begun = schedule.begun()
    assert schedule.begun() == begun, "the checkpoint is saved after the schedule is closed"
    resumed = Workers().exact(lag, begun, updates)
    assert resumed.begun() == begun, "and before it is entered"
    with resumed:
        assert resumed.begun() == begun
        for update in range(updates, updates + 5):
            rollout = resumed.next_rollout(policy_of(update))
            assert number_and_version(rollout) == (update, max(0, update - lag))


def test_a_batch_that_failed_is_still_to_be_collected():
    workers = Workers()

    def play_batch(policy: NumpyPolicy, share: Share, following: Following) -> Rollout:
        if share.first_episode == 2:
            raise TooManyFailuresError("the workers")
        return workers.play_batch(policy, share, following)

    with Counting(workers, play_batch, 1) as schedule:
        for update in range(2):
            schedule.next_rollout(policy_of(update))
        for _ in range(2):
            with pytest.raises(TooManyFailuresError, match="the workers"):
                schedule.next_rollout(policy_of(2))
    assert begun_by(schedule) == [(2, 1), (3, 2)]
    assert workers.collected == [0, 1], "nothing is played by workers in disarray"
