"""How often intervals hold the true mean, with few trials."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from scripts import simulate_coverage
from workflow_rl.evaluation.intervals import Mean


def test_the_table_has_the_normal_and_each_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(simulate_coverage, "N_TRIALS", 300)
    (tmp_path / "rare.json").write_text(json.dumps({"returns": [0.0] * 19 + [-100.0]}))
    simulate_coverage.print_table([tmp_path / "rare.json"])
    normal, _, rare = capsys.readouterr().out.splitlines()[3:6]
    assert "normal" in normal
    assert "rare" in rare
    assert "-4.1" in rare


def test_the_share_of_intervals_by_hand() -> None:
    means = [Mean(1.0, 0.5), Mean(1.0, 1.5), Mean(-1.0, 1.0), Mean(2.0, 0.0)]
    assert simulate_coverage.coverage(means, 0.0) == 0.5
