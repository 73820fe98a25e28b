"""CAGE-4's ablation on small runs: every change trains and is scored."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from scripts.cage4_champion_ablation import CHANGES

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.slow
def test_every_change_gets_a_row_and_a_second_call_trains_nothing(tmp_path: Path) -> None:
    path = tmp_path / "rows.json"
    command = [sys.executable, "scripts/cage4_champion_ablation.py", "--seeds", "1"]
    command += ["--episodes", "200", "--json", str(path)]
    subprocess.run(command, cwd=ROOT, env=os.environ, check=True, timeout=1800)
    means = {row["variant"]: row["mean"] for row in json.loads(path.read_text())}
    assert means.keys() == CHANGES.keys()
    # One update after copying the rules is no better than the rules, and no wreck.
    assert -250 < means["recipe"] < -150
    assert means["no conclusions: events alone"] < means["recipe"] - 100
    written = path.read_bytes()
    subprocess.run(command, cwd=ROOT, env=os.environ, check=True, timeout=60)
    assert path.read_bytes() == written
