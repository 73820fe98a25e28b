"""Runs with budgets and with other rewards: what is asked and told, and which agent is kept."""

import math
import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tests.cli import call, refused, said_by
from workflow_rl.agents.policies.distributions import Categorical
from workflow_rl.agents.spaces import Spaces
from workflow_rl.agents.team import TeamLayout
from workflow_rl.environments.env_batch import RewardedEnvs, StepAnswers
from workflow_rl.errors import ConfigError
from workflow_rl.runs.checkpoint import read_values, write_values
from workflow_rl.runs.execute import require_costs
from workflow_rl.runs.folder import read_config, read_metrics
from workflow_rl.runs.read_checkpoint import load_checkpoint

TRAIN = (
    "train-sync --env tests.costly_envs:Hasty --n-envs 2 --n-workers 1 --total-episodes 12 "
    "--episodes-per-update 4 --hidden-sizes 8 --epochs 1 --quiet"
)


@pytest.fixture(scope="module")
def run_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("budgets") / "run"
    asked = "--budget wear=100 --budget cost:p80=0.5 --reward-from reward=2 --reward-from wear=-1"
    said = said_by(TRAIN, asked, "--final-evaluation 4 --run-dir", path)
    (path.parent / "said").write_text(said)
    return path


def test_the_screen_says_whether_budgets_hold(run_dir):
    said = (run_dir.parent / "said").read_text()
    assert "budget:          wear=100 holds: mean " in said
    assert "above 100 in 0.0% of the episodes (last 10 episodes of training)" in said
    assert "budget:          cost:p80=0.5 is exceeded: mean " in said
    assert "(at most 20.0%)" in said
    assert "the last: a greater return may tell only that more was spent" in said
    assert "budget wear=100 holds: mean " in said.partition("scores:")[0].rpartition("steps")[2]
    again = said_by("evaluate", run_dir, "--episodes 4 --n-workers 1 --quiet")
    assert "budget cost:p80=0.5 is exceeded: mean " in again


def test_the_run_keeps_what_was_asked(run_dir):
    config = read_config(run_dir)
    assert config.settings.budgets == {"wear": 100, "cost:p80": 0.5}
    assert config.reward_from == {"reward": 2, "wear": -1}
    refused(call(TRAIN, "--resume", run_dir, "--total-episodes 20 --budget wear=5"), "--budget")
    for name in ("best", "checkpoint"):
        saved = load_checkpoint(run_dir / f"{name}.safetensors")
        assert saved.training.updates == 3
        assert set(saved.agent["budgets"]) == {"multipliers", "critics", "optimizer"}


@pytest.mark.parametrize(
    ("part", "costs", "told"),
    [
        ("recent_costs", [[1.0], [1.0, 2.0, 3.0], []], None),
        ("evaluated_costs", [[1.0, 2.0, 3.0]], None),
        ("recent_costs", [[1.0, math.nan]], "is not a checkpoint of this package"),
        ("evaluated_costs", [[math.inf, 1.0]], "is not a checkpoint of this package"),
        ("recent_costs", [["many", 1.0]], "is not a checkpoint of this package"),
    ],
)
def test_costs_in_a_checkpoint_that_do_not_fit(run_dir, tmp_path, part, costs, told):
    path = tmp_path / "run"
    shutil.copytree(run_dir, path)
    latest = path / "checkpoint.safetensors"
    values = read_values(latest)
    values["training"][part] = costs
    write_values(latest, values)
    resumed = "train-sync --resume", path, "--total-episodes 20 --n-workers 1 --quiet"
    if told is None:
        assert "last agent: " in said_by(*resumed)
    else:
        refused(call(*resumed), "checkpoint.safetensors", told)


def test_metrics_have_multipliers_and_the_reward_that_is_learned(run_dir):
    rows = read_metrics(run_dir)
    assert [row["multiplier_wear"] for row in rows] == [0, 0, 0]
    assert 0 < rows[0]["multiplier_cost:p80"] < rows[-1]["multiplier_cost:p80"]
    for row in rows:
        assert row["return_mean"] == pytest.approx(2 * row["cost_cost"] - row["cost_wear"])


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        ("--budget speed=1", "'speed' is no cost of tests.costly_envs:Hasty: its steps have cost,"),
        ("--reward-from speed=1", "its steps have cost, wear"),
        ("--budget cost=-1", "-1.0 is not allowed: it must be greater than or equal to 0"),
        ("--budget cost", "is not of the form NAME=NUMBER, such as cost=25"),
        ("--budget cost=inf", "is not of the form NAME=NUMBER"),
        ("--budget cost=1 --budget cost=2", "cost is given twice"),
        ("--budget cost:p0=1", "p0 is not from p1 to p100"),
        ("--budget cost=1 --stop-at-return 3", "goes by evaluations in the run: give --eval-every"),
    ],
)
def test_what_cannot_be_is_refused(asked, told, tmp_path):
    refused(call(TRAIN, asked, "--run-dir", tmp_path / "run"), told)
    assert not (tmp_path / "run").exists()


def test_other_algorithms_have_no_budgets():
    of_sac = TRAIN.replace("--epochs 1", "--algorithm sac --budget cost=1")
    refused(call(of_sac), "--budget does not apply", "it is an option of --algorithm ppo")


def test_an_environment_without_costs_is_told_how_to_have_them(tmp_path):
    plain = TRAIN.replace("tests.costly_envs:Hasty", "CartPole-v1")
    refused(call(plain, "--budget cost=1"), "its steps have none", "info['cost']")
    spaces = Spaces(1, Categorical(2))
    config: Any = SimpleNamespace(
        environment=SimpleNamespace(args={"measures": False}, spaces=lambda: spaces),
        settings=SimpleNamespace(budgets={"hosts": 1.0}),
        reward_from={},
        env="here",
    )
    with pytest.raises(ConfigError) as error:
        require_costs(config)
    assert error.value.told(lambda name: f"--{name}") == (
        "'hosts' is no cost of here: its steps have costs only with --measures"
    )


def test_evaluations_choose_among_agents_within_their_budgets(tmp_path):
    for limit, is_scored in (("100", True), ("0", False)):
        path, how = tmp_path / limit, "--eval-every 1 --eval-episodes 3 --play sampled"
        said = said_by(TRAIN, how, f"--budget wear={limit} --run-dir", path)
        assert "(last 3 episodes of evaluation)" in said
        assert ("the last: no evaluation holds the budgets" in said) != is_scored
        state = load_checkpoint(path / "checkpoint.safetensors").training
        assert np.isfinite(state.best_score) == is_scored


def test_an_extended_run_of_a_challenge_has_its_last_agent_as_the_best(tmp_path):
    asked = "train-sync --env workflow_rl/CAGE2-v0 --max-steps 5 --n-envs 2 --n-workers 1 --quiet"
    more = "--episodes-per-update 4 --hidden-sizes 8 --measures --budget decoys=1 --total-episodes"
    said_by(asked, more, "4 --run-dir", tmp_path / "run")
    said_by("train-sync --quiet --resume", tmp_path / "run", "--total-episodes 8")
    best, last = (
        load_checkpoint(tmp_path / "run" / f"{name}.safetensors").training.updates
        for name in ("best", "checkpoint")
    )
    assert best == last == 2


def test_the_own_rewards_of_a_team_sum_to_the_reward():
    layout = TeamLayout(("a", "b"), (1, 1), (2, 2), own_rewards=True)
    rows = np.arange(2 * layout.obs_dim, dtype=np.float32).reshape(2, -1)
    own = layout.rewards(rows).copy()
    costs = np.array([[1.0, 10.0], [2.0, 20.0]])
    nothing = np.zeros(2, np.bool_)
    answers = StepAnswers(rows, own.sum(axis=1).astype(np.float64), nothing, nothing, costs)
    inner: Any = SimpleNamespace(n_envs=2, reset=None, close=None, step=lambda *_: answers)
    made = RewardedEnvs(lambda n: inner, 2.0, {1: -0.5}, layout, 2)
    step = made.step([0, 1], np.zeros(2))
    assert step.reward.tolist() == (2 * own.sum(axis=1) - [5.0, 10.0]).tolist()
    assert layout.rewards(step.obs).sum(axis=1).tolist() == step.reward.tolist()
    assert layout.rewards(rows).tolist() == own.tolist()
