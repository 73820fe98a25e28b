"""What the folder of several policies says of how they ended."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from workflow_rl.runs.population_dir import interrupt_population, unfinish_population


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (ValueError("the loss is inf"), "the loss is inf"),
        (KeyboardInterrupt(), "KeyboardInterrupt"),
    ],
)
def test_an_interrupted_population_says_why(
    error: BaseException, reason: str, tmp_path: Path
) -> None:
    interrupt_population(tmp_path, error)
    summary = tmp_path / "summary.json"
    assert json.loads(summary.read_text()) == {"finished": False, "reason": reason}
    unfinish_population(tmp_path)
    assert not summary.exists()


def test_a_population_whose_folder_is_gone_is_interrupted_without_a_second_error(
    tmp_path: Path,
) -> None:
    interrupt_population(tmp_path / "gone", ValueError("the loss is inf"))
    assert not (tmp_path / "gone").exists()
