from __future__ import annotations

import logging

import pytest

from workflow_rl.collection.rollout import Rollout
from workflow_rl.runs.checkpoint import TrainingState
from workflow_rl.runs.config import TrainConfig
from workflow_rl.runs.metrics import Seconds
from workflow_rl.runs.useful_envs import UsefulEnvs


def said(
    caplog: pytest.LogCaptureFixture,
    busy_seconds: float,
    held_seconds: float = 0.1,
    env_steps: int = 4000,
) -> list[str]:
    """Of 12 envs in two workers, in four updates that take the learner two seconds each."""
    envs = UsefulEnvs(TrainConfig("async", 12, algorithm="sac", env="Pendulum-v1"))
    rollout = Rollout([], 1.0, busy_seconds, 2, 0, held_seconds=held_seconds)
    caplog.clear()
    with caplog.at_level(logging.WARNING):
        for _ in range(4):
            envs.count(TrainingState(env_steps=env_steps), rollout, Seconds(0.5, 1.9, 2.5))
    return [record.getMessage() for record in caplog.records]


def test_envs_beyond_those_that_keep_the_learner_busy_are_told_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    # A worker plays for half a second while the learner works for two: three envs are enough.
    (sentence,) = said(caplog, busy_seconds=1.0)
    assert "can use 3 of the 12 envs" in sentence
    assert "--n-envs 3 " in sentence


@pytest.mark.parametrize(
    "rollout",
    [
        {"busy_seconds": 4.0},  # All are needed.
        {"busy_seconds": 1.0, "held_seconds": 0.0},  # Nothing waited for the learner.
        {"busy_seconds": 1.0, "env_steps": 0},  # Before anything is learned.
        {"busy_seconds": 1.0, "env_steps": 3000},  # Soon after the first update that learns.
    ],
)
def test_nothing_is_said_otherwise(
    rollout: dict[str, float], caplog: pytest.LogCaptureFixture
) -> None:
    assert said(caplog, **rollout) == []  # type: ignore[arg-type]
