"""The check of an agent on both simulators, with few episodes."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from click.testing import CliRunner

from scripts import check_transfer
from scripts.check_transfer import main


def test_an_agent_scores_the_same_on_both() -> None:
    result = CliRunner().invoke(main, ["champion", "--episodes", "2", "--seed", "5", "--quiet"])
    assert result.exit_code == 0, result.output
    assert "0 of 18 returns differ." in result.output


def test_a_return_that_differs_exits_with_1(monkeypatch: pytest.MonkeyPatch) -> None:
    def cell(*returns: float) -> Any:
        about = {"max_steps": 30, "red_agent": "B_lineAgent", "mean": -1.0, "interval_95": 0.1}
        return SimpleNamespace(returns=returns, **about)

    played = iter([cell(-1.0, -2.0), cell(-1.0, -2.5)])

    def evaluation(*_: Any, **__: Any) -> Any:
        return SimpleNamespace(cells=[next(played)], total=-1.0, total_interval_95=0.1)

    monkeypatch.setattr(check_transfer, "evaluate_actor", evaluation)
    result = CliRunner().invoke(main, ["champion", "--episodes", "2"])
    assert result.exit_code == 1
    assert "1 of 2 returns differ." in result.output


def test_a_folder_without_a_run_is_refused(tmp_path: Path) -> None:
    result = CliRunner().invoke(main, [str(tmp_path)])
    assert result.exit_code == 2
    assert "checkpoint.pt" in result.output
