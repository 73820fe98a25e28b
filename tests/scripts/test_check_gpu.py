import json
import math
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from scripts import check_gpu
from scripts.check_gpu import NETWORKS, main


def cells(output: str) -> list[list[str]]:
    lines = [line for line in output.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.split("|")[1:-1]] for line in lines]


def test_the_seconds_of_updates(monkeypatch, tmp_path):
    monkeypatch.setattr(check_gpu, "BATCHES", (500, 1000))
    monkeypatch.setattr(check_gpu, "usable_cores", lambda: 2)
    monkeypatch.delitem(NETWORKS, "512-512")
    arguments = ["--device", "cpu", "--parts", "seconds", "--out", str(tmp_path)]
    result = CliRunner().invoke(main, arguments, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    _, _, *rows = cells(result.output)
    assert [row[:2] for row in rows] == [[name, n] for name in NETWORKS for n in ("500", "1,000")]
    assert all(float(seconds) > 0 for row in rows for seconds in row[2:])
    kept = json.loads((tmp_path / "gpu.json").read_text())["seconds"]
    assert kept["batches"] == [500, 1000]
    assert kept.keys() == {"batches", *NETWORKS}


def test_what_would_take_long_is_left_out(monkeypatch):
    monkeypatch.setattr(check_gpu, "BATCHES", (500, 1000))
    first, second = check_gpu.timed("64-64", "cpu", 1, 0.0)
    assert first is not None
    assert second is None


@pytest.mark.parametrize(("gpu", "code"), [(100.0, 0), (80.0, 1), (math.nan, 1)])
def test_returns_must_agree(gpu, code, monkeypatch, tmp_path):
    def final_return(folder: Path, task: str, seed: int, device: str) -> float:
        return seed + (gpu if folder.name == "on GPU" else 101.0)

    def ran(*arguments: Any, **options: Any) -> None:
        assert check_gpu.COMPILING in arguments[0]

    monkeypatch.setattr(check_gpu, "final_return", final_return)
    monkeypatch.setattr("subprocess.run", ran)
    arguments = ["--device", "cpu", "--parts", "returns", "--out", str(tmp_path)]
    assert CliRunner().invoke(main, arguments, catch_exceptions=False).exit_code == code
    kept = json.loads((tmp_path / "gpu.json").read_text())["returns"]
    assert [row["task"] for row in kept] == list(check_gpu.TASKS)
    assert [row["agree"] for row in kept] == [not code] * 2
