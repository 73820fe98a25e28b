"""Waiting that takes nothing for granted of how soon a busy machine gets to something."""

import time
from collections.abc import Callable

SECONDS = 60.0


def eventually(condition: Callable[[], object], seconds: float = SECONDS) -> None:
    """Waits for it. AssertionError if it has not come about after so long."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.002)
