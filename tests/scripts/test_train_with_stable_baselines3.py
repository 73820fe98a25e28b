from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[2] / "scripts" / "train_with_stable_baselines3.py"


def run(*options: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(SCRIPT), *options]
    return subprocess.run(command, check=False, capture_output=True, text=True, timeout=120)


@pytest.mark.parametrize("way", [["--batched"], []])
def test_it_trains_and_scores(way: list[str]) -> None:
    shown = run("--total-steps", "1", "--n-envs", "20", *way)
    assert shown.returncode == 0, shown.stderr
    found = re.fullmatch(r"2000 steps in [\d.]+ s; return (-\d+\.\d) ± \d+\.\d\n", shown.stdout)
    assert found, shown.stdout
    assert -1100 < float(found[1]) < -50


def test_the_batch_is_of_compiled_envs() -> None:
    refused = run("--batched", "--simulator", "cyborg")
    assert refused.returncode == 2
    assert "--batched steps --simulator compiled only, not cyborg" in refused.stderr
