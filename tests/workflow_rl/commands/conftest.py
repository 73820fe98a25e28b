from __future__ import annotations

import os
from collections.abc import Iterator
from unittest import mock

import pytest


@pytest.fixture(autouse=True)
def environment_variables() -> Iterator[None]:
    """Options that name a folder set a variable, for the workers of the command."""
    with mock.patch.dict(os.environ):
        yield
