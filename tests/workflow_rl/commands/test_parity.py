"""The command parity on CAGE-4."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from tests.workflow_rl.cage4.conftest import checkout as checkout
from workflow_rl.commands.main import main

CAGE4 = ("--env", "workflow_rl/CAGE4-v0")


def invoke(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["parity", *arguments])


def test_episodes_are_compared_and_remembered(checkout: Path, tmp_path: Path) -> None:
    pair = ("--blue", "restores", "--red-agent", "FiniteStateRedAgent", "--max-steps", "20")
    record = ("--record", str(tmp_path / "record.jsonl"), "--n-workers", "1", "--quiet")
    for _ in range(2):
        result = invoke(*CAGE4, *pair, *record, "--episodes", "2")
        assert result.exit_code == 0, result.output
        assert "2 episodes, 40 steps, 0 differences" in result.output
    assert len((tmp_path / "record.jsonl").read_text().splitlines()) == 2


def test_what_belongs_to_the_other_challenge_is_refused(checkout: Path) -> None:
    result = invoke(*CAGE4, "--network-episodes", "2")
    assert "--network-episodes does not apply to workflow_rl/CAGE4-v0" in result.output
    result = invoke(*CAGE4, "--red-agent", "B_lineAgent")
    assert "'B_lineAgent' is not one of 'FiniteStateRedAgent'" in result.output
    assert result.exit_code == 2


def test_a_checkout_is_needed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("WORKFLOW_RL_CYBORG4", "")
    result = invoke(*CAGE4, "--cyborg4", str(tmp_path))
    assert result.exit_code == 2
    assert "holds no CybORG/env.py" in result.output
