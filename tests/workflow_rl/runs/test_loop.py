"""What a run begins with, and what it leaves: its files, metrics, picture and best agent."""

import csv
import json
import logging

import pytest

from tests import tiny_runs
from tests.workflow_rl.runs.small_runs import COMPILED, PPO, config_of
from workflow_rl import api
from workflow_rl.errors import UserError
from workflow_rl.runs.checkpoint import Checkpoint
from workflow_rl.runs.folder import is_finished
from workflow_rl.runs.learner import make_agent
from workflow_rl.runs.loop import train_policy
from workflow_rl.runs.metrics import METRICS
from workflow_rl.runs.read_checkpoint import load_checkpoint
from workflow_rl.runs.run_dir import NotWrittenError
from workflow_rl.runs.training_state import TrainingState


@pytest.mark.parametrize("changes", [{}, {"async_rl": True}])
def test_a_run_ends_with_exactly_its_episodes(changes, tmp_path):
    config = config_of("CAGE-2", env_args=COMPILED, total_episodes=16, **changes)
    summary = tiny_runs.run(tmp_path / "run", config)
    assert (summary["episodes"], summary["updates"]) == (16, 3)


def test_what_a_run_leaves(undisturbed):
    path = undisturbed("CAGE-2")
    names = {path.name for path in path.iterdir()}
    files = {"config.json", "metrics.csv", "summary.json"}
    assert names > files | {"checkpoint.safetensors", "best.safetensors"}
    assert any(name.startswith("events.out.tfevents") for name in names)
    with (path / "metrics.csv").open() as file:
        rows = list(csv.DictReader(file))
    of_each = [f"return_mean_{name}" for name in ("B_lineAgent", "RedMeanderAgent", "SleepAgent")]
    assert list(rows[0]) == [*METRICS, *of_each]
    assert [row["update"] for row in rows] == ["1", "2", "3", "4"]
    for row in rows:
        means = [float(row[name]) for name in of_each if row[name] != "nan"]
        assert len(set(means)) > 1
        assert min(means) < float(row["return_mean"]) < max(means)
        assert float(row["episodes_per_second"]) == pytest.approx(6 / float(row["collect_seconds"]))
        # Unrolls a second of the whole update: here of complete episodes.
        assert float(row["eps"]) == pytest.approx(6 / float(row["seconds_per_update"]))
        assert 0 < float(row["worker_utilisation_run"]) <= 1
        assert 0 < float(row["worker_utilisation"]) <= 1
        assert float(row["policy_lag_max"]) == 0
        assert float(row["episode_length_mean"]) == 8
    # It falls linearly with the episodes before each update: 0, 6, 12, 18 of 24.
    learning_rate = config_of("CAGE-2").settings.learning_rate
    rates = [float(row["learning_rate"]) / learning_rate for row in rows]
    assert rates == pytest.approx([1, 0.75, 0.5, 0.25])
    summary = json.loads((path / "summary.json").read_text())
    assert (summary["episodes"], summary["env_steps"]) == (24, 24 * 8)
    assert 0 < summary["worker_utilisation_run"] <= summary["worker_utilisation"] <= 1


def test_a_run_begins_with_the_agent_of_another(undisturbed, tmp_path):
    other = load_checkpoint(undisturbed("Puzzle", "episodes") / "checkpoint.safetensors")
    config = config_of(kind="unrolls", seed=8, total_steps=60)
    before = make_agent(config)
    before.load_policy(other.agent)
    train_policy(config, tmp_path / "run", init_from=other, quiet=True)
    after = load_checkpoint(tmp_path / "run" / "checkpoint.safetensors")
    assert after.agent["policy_version"] == after.training.updates == 1
    # One small step from where the other ended: Adam's first is the learning rate, at most, each.
    for name, tensor in before.network.state_dict().items():
        moved = (after.agent["network"][name] - tensor).abs().max()
        assert 0 < moved < 3 * PPO.learning_rate
    assert after.agent["obs_moments"]["count"] == other.agent["obs_moments"]["count"] + 60
    with pytest.raises(UserError, match="does not fit"):
        train_policy(config_of("Pendulum"), tmp_path / "other", init_from=other, quiet=True)
    assert not (tmp_path / "other").exists()


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"activation": "relu"}, "learned with activation tanh, and this run has relu"),
        ({"normalise_obs": False}, "obs_moments"),
    ],
)
def test_weights_for_another_function_are_refused(settings, said, undisturbed, tmp_path):
    path, asked = undisturbed("CartPole"), config_of("CartPole").settings.changed(**settings)
    with pytest.raises(UserError, match=said):
        api.train(config_of("CartPole", settings=asked), tmp_path / "other", init_from=path)
    assert not (tmp_path / "other").exists()


def test_an_agent_that_lacks_its_network_is_no_beginning(tmp_path):
    lacking = Checkpoint({}, {}, TrainingState())
    with pytest.raises(UserError, match=r"does not fit this run: it has no distribution$"):
        train_policy(config_of("CAGE-2"), tmp_path / "run", init_from=lacking, quiet=True)


def train(path, draw):
    config = tiny_runs.config_of(total_episodes=6, n_workers=1)
    with tiny_runs.on_counting_envs():
        train_policy(config, path, quiet=True, draw=draw)


def raising(error):
    def draw(*arguments):
        raise error

    return draw


@pytest.mark.parametrize("error", [ValueError("no such\nglyph"), MemoryError(), KeyError("x")])
def test_a_picture_that_cannot_be_drawn_is_only_a_warning(error, tmp_path, caplog):
    train(tmp_path / "run", raising(error))
    assert is_finished(tmp_path / "run")
    (said,) = [one.message for one in caplog.records if "is not drawn" in one.message]
    assert f"learning_curve.png is not drawn: {type(error).__name__}" in said
    assert "\n" not in said


def test_a_picture_that_cannot_be_written_is_an_error(tmp_path):
    with pytest.raises(NotWrittenError, match=r"learning_curve\.png cannot be written: full"):
        train(tmp_path / "run", raising(OSError(28, "full")))


def test_a_quiet_run_leaves_the_handlers_of_logging_alone(tmp_path, monkeypatch):
    """Runs may overlap in several threads: each would put back what it has found."""
    mine, seen = logging.StreamHandler(), []
    monkeypatch.setattr(logging.getLogger(), "handlers", [mine])
    train(tmp_path / "run", lambda *_: seen.append(list(logging.getLogger().handlers)))
    assert seen == [[mine]]


def test_without_a_score_an_extended_run_leaves_a_guest_the_best_of_before(tmp_path):
    """Which the guest compares with the last."""
    for total in (6, 12):
        tiny_runs.run(tmp_path, tiny_runs.config_of(total_episodes=total, n_workers=1))
        assert load_checkpoint(tmp_path / "best.safetensors").training.episodes == 6
