"""Runs that nothing happens to."""

import functools
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.faults.runs import config_of
from tests.tiny_runs import run
from tests.workflow_rl.conftest import policy  # noqa: F401

Reference = Callable[[str, int], Path]


@pytest.fixture(scope="package")
def reference(tmp_path_factory: pytest.TempPathFactory) -> Reference:
    """The run of a mode and so many updates, on this machine's workers."""

    @functools.cache
    def path_of(mode: str, updates: int) -> Path:
        path = tmp_path_factory.mktemp("reference")
        config = config_of(mode, "compiled", updates)
        run(path, config, make_envs=config.environment.make_envs)
        return path

    return path_of
