import json
from typing import Any

import pytest

from tests.tiny_envs import RaisingEnv
from workflow_rl.cage2.scenario2 import RED_AGENTS
from workflow_rl.collection.messages import Command, Failure
from workflow_rl.collection.worker import failure_of
from workflow_rl.environments.env_batch import EpisodeError, SerialEnvs
from workflow_rl.environments.episode import episode_spec
from workflow_rl.errors import ObservationError

SPEC = episode_spec(3, 7, RED_AGENTS)


def failure_in(method: Any, *arguments: Any) -> Failure:
    try:
        method(*arguments)
    except Exception as error:
        return failure_of(Command.PLAY, error)
    raise AssertionError("nothing was raised")


def test_of_an_episode_s_exception_the_user_s_frames_are_shown():
    envs = SerialEnvs(lambda: RaisingEnv(frozenset([SPEC.env_seed]), "reset"), 1)
    failure = failure_in(envs.reset, [0], [SPEC])
    assert failure.spec == SPEC
    assert failure.summary.startswith(f"ArithmeticError: no episode of seed {SPEC.env_seed}")
    assert "tiny_envs.py, line " in failure.summary
    assert "env_batch.py" not in failure.traceback
    assert failure.traceback.rstrip().splitlines()[-1].startswith("ArithmeticError")


def test_where_a_library_raised_the_user_s_line_that_called_it_is_named():
    failure = failure_in(json.loads, "{")
    assert failure.spec is None
    assert failure.summary.startswith("JSONDecodeError: ")
    assert "test_worker.py, line " in failure.summary
    assert "decoder.py" in failure.traceback


@pytest.mark.parametrize(
    ("cause", "field", "told"),
    [
        (ValueError("one\ntwo"), "summary", "ValueError: one"),
        (ObservationError("obs is too large"), "final", "in episode 7 obs is too large"),
    ],
    ids=["of several lines, without a traceback", "an observation outside its space"],
)
def test_what_an_episodes_error_says(cause, field, told):
    error = EpisodeError(SPEC)
    error.__cause__ = cause
    assert getattr(failure_of(Command.PLAY, error), field) == told


def test_an_overlong_exception_is_cut():
    failure = failure_of(Command.PLAY, ValueError("x" * 10_000_000))
    assert failure.summary.startswith("ValueError: xxx")
    assert len(failure.summary) < 1_000
    assert len(failure.traceback) < 100_000
