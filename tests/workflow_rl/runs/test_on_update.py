import sys
from typing import Any
from unittest.mock import MagicMock

import pytest
from click import BadParameter
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from tests.pages import ROOT
from tests.tiny_runs import same_weights
from workflow_rl import TrainConfig, Update, api, train
from workflow_rl.commands.options import FUNCTION
from workflow_rl.errors import ConfigError
from workflow_rl.runs.folder import read_metrics, read_summary
from workflow_rl.runs.saved_agent import Agent
from workflow_rl.runs.several_policies import ExchangeConfig
from workflow_rl.studies.population import population_plan


def config(**fields: Any) -> TrainConfig:
    fields = {"total_episodes": 80, "episodes_per_update": 8, **fields}
    return TrainConfig("async", env="CartPole-v1", n_envs=4, n_workers=1, **fields)


def test_a_hook_sees_every_update_and_changes_nothing(tmp_path):
    seen: list[Update] = []

    def note(update: Update) -> None:
        seen.append(update)
        agent = update.agent()
        assert isinstance(agent, Agent)
        update.log("first action", float(agent.act([0.0, 0.0, 0.0, 0.0])))
        with pytest.raises(ValueError, match="could not convert"):
            update.log("first action", "no number")  # type: ignore[arg-type]
        with pytest.raises(TypeError):
            update.metrics["return_mean"] = 0.0

    train(config(), tmp_path / "plain")
    train(config(), tmp_path / "watched", on_update=note)
    assert same_weights(tmp_path / "plain", tmp_path / "watched")
    rows = read_metrics(tmp_path / "watched")
    assert [update.number for update in seen] == list(range(1, 11))
    returns = [update.metrics["return_mean"] for update in seen]
    assert returns == [row["return_mean"] for row in rows]
    events = EventAccumulator(str(tmp_path / "watched"))
    events.Reload()
    assert [event.step for event in events.Scalars("own/first action")] == list(range(1, 11))


@pytest.mark.parametrize("mode", ["async", "sync"])
def test_a_stopped_run_counts_as_finished_and_goes_on_exactly(mode, tmp_path):
    def stop(update: Update) -> None:
        if update.number == 3:
            update.stop("three are enough")

    whole = config().changed(mode=mode)
    train(whole, tmp_path / "whole")
    path = train(whole, tmp_path / "stopped", on_update=stop)
    summary = read_summary(path)
    assert (summary["updates"], summary["finished"]) == (3, True)
    assert summary["stopped"] == "three are enough"
    train(whole, path, resume=True)
    assert "stopped" not in read_summary(path)
    assert same_weights(tmp_path / "whole", path)


def test_a_run_ends_at_the_return_that_is_asked_for(tmp_path):
    fields = {"eval_every": 1, "eval_episodes": 2}
    summary = read_summary(train(config(stop_at_return=5, **fields), tmp_path / "reached"))
    assert summary["updates"] == 1
    assert "5 was asked for" in summary["stopped"]
    summary = read_summary(train(config(stop_at_return=600, **fields), tmp_path / "missed"))
    assert summary["updates"] == 10


def test_a_run_ends_when_it_no_longer_improves(tmp_path):
    still = config(eval_every=1, eval_episodes=2, patience=2, settings={"learning_rate": 1e-12})
    path = train(still, tmp_path / "still")
    assert read_summary(path)["updates"] == 3
    assert "in the last 2 updates" in read_summary(path)["stopped"]
    assert read_summary(train(still, path, resume=True))["updates"] == 3
    assert read_summary(train(still.changed(patience=4), path, resume=True))["updates"] == 5


@pytest.mark.parametrize("field", [{"stop_at_return": 1.0}, {"patience": 3}])
def test_policies_of_a_population_end_together(field):
    with pytest.raises(ConfigError, match="does not go with a population"):
        population_plan(config(**field), 2, ExchangeConfig(ranges={}, period=8))


def test_a_hook_is_named_by_module_and_function():
    with pytest.raises(BadParameter, match="not of the form module:function"):
        FUNCTION.convert("builtins", None, None)
    assert FUNCTION.convert("builtins:print", None, None) is print


@pytest.mark.parametrize(
    ("library", "begin", "send"),
    [("wandb", "init", "log"), ("mlflow", "start_run", "log_metrics")],
)
def test_every_update_is_sent_once(library, begin, send, tmp_path, monkeypatch):
    tracker = MagicMock(run=None)
    tracker.active_run.side_effect = lambda: tracker.run
    begun, sent = getattr(tracker, begin), getattr(tracker, send)
    begun.side_effect = lambda **facts: setattr(tracker, "run", facts)
    monkeypatch.setitem(sys.modules, library, tracker)
    hook: dict[str, Any] = {}
    exec((ROOT / "examples" / f"{library}_hook.py").read_text(), hook)
    config = TrainConfig("async", 4, env="CartPole-v1", total_steps=600, steps_per_update=200)
    run = api.train(config, tmp_path / "run", on_update=hook["log"])
    begun.assert_called_once()
    assert "CartPole-v1" in str(tracker.mock_calls)
    rows, calls = read_metrics(run), sent.call_args_list
    assert [call.kwargs["step"] for call in calls] == list(range(1, len(rows) + 1))
    told = [call.args[0]["return_mean"] for call in calls]
    assert told == pytest.approx([row["return_mean"] for row in rows])
