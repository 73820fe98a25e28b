"""Undisturbed runs that several files of tests compare with; they may only be read or copied."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.workflow_rl.runs import any_env_runs, cyborg_runs


@pytest.fixture(scope="session")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str, str], Path]:
    """Gives the finished run of an env and a kind of `any_env_runs`."""

    @functools.cache
    def path_of(env: str, kind: str) -> Path:
        path = tmp_path_factory.mktemp("undisturbed") / "run"
        any_env_runs.run(path, any_env_runs.config_of(env, kind))
        return path

    return path_of


@pytest.fixture(scope="session")
def cyborg_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The finished run of `cyborg_runs`."""
    path = tmp_path_factory.mktemp("cyborg") / "run"
    cyborg_runs.run(path, cyborg_runs.config_of(n_workers=2))
    return path
