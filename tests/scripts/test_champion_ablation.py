"""The ablation on one small run: what it keeps, and that it goes on where it stopped."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from scripts import champion_ablation

SMALL = {"n-envs": 20, "episodes-per-update": 20, "hidden-sizes": "8"}


def test_it_keeps_a_row_a_run_and_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(champion_ablation, "RECIPE", {**champion_ablation.RECIPE, **SMALL})
    monkeypatch.setattr(champion_ablation, "SCORING_EPISODES", 10)
    path = tmp_path / "rows.json"
    arguments = ["--seeds", "1", "--episodes", "400", "--json", str(path)]
    arguments += ["--variant", "two specialists"]
    for plot in (tmp_path / "first.png", tmp_path / "again.png"):
        result = CliRunner().invoke(champion_ablation.main, [*arguments, "--plot", str(plot)])
        assert result.exit_code == 0, result.output
        assert plot.stat().st_size > 10_000
        (row,) = json.loads(path.read_text())
        assert row["variant"] == "two specialists"
        assert row["total"] == pytest.approx(sum(map(sum, row["cells"].values())))
        assert row["total"] < -50
        assert [point[0] for curve in row["curves"] for point in curve][-1] == 400
    assert "two specialists" in result.output
