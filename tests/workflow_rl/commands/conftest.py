"""A run that several files of tests read or copy."""

from pathlib import Path

import pytest

from tests.cli import CART_POLE, TINY, said_by


@pytest.fixture(scope="session")
def cart_pole_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run, in which only `evaluate` may write."""
    path = tmp_path_factory.mktemp("runs") / "finished"
    said = said_by("train-async", CART_POLE, TINY, "--run-dir", path)
    assert f"run folder:      {path}" in said
    assert "is not determined" not in said
    return path
