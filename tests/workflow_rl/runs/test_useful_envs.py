from __future__ import annotations

import logging
from typing import Any

import pytest

from workflow_rl.collection.rollout import Rollout
from workflow_rl.runs.checkpoint import TrainingState
from workflow_rl.runs.config import TrainConfig
from workflow_rl.runs.metrics import Seconds
from workflow_rl.runs.useful_envs import UsefulEnvs


def said(
    caplog: pytest.LogCaptureFixture,
    busy_seconds: float = 1.0,
    fit_seconds: float = 0.0,
    held: range = range(20),
    updates: range = range(20),
) -> list[str]:
    """Of 12 envs in two workers, in updates of 500 steps that take the learner two seconds each.

    sac learns from the 2,000th step on. The update with this step, number 3, takes `fit_seconds`
    more. held: the updates before which collecting waited.
    """
    envs = UsefulEnvs(TrainConfig("async", 12, algorithm="sac", env="Pendulum-v1"))
    caplog.clear()
    with caplog.at_level(logging.WARNING):
        for number in updates:
            held_seconds = 0.1 * (number in held)
            rollout = Rollout([], 1, busy_seconds, 2, 0, (), 500, held_seconds=held_seconds)
            more = fit_seconds * (number == 3)
            seconds = Seconds(0.5, 1.9 + more, 2.5 + more)
            envs.count(TrainingState(env_steps=500 * number), rollout, seconds)
    return [record.getMessage() for record in caplog.records]


def test_envs_beyond_those_that_keep_the_learner_busy_are_told_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    # A worker plays for half a second while the learner works for two: three envs are enough.
    (sentence,) = said(caplog)
    assert "can use about 3 of the 12 envs" in sentence
    assert "--n-envs 3," in sentence


def test_the_first_fit_of_a_model_counts(caplog: pytest.LogCaptureFixture) -> None:
    # Until step 4,000, five updates learn: 2.5 seconds of playing beside 10 + 10.
    (sentence,) = said(caplog, fit_seconds=10.0)
    assert "can use about 2 of the 12 envs" in sentence


@pytest.mark.parametrize(
    "given",
    [
        {"busy_seconds": 4.0},  # All are needed.
        {"held": range(0)},  # Nothing waited for the learner.
        {"held": range(8, 20)},  # Nothing waited while this was measured.
        {"updates": range(7)},  # The measurement takes longer.
    ],
)
def test_nothing_is_said_otherwise(given: dict[str, Any], caplog: pytest.LogCaptureFixture) -> None:
    assert said(caplog, **given) == []
