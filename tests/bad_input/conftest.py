"""A run for commands to be given what is wrong."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.bad_input.refusals import TINY, restored
from tests.cli import said_by


@pytest.fixture(scope="session")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small run, with its policy as a file."""
    path = tmp_path_factory.mktemp("runs") / "finished"
    said_by("train-async", " ".join(TINY), "--run-dir", path)
    said_by("export", path, "--format npz --output", path / "agent.npz")
    return path


@pytest.fixture
def run(finished: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A run of which half is done, in a folder of its own, which is the current one."""
    monkeypatch.chdir(tmp_path)
    yield restored(finished, tmp_path / "run")
    assert not (tmp_path / "exploded").exists()
