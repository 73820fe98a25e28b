import json
import math
from typing import Any

import numpy as np
import pytest

from tests.cli import said_by
from tests.tiny_runs import same_weights, stop_before
from tests.workflow_rl.studies.population_runs import (
    EXCHANGE,
    N_POLICIES,
    SHORT,
    configs_of,
    run,
    same_population,
)
from workflow_rl.agents.algorithm import DivergedError
from workflow_rl.agents.ppo.agent import PPOAgent
from workflow_rl.collection.messages import StopRequested
from workflow_rl.runs.folder import read_metrics, runs_in
from workflow_rl.runs.learner import make_agent
from workflow_rl.runs.read_checkpoint import load_checkpoint
from workflow_rl.runs.several_policies import policy_folder, read_population


@pytest.fixture
def diverging(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Call with a seed and an update: that policy diverges in the middle of it."""
    update = PPOAgent.update

    def diverge(seed: int, update_number: int) -> None:
        def maybe(agent: PPOAgent, *arguments: Any) -> Any:
            metrics = update(agent, *arguments)
            if (agent.seed, agent.policy_version) == (seed, update_number):
                raise DivergedError("the value's loss is inf")
            return metrics

        monkeypatch.setattr(PPOAgent, "update", maybe)

    return diverge


@pytest.mark.parametrize(("number", "stops"), [(0, (3, 6)), (1, (4, 9))])
def test_a_member_that_diverges_takes_over_from_another(number, stops, diverging, tmp_path, caplog):
    """Resumed, the population ends as it does undisturbed."""
    diverging(3 + number, 1)
    path, configs = tmp_path / "run", configs_of(N_POLICIES, exchange=EXCHANGE)
    run(path, configs, exchange=EXCHANGE)
    meeting = read_population(path).meetings[0]
    assert [score == -math.inf for score in meeting.scores] == [n == number for n in range(4)]
    assert number in dict(meeting.copies)
    assert meeting.at == 12, "of those that went on"
    (warning,) = [one.getMessage() for one in caplog.records if "diverged" in one.getMessage()]
    assert f"policy-{number} diverged in update 1: the value's loss is inf" in warning
    folder = policy_folder(path, number)
    assert (folder / "diverged.npz").exists()
    rows = read_metrics(folder)
    assert [row["episodes"] for row in rows] == [6, 12, 18, 24, 30, 36]
    assert [math.isnan(row["policy_loss"]) for row in rows] == [True] + [False] * 5
    assert not load_checkpoint(folder / "checkpoint.safetensors").training.diverged
    for stop_at in stops:
        again = tmp_path / str(stop_at)
        with pytest.raises(StopRequested):
            run(again, configs, exchange=EXCHANGE, before=stop_before(stop_at))
        run(again, configs, exchange=EXCHANGE)
        assert same_population(again, path)


def test_what_diverged_is_as_it_was_before_and_waits(diverging, tmp_path):
    configs = configs_of(N_POLICIES, exchange=EXCHANGE)
    weights: list[Any] = []

    def stop(pool: Any, policy: Any, count: int) -> None:
        weights.append(policy.parameters.weights)
        if count == 6:
            pool.stop_signal = 15

    diverging(4, 1)
    with pytest.raises(StopRequested):
        run(tmp_path, configs, exchange=EXCHANGE, before=stop)
    saved = load_checkpoint(policy_folder(tmp_path, 1) / "checkpoint.safetensors")
    assert saved.training.diverged
    assert (saved.training.updates, saved.training.episodes, saved.begun) == (1, 6, [])
    assert saved.agent["optimizer"]["state"] == {}
    agent = make_agent(configs[1])
    agent.load_state_dict(saved.agent)
    for left, right in zip(agent.policy_parameters().weights, weights[1], strict=True):
        assert np.array_equal(left, right)


@pytest.mark.parametrize(
    ("exchange", "update_number"),
    [(None, 1), (EXCHANGE, 5)],
    ids=["no exchange", "no meeting left"],
)
def test_one_that_cannot_be_rescued_ends_alone(
    exchange, update_number, population, diverging, tmp_path, caplog
):
    """Resumed too; its checkpoint is of before."""
    configs, path, undisturbed = configs_of(N_POLICIES, exchange), tmp_path / "run", population
    if exchange is None:
        undisturbed = tmp_path / "undisturbed"
        run(undisturbed, configs)
    diverging(configs[0].seed, update_number)

    with pytest.raises(StopRequested):
        run(path, configs, exchange, before=stop_before(17 + update_number))
    summaries = run(path, configs, exchange)
    assert [summary["finished"] for summary in summaries] == [False, True, True, True]
    assert summaries[0]["reason"] == "the value's loss is inf"
    assert "policy-0 diverged in update" in caplog.text
    assert (policy_folder(path, 0) / "diverged.npz").exists()
    assert len(read_metrics(policy_folder(path, 0))) == update_number - 1
    kept = load_checkpoint(policy_folder(path, 0) / "checkpoint.safetensors")
    assert kept.agent["policy_version"] == kept.training.updates < update_number
    assert all(tensor.isfinite().all() for tensor in kept.agent["network"].values())
    for one, other in list(zip(runs_in(path), runs_in(undisturbed), strict=True))[1:]:
        assert same_weights(one, other)


def test_the_last_member_that_learns_ends_the_run_if_it_diverges(monkeypatch, tmp_path):
    def diverge(*arguments: Any) -> Any:
        raise DivergedError("the value's loss is inf")

    monkeypatch.setattr(PPOAgent, "update", diverge)
    with pytest.raises(DivergedError):
        run(tmp_path, configs_of(N_POLICIES, exchange=EXCHANGE), exchange=EXCHANGE)


@pytest.mark.parametrize("update_number", [1, 2])
def test_a_run_one_of_whose_policies_diverged_goes_on_past_its_end(
    update_number, diverging, tmp_path
):
    path = tmp_path / "run"
    diverging(0, update_number)
    policies = ["--n-policies 2 --quiet --final-evaluation 2 --run-dir", path]
    result = said_by("train-async", SHORT, *policies)
    assert "best agent:" in result
    assert "(of policy 1)" in result
    assert json.loads((path / "summary.json").read_text())["best_policy"] == 1
    (of_one,) = [line for line in result.splitlines() if "scores:" in line]
    assert "policy-1" in of_one
    said_by("train-async --quiet --total-steps 1500 --resume", path)
    assert read_metrics(policy_folder(path, 1))[-1]["env_steps"] >= 1500
