"""Whole small runs on CybORG: the same weights whatever happens on the way, and what is left."""

from __future__ import annotations

import csv
import json

import pytest
import torch

from tests.workflow_rl.runs.cyborg_runs import (
    PPO,
    config_of,
    run,
    same_weights,
    weights,
)
from workflow_rl.errors import UserError
from workflow_rl.runs import learner
from workflow_rl.runs.checkpoint import Checkpoint, load_checkpoint
from workflow_rl.runs.config import TrainConfig
from workflow_rl.runs.folder import read_metrics
from workflow_rl.runs.loop import train_policy
from workflow_rl.runs.metrics import METRICS
from workflow_rl.runs.run_record import read_record
from workflow_rl.runs.training_state import TrainingState


@pytest.mark.parametrize(
    ("mode", "shape"),
    [
        ("async", {"n_workers": 1}),
        ("async", {"n_workers": 7, "n_envs": 7}),
        ("sync", {"n_workers": 2}),
    ],
)
def test_same_weights_whatever_the_workers_and_the_mode(mode, shape, cyborg_run, tmp_path):
    run(tmp_path / "run", config_of(mode, **shape))
    assert same_weights(tmp_path / "run", cyborg_run)


def test_same_weights_on_the_compiled_simulator(cyborg_run, tmp_path):
    run(tmp_path / "run", config_of(simulator="compiled"))
    assert same_weights(tmp_path / "run", cyborg_run)


@pytest.mark.parametrize("changes", [{}, {"async_rl": True}])
def test_a_run_ends_with_exactly_its_episodes(changes, tmp_path):
    config = config_of(simulator="compiled", total_episodes=16, **changes)
    summary = run(tmp_path / "run", config)
    assert (summary["episodes"], summary["updates"]) == (16, 3)


def test_another_seed_gives_other_weights(cyborg_run, tmp_path):
    run(tmp_path / "run", config_of(seed=4))
    assert not same_weights(tmp_path / "run", cyborg_run)


def test_training_changes_the_weights(cyborg_run):
    before = learner.make_agent(config_of()).network.state_dict()
    after = weights(cyborg_run)
    assert not any(torch.equal(before[name], after[name]) for name in after)


def test_what_a_run_leaves(cyborg_run):
    names = {path.name for path in cyborg_run.iterdir()}
    assert names > {
        *("config.json", "metrics.csv", "checkpoint.safetensors", "best.safetensors"),
        "summary.json",
    }
    assert any(name.startswith("events.out.tfevents") for name in names)
    with (cyborg_run / "metrics.csv").open() as file:
        rows = list(csv.DictReader(file))
    of_each = [f"return_mean_{name}" for name in ("B_lineAgent", "RedMeanderAgent", "SleepAgent")]
    assert list(rows[0]) == [*METRICS, *of_each]
    for row in rows:
        means = [float(row[name]) for name in of_each if row[name] != "nan"]
        assert len(set(means)) > 1
        assert min(means) < float(row["return_mean"]) < max(means)
    assert [row["update"] for row in rows] == ["1", "2", "3", "4"]
    for row in rows:
        assert float(row["episodes_per_second"]) == pytest.approx(6 / float(row["collect_seconds"]))
        # Unrolls a second of the whole update: here of complete episodes.
        assert float(row["eps"]) == pytest.approx(6 / float(row["seconds_per_update"]))
        assert 0 < float(row["worker_utilisation_run"]) <= 1
        assert 0 < float(row["worker_utilisation"]) <= 1
        assert float(row["policy_lag_max"]) == 0
        assert float(row["episode_length_mean"]) == 8
    # It falls linearly with the episodes before each update: 0, 6, 12, 18 of 24.
    rates = [float(row["learning_rate"]) / PPO.learning_rate for row in rows]
    assert rates == pytest.approx([1, 0.75, 0.5, 0.25])
    summary = json.loads((cyborg_run / "summary.json").read_text())
    assert summary["episodes"] == 24
    assert 0 < summary["worker_utilisation_run"] <= summary["worker_utilisation"] <= 1
    assert summary["env_steps"] == 24 * 8


def test_an_agent_that_lacks_its_network_is_no_beginning(tmp_path):
    lacking = Checkpoint({}, {}, TrainingState())
    with pytest.raises(UserError, match=r"does not fit this run: it has no distribution$"):
        train_policy(config_of(), tmp_path / "run", init_from=lacking, quiet=True)


def test_evaluation_during_training_does_not_change_it(cyborg_run, tmp_path):
    run(tmp_path / "run", config_of(eval_every=2, eval_episodes=3))
    assert same_weights(tmp_path / "run", cyborg_run)
    scores = [row["eval_return_mean"] for row in read_metrics(tmp_path / "run")]
    assert [score == score for score in scores] == [False, True, False, True]
    best = load_checkpoint(tmp_path / "run" / "best.safetensors").training
    assert best.best_score == max(scores[1], scores[3])


def test_default_weights_do_not_depend_on_the_number_of_envs(tmp_path):
    """With more envs than an update has episodes, too."""
    weights = []
    for mode, n_envs in (("async", 8), ("sync", 24), ("async", 100)):
        config = TrainConfig(
            mode,
            n_envs=n_envs,
            env_args={"simulator": "compiled", "max_steps": 5},
            total_episodes=48,
        )
        train_policy(config, tmp_path / str(n_envs), quiet=True)
        weights.append(read_record(tmp_path / str(n_envs) / "machine.json").weights)
    assert weights[0] == weights[1] == weights[2]
    assert len(weights[0]) == 3
