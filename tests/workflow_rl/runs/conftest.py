"""Undisturbed runs that several files of tests compare with; they may only be read or copied."""

import functools
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.tiny_runs import run
from tests.workflow_rl.runs.small_runs import config_of


@pytest.fixture(scope="session")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """Gives the finished run of a config of `small_runs`."""

    @functools.cache
    def path_of(what: str, kind: str = "episodes") -> Path:
        path = tmp_path_factory.mktemp("undisturbed") / "run"
        run(path, config_of(what, kind))
        return path

    return path_of
