from __future__ import annotations

import json
from pathlib import Path

from click.testing import CliRunner

from scripts.compare_with_stable_baselines3 import STEPS, THEIRS, comparison_table, main, published


def test_published_settings_are_values() -> None:
    settings = {env: published(env) for env in STEPS}
    assert settings.keys() == THEIRS.keys()
    assert settings["CartPole-v1"]["learning_rate"](0.5) == 0.0005
    assert settings["Hopper-v5"]["normalize"] is True


def test_means_and_standard_errors() -> None:
    rows = [
        {"env": "Hopper-v5", "steps": 9, "trainer": trainer, "seed": seed, **values}
        for seed, (theirs, ours) in enumerate([(10, 20), (14, 20)])
        for trainer, values in {
            "stable-baselines3": {"return": theirs, "seconds": 8.0},
            "workflow_rl": {"return": ours, "seconds": 4.0 if seed else None},
        }.items()
    ]
    line = str(comparison_table(rows, 9)).splitlines()[3]
    assert [cell.strip() for cell in line.split("│")[1:-1]] == [
        *("Hopper-v5", "9", "2/2", "12.0 ± 2.0", "20.0 ± 0.0", "8", "4", "2.00")
    ]


def test_both_train_and_runs_that_are_known_are_left_out(tmp_path: Path) -> None:
    rows = tmp_path / "rows.json"
    arguments = ["--env", "CartPole-v1", "--seeds", "1", "--steps", "300", "--json", str(rows)]
    for _ in range(2):
        result = CliRunner().invoke(main, arguments, catch_exceptions=False)
        assert "CartPole-v1" in result.output
        assert len(json.loads(rows.read_text())) == 2
