"""What the tests of commands share."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from unittest import mock

import pytest

from tests.workflow_rl.commands.any_env_commands import CART_POLE, TINY, invoke


@pytest.fixture(autouse=True)
def environment_variables() -> Iterator[None]:
    """Options that name a folder set a variable, for the workers of the command."""
    with mock.patch.dict(os.environ):
        yield


@pytest.fixture(scope="session")
def cart_pole_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run, in which only `evaluate` may write."""
    path = tmp_path_factory.mktemp("runs") / "finished"
    result = invoke("train-async", *CART_POLE, *TINY, "--run-dir", str(path))
    assert result.exit_code == 0, result.output
    assert f"run folder:      {path}" in result.output
    assert "is not determined" not in result.output
    return path
