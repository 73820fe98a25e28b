"""What a worker answers to Ray, without Ray."""

from __future__ import annotations

import functools
import os
import pickle
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import cloudpickle
import numpy as np
import pytest

from tests.any_envs import PuzzleEnv
from workflow_rl.cluster.ray_worker import Host, RayWorker
from workflow_rl.collection.messages import Command, Reply, Request
from workflow_rl.environments.env_batch import SerialEnvs
from workflow_rl.environments.episode import episode_spec
from workflow_rl.environments.flat_env import FlatEnv


def read(stream: Iterator[bytes]) -> list[Any]:
    """As Ray does: it sends a value for each message of a stream."""
    messages = [next(stream)]
    with suppress(StopIteration):
        while True:
            messages.append(stream.send("more"))  # type: ignore[attr-defined]
    return [pickle.loads(message) for message in messages]


def test_streams_take_what_ray_sends(monkeypatch: pytest.MonkeyPatch) -> None:
    host = Host("node", "127.0.0.1", os.getpid(), 0, [])
    monkeypatch.setattr(RayWorker, "_host", lambda worker: host)
    worker = RayWorker(2, 0.0, False, {})
    make_envs = functools.partial(SerialEnvs, lambda: FlatEnv(PuzzleEnv()))
    assert read(worker.start(cloudpickle.dumps(make_envs))) == [Reply(host)]
    reset = Request(Command.RESET, ([0, 1], [episode_spec(0, n) for n in range(2)]))
    (reply,) = read(worker.answer(pickle.dumps(reset), None))
    assert isinstance(reply, Reply)
    assert np.shape(reply.result[0]) == (2, 15)
