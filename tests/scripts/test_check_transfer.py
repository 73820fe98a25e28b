"""The transfer check: its tests of equality, and the whole of it on a few episodes."""

import importlib.util
import json
import math
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from click.testing import CliRunner

from agents.policies.distributions import Categorical
from agents.ppo.agent import PPOAgent
from workflow_rl.cage2.cyborg.simulator_version import SimulatorVersion
from workflow_rl.cage2.scoring.scores import CellScore, Evaluation
from workflow_rl.runs.checkpoint import Checkpoint, TrainingState, save_checkpoint
from workflow_rl.runs.config import TrainConfig

SCRIPT = Path(__file__).resolve().parents[2] / "scripts" / "check_transfer.py"


@pytest.fixture(scope="module")
def script():
    spec = importlib.util.spec_from_file_location("check_transfer", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    path = list(sys.path)
    spec.loader.exec_module(module)
    sys.path[:] = path
    return module


@pytest.fixture
def run(tmp_path):
    config = TrainConfig("async", n_envs=2)
    agent = PPOAgent(config.settings, 52, Categorical(145), seed=3)
    checkpoint = Checkpoint(config.to_dict(), agent.state_dict(), TrainingState())
    save_checkpoint(tmp_path / "checkpoint.pt", checkpoint)
    return tmp_path


def evaluation(*cells_returns):
    """One with these returns, a list a cell."""
    cells = [
        CellScore(30 + i, "B_lineAgent", [SimpleNamespace(episode_return=r) for r in returns])
        for i, returns in enumerate(cells_returns)
    ]
    return Evaluation("an agent", SimulatorVersion("a", "b", "c"), 0, 1.0, cells)


def test_unequal_returns_are_counted_across_cells(script):
    one = evaluation([-1.0, -2.0, -3.0], [-4.0, -5.0])
    other = evaluation([-1.0, -2.5, -3.0], [-5.0, -4.0])
    assert script.n_unequal(one.cells, one.cells) == 0
    assert script.n_unequal(one.cells, other.cells) == 3


def test_difference_of_means_has_the_interval_of_independent_samples(script):
    # Standard deviations sqrt(2) and 2 sqrt(2) of 2: variances of the means 1 and 4.
    ((difference, interval),) = script.mean_differences(
        evaluation([-1.0, -3.0]), evaluation([-4.0, -8.0])
    )
    assert difference == -4.0
    assert interval == pytest.approx(1.96 * math.sqrt(5))


@pytest.mark.parametrize(
    ("differences", "differ"),
    [
        # 2.7 standard errors leave a 95% interval, but not that of 1 - 0.05/9, which is 2.773.
        ([(2.7, 1.96), *[(0.0, 1.0)] * 8], False),
        ([(2.8, 1.96), *[(0.0, 1.0)] * 8], True),
        ([(-2.8, 1.96), *[(0.0, 1.0)] * 8], True),
        ([(2.0, 1.96)], True),
        ([(1.9, 1.96)], False),
        # Returns that never vary.
        ([(0.0, 0.0)], False),
        ([(-0.1, 0.0)], True),
    ],
)
def test_joint_verdict(script, differences, differ):
    assert script.some_cell_differs(differences) == differ


def test_joint_verdict_is_seldom_wrong_about_equal_means(script):
    random = np.random.default_rng(0)
    checks = [
        script.some_cell_differs([(z, 1.96) for z in random.normal(size=9)]) for _ in range(2000)
    ]
    assert 0.035 < np.mean(checks) < 0.065


def test_an_agent_scores_the_same_on_both(script, run, tmp_path):
    options = ["--episodes", "3", "--seed", "5", "--json", str(tmp_path / "t.json"), "--quiet"]
    result = CliRunner().invoke(script.main, [str(run), *options])
    assert "Same seeds: 0 of 27 returns differ." in result.output, result.output
    played = json.loads((tmp_path / "t.json").read_text())
    cyborg, same, other = played.values()
    assert [cyborg["seed"], same["seed"], other["seed"]] == [5, 5, 6]
    assert [cell["returns"] for cell in cyborg["cells"]] == [c["returns"] for c in same["cells"]]
    assert [cell["returns"] for cell in cyborg["cells"]] != [c["returns"] for c in other["cells"]]
    assert sum(len(cell["returns"]) for cell in cyborg["cells"]) == 27


@pytest.mark.parametrize("fault", ["same seeds", "other seeds"])
def test_a_score_that_differs_exits_with_1(script, run, monkeypatch, fault):
    played = iter(
        {
            "same seeds": [[-1.0, -2.0], [-1.0, -2.5], [-1.0, -2.0]],
            "other seeds": [[-1.0, -2.0], [-1.0, -2.0], [-9.0, -9.0]],
        }[fault]
    )
    monkeypatch.setattr(script, "evaluate_actor", lambda *_, **__: evaluation(next(played)))
    result = CliRunner().invoke(script.main, [str(run), "--episodes", "2"])
    assert result.exit_code == 1
    assert f"{1 if fault == 'same seeds' else 0} of 2 returns differ" in result.output
    verdict = "do not differ." if fault == "same seeds" else "the means differ."
    assert verdict in result.output


def test_a_folder_without_a_run_is_refused(script, tmp_path):
    result = CliRunner().invoke(script.main, [str(tmp_path)])
    assert result.exit_code == 2
    assert "checkpoint.pt" in result.output
