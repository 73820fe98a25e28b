from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from scripts.compare_with_peers.compare_returns import comparison_table, main
from scripts.compare_with_peers.tasks import TASKS


def test_settings_are_values() -> None:
    settings = {name: task.settings() for name, task in TASKS.items()}
    assert settings["CartPole"]["learning_rate"](0.5) == 0.0005
    assert settings["Hopper"]["normalize"] is True
    assert settings["recall 30"]["policy_kwargs"]["net_arch"] == [64]


def test_means_and_standard_errors() -> None:
    rows = [
        {"task": "Hopper", "steps": 9, "trainer": trainer, "seed": seed, **values}
        for seed, (theirs, ours) in enumerate([(10, 20), (14, 20)])
        for trainer, values in {
            "PPO": {"return": theirs, "seconds": 8.0},
            "workflow_rl": {"return": ours, "seconds": 4.0 if seed else None},
        }.items()
    ]
    line = str(comparison_table(rows)).splitlines()[3]
    assert [cell.strip() for cell in line.split("│")[1:-1]] == [
        *("Hopper", "9", "2/2", "PPO", "12.00 ± 2.00", "20.00 ± 0.00", "", "8", "4", "2.00")
    ]


@pytest.mark.slow
def test_both_train_and_runs_that_are_known_are_left_out(tmp_path: Path) -> None:
    rows = tmp_path / "rows.json"
    arguments = ["--task", "CartPole", "--seeds", "1", "--steps", "300", "--json", str(rows)]
    for _ in range(2):
        result = CliRunner().invoke(
            main, [*arguments, "--python", sys.executable], catch_exceptions=False
        )
        assert "CartPole" in result.output
        assert len(json.loads(rows.read_text())) == 2
