from __future__ import annotations

from pathlib import Path

import pytest

from workflow_rl.cage4.cyborg.installation import simulators


def test_doctor_tells_of_the_checkout(
    checkout: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (found,) = simulators()
    assert found.text.startswith("commit 8c3c50c")
    assert not found.fix
    monkeypatch.setenv("WORKFLOW_RL_CYBORG4", str(tmp_path))
    (wrong,) = simulators()
    assert "holds no CybORG/env.py" in wrong.text
    assert wrong.fix.startswith("git clone")


def test_no_checkout_is_no_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("WORKFLOW_RL_CYBORG4", raising=False)
    (found,) = simulators()
    assert not found.fix
