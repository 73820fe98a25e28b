"""The ablation on one small run: what it keeps, and that it goes on where it stopped."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from scripts import champion_ablation
from workflow_rl.cage2.agent import champion

pytestmark = pytest.mark.system


@pytest.mark.slow
def test_it_keeps_a_row_a_run_and_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(champion, "PPO", {**champion.PPO, "hidden_sizes": (8,), "epochs": 1})
    monkeypatch.setattr(champion_ablation, "SCORING_EPISODES", 10)
    path = tmp_path / "rows.json"
    arguments = ["--seeds", "1", "--episodes", "400", "--json", str(path)]
    arguments += ["--variant", "no opening"]
    for _ in range(2):
        result = CliRunner().invoke(champion_ablation.main, arguments)
        assert result.exit_code == 0, result.output
        (row,) = json.loads(path.read_text())
        assert row["variant"] == "no opening"
        assert row["total"] == pytest.approx(sum(map(sum, row["cells"].values())))
        assert row["total"] < -50
    assert "no opening" in result.output
