"""The columns of metrics.csv that a rollout gives."""

import math

import pytest

from tests.agents.examples import example_trajectory
from workflow_rl.collection.rollout import Rollout
from workflow_rl.runs.config import TrainConfig
from workflow_rl.runs.metrics import group_of, row_of, summarise
from workflow_rl.runs.training_state import Seconds, TrainingState


def test_the_truncated_share_is_of_the_episodes_that_ended():
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


def test_updates_are_told_in_numbers():
    """Two alike: of two workers, two episodes that ended, one that was dropped and one left out."""
    config = TrainConfig("async", env="CartPole-v1", total_steps=100)
    played = [example_trajectory([1.0, 2.0, 3.0]), example_trajectory([4.0])]
    rollout = Rollout(
        played, 5.0, 6.0, 2, 1, dropped_steps=7, dropped_episodes=1, held_seconds=0.5, skipped=(9,)
    )
    state, seconds = TrainingState(), Seconds(waiting=3.0, learning=2.0, total=8.0)
    for _ in range(2):
        state.advance(rollout, seconds)
    row = row_of(config, state, rollout, {"entropy": 0.25}, seconds)
    told = {name: value for name, value in row.items() if not math.isnan(value)}
    assert told == {
        **{"update": 2, "episodes": 8, "env_steps": 22, "wall_seconds": 16.0, "held_seconds": 0.5},
        **{"collect_seconds": 5.0, "update_seconds": 2.0, "learner_idle_seconds": 3.0},
        **{"worker_idle_seconds": 10.0, "seconds_per_update": 8.0, "eps": 0.25},
        **{"episodes_per_second": 0.8, "env_steps_per_second": 2.2, "worker_utilisation": 0.6},
        **{"worker_utilisation_run": 0.375, "dropped_steps": 7, "queue_length": 0},
        **{"return_mean": 5.0, "return_std": 1.0, "episode_length_mean": 2.0, "entropy": 0.25},
        **{"truncated_share": 1.0, "workers_restarted": 1, "skipped_episodes": 1},
    }
    expected = {
        **{"updates": 2, "collect_seconds": 10.0, "update_seconds": 4.0, "held_seconds": 1.0},
        **{"learner_idle_seconds": 6.0, "dropped_steps": 14, "workers_restarted": 2},
        **{"seconds_per_update": 8.0, "episodes_per_second": 0.8, "episodes_per_second_run": 0.5},
        **{"worker_utilisation": 0.6, "worker_utilisation_run": 0.375, "recent_episodes": 4},
    }
    assert summarise(config, state).items() >= expected.items()
