import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.tiny_runs import run
from tests.workflow_rl.runs.small_runs import PPO, config_of
from workflow_rl.runs.config import TrainConfig
from workflow_rl.runs.folder import read_metrics


def test_rollouts_given_in_steps_have_about_so_many_from_the_second_on(tmp_path):
    config = config_of(steps_per_update=200, total_steps=1200)
    summary = run(tmp_path / "run", config)
    rows = read_metrics(tmp_path / "run")
    steps = np.diff([0, *(row["env_steps"] for row in rows)])
    episodes = np.diff([0, *(row["episodes"] for row in rows)])
    assert episodes[0] == 8, "nobody knows yet how long they are"
    assert len(set(episodes[1:])) > 1, "or else their lengths would have made no difference"
    assert np.abs(steps[1:] / 200 - 1).max() < 0.5
    assert abs(steps[1:].mean() / 200 - 1) < 0.2
    assert 1200 <= summary["env_steps"] < 1200 + 300
    assert rows[-2]["env_steps"] < 1200


@pytest.mark.parametrize("mode", ["sync", "async"])
def test_long_episodes_do_not_make_updates_rare(mode, tmp_path):
    """Eight episodes have 200 steps. Of a user's own number of episodes none is missing."""
    long: dict[str, Any] = {"what": "Pendulum", "mode": mode, "steps_per_update": 60}
    run(tmp_path / "run", config_of(**long, total_steps=400))
    steps = np.diff([0, *(row["env_steps"] for row in read_metrics(tmp_path / "run"))])
    assert steps.tolist() == [200, 50, 50, 50, 50]
    run(tmp_path / "given", config_of(**long, total_steps=400, min_episodes_per_update=4))
    steps = np.diff([0, *(row["env_steps"] for row in read_metrics(tmp_path / "given"))])
    assert steps.tolist() == [100, 100, 100, 100]


@given(length=st.floats(1, 1e6), steps=st.integers(1, 10**6))
def test_a_rollout_has_eight_episodes_or_about_the_steps_that_were_asked_for(length, steps):
    config = TrainConfig("async", env="CartPole-v1", steps_per_update=steps)
    episodes = config.episodes_of_rollout(length)
    if 8 * length <= 2 * steps:
        assert episodes == max(8, math.ceil(steps / length))
    else:
        assert episodes == 2 or abs(episodes * length - steps) <= 0.51 * length


def test_a_run_of_another_version_keeps_its_number_of_episodes():
    saved = TrainConfig("async", env="CartPole-v1").to_dict() | {"min_episodes_per_update": 8}
    assert TrainConfig.from_dict(saved).episodes_of_rollout(1000) == 8
    assert TrainConfig("async").to_dict()["min_episodes_per_update"] == 8


def test_the_end_of_a_run_in_steps_is_that_of_its_learning_rate(undisturbed):
    rows = read_metrics(undisturbed("Puzzle", "episodes"))
    before = [0, *(row["env_steps"] for row in rows[:-1])]
    expected = [PPO.learning_rate * (1 - steps / 300) for steps in before]
    assert [row["learning_rate"] for row in rows] == pytest.approx(expected)


@pytest.mark.parametrize(
    ("kind", "unit"),
    [
        ("episodes", "total_steps"),
        ("unrolls", "total_steps"),
        ("lagged", "total_steps"),
        ("lagged", "total_episodes"),
    ],
)
def test_a_finished_run_goes_on_past_its_end(kind, unit, tmp_path):
    ends = {"total_steps": None, "total_episodes": None}
    first, second = (60, 90) if unit == "total_episodes" else (200, 400)
    run(tmp_path / "run", config_of(kind=kind, **{**ends, unit: first}))
    before = (tmp_path / "run" / "metrics.csv").read_text()
    summary = run(tmp_path / "run", config_of(kind=kind, **{**ends, unit: second}))
    after = (tmp_path / "run" / "metrics.csv").read_text()
    assert after.startswith(before)
    assert after != before
    rows = read_metrics(tmp_path / "run")
    done = "env_steps" if unit == "total_steps" else "episodes"
    assert summary[done] == rows[-1][done] >= second
    assert math.isfinite(rows[-1]["policy_loss"])
