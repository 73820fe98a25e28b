"""When a worker on Ray counts as silent, without Ray."""

from __future__ import annotations

import time
from types import SimpleNamespace
from typing import Any

import pytest

from workflow_rl.cluster import ray_connection
from workflow_rl.cluster.ray_connection import COMPILE_SECONDS, RayConnection
from workflow_rl.collection.trace import Trace

HOUR = 3600.0


@pytest.mark.parametrize(
    ("age", "compiles", "is_silent"),
    [
        (0.0, False, False),
        (HOUR, False, True),
        (COMPILE_SECONDS / 2, True, False),
        (2 * COMPILE_SECONDS, True, True),
    ],
)
def test_a_worker_that_has_not_started_is_silent_as_its_sign_says(
    age: float, compiles: bool, is_silent: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ray_connection, "START_SECONDS", 0.5)
    actor = SimpleNamespace(stream="its", has_core=True)
    ray = SimpleNamespace(exceptions=SimpleNamespace(RayError=OSError))
    pool: Any = SimpleNamespace(
        timeout=60.0, trace=Trace(), ray=ray, make_actor=lambda *_, **__: actor, is_slow=False
    )
    connection = RayConnection(0, pool)
    time.sleep(0.6)
    actor.sign = lambda: (time.time() - age, compiles)
    assert connection.overdue is is_silent
    if not is_silent:
        # The newest sign counts: nothing is promised for later.
        actor.sign = lambda: (time.time() - HOUR, False)
        time.sleep(0.6)
        assert connection.overdue
