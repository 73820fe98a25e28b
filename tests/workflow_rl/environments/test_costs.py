"""Costs of steps: where they are read from, what is refused, and how they come to a run's files."""

import csv
import json
import math
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.cli import said_by
from tests.costly_envs import Hasty, Many, Pair
from tests.tiny_envs import CountingEnv
from workflow_rl import TrainConfig, evaluate, train
from workflow_rl.environments.episode import episode_spec
from workflow_rl.environments.gymnasium_env import GymnasiumEnvironment
from workflow_rl.errors import ConfigError
from workflow_rl.evaluation.measures import readings_in
from workflow_rl.runs.folder import read_metrics

RIGHT = {"cost": 1.0, "costs": {"wear": 0.5}}
SMALL: dict[str, Any] = {"n_envs": 4, "total_episodes": 24, "episodes_per_update": 8, "seed": 1}


def played(environment: GymnasiumEnvironment, actions: list[list[int]]) -> list[Any]:
    """The answers of two envs to these actions of each step."""
    environment.spaces()
    envs = environment._make_envs(2)
    envs.reset([0, 1], [episode_spec(0, number) for number in range(2)])
    return [envs.step([0, 1], np.array(of_step)) for of_step in actions]


@pytest.mark.parametrize("make", [Hasty, Many])
def test_costs_are_columns_by_name(make):
    environment = GymnasiumEnvironment("mine", {}, make)
    assert environment.spaces().costs == ("cost", "wear")
    first, second = played(environment, [[0, 1], [1, 1]])
    assert first.costs[:, 0].tolist() == [0, 1]
    assert first.costs[0, 1] == 0 < first.costs[1, 1]
    assert first.costs[1, 1] != second.costs[1, 1]


def test_a_teams_cost_is_the_sum_over_its_agents():
    environment = GymnasiumEnvironment("mine", {}, Pair)
    assert environment.spaces().costs == ("cost",)
    *_, third = played(environment, [[[1, 0]] * 2] * 2 + [[[1, 1], [1, 0]]])
    alone, both = third.costs[1, 0] / third.obs[1, 0], third.costs[0, 0]
    assert third.costs.shape == (2, 1)
    assert alone > 0
    assert both > 0
    assert environment.check() is None


def test_an_environment_without_costs_has_none():
    assert GymnasiumEnvironment("mine", {}, CountingEnv).spaces().costs == ()
    (answer,) = played(GymnasiumEnvironment("mine", {}, CountingEnv), [[0, 1]])
    assert answer.costs is None


@pytest.mark.parametrize(
    "info", [{"cost": "low"}, {"cost": [1, 2]}, {"costs": [1]}, {"costs": {1: 2}}]
)
def test_what_is_no_number_of_a_name_is_no_cost(info):
    environment = GymnasiumEnvironment("mine", {"wrong": info, "at": 1}, Hasty)
    assert environment.spaces().costs == ()


@pytest.mark.parametrize(
    ("info", "told"),
    [
        ({}, "step 3 lacks the cost 'cost': give info['cost'] with every step"),
        ({**RIGHT, "cost": None}, "step 3 lacks the cost 'cost'"),
        ({"cost": 1.0}, "step 3 lacks the cost 'wear': give info['costs']['wear']"),
        ({**RIGHT, "cost": math.nan}, "the cost 'cost' of step 3 is nan, not a finite number"),
        ({**RIGHT, "cost": -math.inf}, "the cost 'cost' of step 3 is -inf"),
        ({**RIGHT, "cost": "1"}, "the cost 'cost' of step 3 is '1', not a number"),
        ({**RIGHT, "costs": {"wear": [1]}}, "the cost 'wear' of step 3 is [1], not a number"),
        (
            {**RIGHT, "costs": {"wear": 1, "noise": 1}},
            "step 3 has the cost 'noise', which the environment's first step did not have",
        ),
    ],
)
def test_a_wrong_cost_is_told_with_its_step(info, told):
    with pytest.raises(ConfigError) as error:
        GymnasiumEnvironment("mine", {"wrong": info}, Hasty).check()
    assert told in str(error.value)
    assert "\n" not in str(error.value)


class Fewer(Many):
    n_arrays = 4


class Unnamed(Many):
    costs = ()


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (Fewer, "step gave 4 arrays, not 5, the last of them the costs cost, wear"),
        (Unnamed, "step gave 5 arrays, not 4"),
    ],
)
def test_a_batch_answers_the_costs_that_it_names(make, told):
    with pytest.raises(ConfigError, match=told):
        GymnasiumEnvironment("mine", {}, make).check()


def test_another_interpreter_sends_costs():
    there = GymnasiumEnvironment("tests.costly_envs:Hasty", {}, python=sys.executable)
    here = GymnasiumEnvironment("tests.costly_envs:Hasty")
    assert there.spaces().costs == here.spaces().costs
    for answer, other in zip(
        *(played(env, [[0, 1], [1, 1]]) for env in (there, here)), strict=True
    ):
        assert (answer.costs == other.costs).all()
    team = GymnasiumEnvironment("tests.costly_envs:Pair", {}, python=sys.executable)
    assert team.spaces().costs == ("cost",)


class Changing(Hasty):
    """Its costs do not follow from the seed."""

    def info(self, hasty: float, wear: float) -> dict[str, Any]:
        return {"cost": np.random.default_rng().random()}


def test_costs_that_the_seed_does_not_determine_are_told():
    found = GymnasiumEnvironment("mine", {}, Changing).check()
    assert found is not None
    assert "list of costs after step 1" in found


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("costs") / "run"
    return train(TrainConfig("async", n_workers=2, **SMALL, env="x"), path, env=Hasty)


def test_metrics_have_the_mean_of_each_cost(trained):
    rows = read_metrics(trained)
    assert len(rows) == 3
    for row in rows:
        assert row["cost_cost"] == row["return_mean"]
        assert 0 < row["cost_wear"] < row["cost_cost"]


def test_an_evaluation_measures_costs(trained, tmp_path):
    agents, measured = [], []
    for number, greedy in enumerate((True, False)):
        scores = evaluate(trained, 5, env=Hasty, greedy=greedy, n_workers=1)
        assert "wear" in "\n".join(scores.lines("it"))
        assert scores.costs["cost"] == scores.returns
        content = scores.to_dict()
        (of_task,) = readings_in(content)["wear"]
        assert [value for value, _ in of_task] == pytest.approx(scores.costs["wear"])
        measured.append(scores.costs["wear"])
        agents.append(tmp_path / f"{number}.json")
        agents[-1].write_text(json.dumps(content))
    files = [tmp_path / f"table.{ending}" for ending in ("csv", "json", "tex")]
    for file in files:
        table = said_by("compare", agents[1], "--baseline", agents[0], "--output", file)
    line = next(line for line in table.splitlines() if "wear" in line)
    assert line.count("±") == 3
    _, *rows = csv.DictReader(files[0].open())
    row = next(row for row in rows if row["measure"] == "wear")
    same = next(row for row in json.loads(files[1].read_text()) if row.get("measure") == "wear")
    more = np.subtract(scores.costs["wear"], measured[0]).mean()
    assert float(row["difference"]) == same["difference"] == pytest.approx(more)
    assert float(row["difference_interval_95"]) == same["difference_interval_95"] > 0
    (told,) = [line for line in files[2].read_text().splitlines() if line.startswith("wear")]
    assert told.count(r"$\pm$") == 3
    content.pop("measures")
    agents[1].write_text(json.dumps(content))
    assert "wear" not in said_by("compare", agents[1], "--baseline", agents[0])
