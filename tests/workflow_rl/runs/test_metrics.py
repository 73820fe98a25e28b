"""The columns of metrics.csv that a rollout gives."""

from __future__ import annotations

import math

import pytest

from tests.agents.examples import example_trajectory
from workflow_rl.collection.rollout import Rollout
from workflow_rl.runs.checkpoint import TrainingState
from workflow_rl.runs.config import TrainConfig
from workflow_rl.runs.event_file import group_of
from workflow_rl.runs.metrics import Seconds, row_of


def test_the_truncated_share_is_of_the_episodes_that_ended() -> None:
    """Of four that ended in an update, one was cut off; a fifth goes on in the next unroll."""
    ends = [(True, False), (True, True), (False, True), (True, False), (False, False)]
    trajectories = [
        example_trajectory([1.0])._replace(terminated=terminated, truncated=truncated)
        for terminated, truncated in ends
    ]
    config = TrainConfig("async", env="CartPole-v1", total_steps=100)
    seconds = Seconds(0.0, 0.0, 1.0)
    state = TrainingState(updates=1, worker_seconds=1.0)
    assert group_of("truncated_share") == "returns"
    for played, expected in ((trajectories, 0.25), (trajectories[-1:], math.nan)):
        row = row_of(config, state, Rollout(played, 1.0, 1.0, 1, 0), {}, seconds)
        assert row["truncated_share"] == pytest.approx(expected, nan_ok=True)
