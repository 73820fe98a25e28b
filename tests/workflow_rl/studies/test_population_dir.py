"""What the folder of several policies says of how they ended."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from workflow_rl.runs.population_dir import unfinished_population


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
    summary = tmp_path / "summary.json"
    with pytest.raises(type(error)), unfinished_population(tmp_path):
        raise error
    assert json.loads(summary.read_text()) == {"finished": False, "reason": reason}
    with unfinished_population(tmp_path):
        assert not summary.exists()


def test_a_population_whose_folder_is_gone_is_interrupted_without_a_second_error(
    tmp_path: Path,
) -> None:
    with (
        pytest.raises(ValueError, match="the loss is inf"),
        unfinished_population(tmp_path / "gone"),
    ):
        raise ValueError("the loss is inf")
    assert not (tmp_path / "gone").exists()
