from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from scripts.benchmark_model import main
from tests import tiny_runs
from workflow_rl.runs.config import TrainConfig
from workflow_rl.runs.loop import train_policy

pytestmark = pytest.mark.system

MODEL = {"model_members": 2, "model_elites": 1, "model_hidden_sizes": (8,)}


def config_of(algorithm: str) -> TrainConfig:
    settings = {"activation": "relu", "warm_up_steps": 60, "gradient_steps": 0.1}
    settings |= MODEL if algorithm == "mbpo" else {}
    return tiny_runs.config_of("async", settings, algorithm=algorithm, total_episodes=18)


@pytest.mark.parametrize("algorithm", ["mbpo", "sac"])
def test_a_runs_model(algorithm: str, tmp_path: Path) -> None:
    train_policy(config_of(algorithm), tmp_path / "run", quiet=True)
    arguments = [str(tmp_path / "run"), "--episodes", "2", "--steps", "3"]
    result = CliRunner().invoke(main, arguments)
    if algorithm == "sac":
        assert result.exit_code == 2
        assert "has no model" in result.output
        return
    assert result.exit_code == 0, result.output
    assert [line.split("|")[1].strip() for line in result.output.splitlines()[2:]] == [*"123"]
