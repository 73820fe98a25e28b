"""A run for commands to be given what is wrong."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from tests.bad_input.refusals import TINY, restored
from workflow_rl.commands.main import main


@pytest.fixture(scope="session")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small run, with its policy as a file."""
    path = tmp_path_factory.mktemp("runs") / "finished"
    result = CliRunner().invoke(main, ["train-async", *TINY, "--run-dir", str(path)])
    assert result.exit_code == 0, result.output
    exported = ["export", str(path), "--format", "npz", "--output", str(path / "agent.npz")]
    assert CliRunner().invoke(main, exported).exit_code == 0
    return path


@pytest.fixture
def run(finished: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A run of which half is done, in a folder of its own, which is the current one."""
    monkeypatch.chdir(tmp_path)
    yield restored(finished, tmp_path / "run")
    assert not (tmp_path / "exploded").exists()
