from __future__ import annotations

import os

import pytest
from hypothesis import settings

import workflow_rl.portable  # noqa: F401  # Before any test loads NumPy.

# No time limits of single examples, which a busy machine exceeds; the same examples every time.
settings.register_profile("reproducible", deadline=None, derandomize=True)
settings.load_profile("reproducible")


@pytest.fixture(scope="session", autouse=True)
def own_state(tmp_path_factory: pytest.TempPathFactory) -> None:
    """What the tests name is not remembered for the user who runs them."""
    os.environ["XDG_STATE_HOME"] = str(tmp_path_factory.mktemp("state"))
