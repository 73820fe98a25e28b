"""Pools and workers on a Ray that is played in this process, and when a worker counts as silent."""

import functools
import logging
import os
import pickle
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from types import SimpleNamespace
from typing import Any

import cloudpickle
import numpy as np
import pytest

from tests.any_envs import PuzzleEnv
from tests.tiny_envs import CountingEnv
from tests.workflow_rl.cluster.played_ray import PlayedRay
from tests.workflow_rl.conftest import assert_same_trajectories
from workflow_rl.cage2.scenario2 import RED_AGENTS
from workflow_rl.cluster import ray_connection, ray_pool, ray_worker
from workflow_rl.cluster.ray_connection import COMPILE_SECONDS, RayConnection
from workflow_rl.cluster.ray_pool import RayPool
from workflow_rl.cluster.ray_worker import Host, RayWorker, StoredLife
from workflow_rl.collection.async_collector import AsyncCollector
from workflow_rl.collection.messages import Command, Reply, Request, WorkerError
from workflow_rl.collection.sync_collector import SyncCollector
from workflow_rl.collection.trace import Activity, Trace, unpacked_marks
from workflow_rl.environments.env_batch import SerialEnvs
from workflow_rl.environments.episode import episode_spec
from workflow_rl.environments.flat_env import FlatEnv
from workflow_rl.errors import ConfigError

HOUR = 3600.0
SPEC = episode_spec(0, 0, RED_AGENTS)


@pytest.fixture
def ray(monkeypatch: pytest.MonkeyPatch) -> PlayedRay:
    """A cluster of two nodes of a core each, which pools of an address join."""
    played = PlayedRay(1.0, 1.0)
    kept: dict[str, bytes] = {}
    store = SimpleNamespace(_internal_kv_put=kept.__setitem__, _internal_kv_get=kept.get)
    monkeypatch.setitem(sys.modules, "ray", played)  # type: ignore[arg-type]
    monkeypatch.setitem(sys.modules, "ray.experimental", SimpleNamespace())  # type: ignore[arg-type]
    monkeypatch.setitem(sys.modules, "ray.experimental.internal_kv", store)  # type: ignore[arg-type]
    cluster = SimpleNamespace(ray=played, leave=lambda: played.stored.append("left"))
    monkeypatch.setattr(ray_pool, "Cluster", lambda address, n_workers: cluster)
    monkeypatch.setattr(ray_worker, "show_life_in", lambda life: None)
    monkeypatch.setattr(ray_pool, "PATIENCE_SECONDS", 0.05)
    return played


def pool_of(n_workers: int, envs_per_worker: int = 1, **options: Any) -> RayPool:
    make_envs = partial(SerialEnvs, CountingEnv)
    return RayPool(make_envs, n_workers, envs_per_worker, address="10.0.0.1:6379", **options)


def places(ray: PlayedRay) -> list[str]:
    """Where each actor is or was: its node, and whether it has a core to itself."""
    return [
        f"{(actor.node or {}).get('NodeID')} {actor.options['num_cpus']}"
        f"{' killed' if actor.is_killed else ''}"
        for actor in ray.actors
    ]


@pytest.mark.parametrize("is_sync", [False, True])
def test_a_pool_plays_what_plain_episodes_are_and_leaves_nothing(
    is_sync, ray, policy, specs, expected
):
    with pool_of(2, 2) as pool:
        collector = SyncCollector(pool, 4) if is_sync else AsyncCollector(pool, 3)
        for _ in range(2):
            assert_same_trajectories(collector.collect(policy, specs).trajectories, expected)
        assert places(ray) == ["node-0 1", "node-1 1"]
        assert len(ray.stored) == 1 + (not is_sync), "what makes the envs, and the policy, once"
    assert places(ray) == ["node-0 1 killed", "node-1 1 killed"]
    assert ray.stored[-1] == "left"
    options = ray.actors[0].options
    assert options["max_restarts"] == 0
    assert options["runtime_env"]["env_vars"].items() >= ray_pool.worker_variables().items()
    assert "label_selector" not in options


def test_workers_share_cores_until_nodes_join(ray, policy, specs, expected, caplog):
    with pool_of(3) as pool:
        # The third waits for a core of its own, and begins without.
        assert places(ray) == ["node-0 1", "node-1 1", "None 1", "node-0 0"]
        assert caplog.text.count("some workers share cores") == 1
        collector = AsyncCollector(pool)
        assert_same_trajectories(collector.collect(policy, specs).trajectories, expected)
        ray.join(1.0)
        for _ in range(2):
            assert_same_trajectories(collector.collect(policy, specs).trajectories, expected)
        assert places(ray) == ["node-0 1", "node-1 1", "node-2 1", "node-0 0 killed"]
        assert pool.failures == 0
    assert all(actor.is_killed for actor in ray.actors)


def test_a_worker_whose_own_core_is_free_after_all_shares_none(ray):
    """Both actors, which it waited for, start at once."""
    with pool_of(3) as pool:
        for node in ray.cluster:
            node["free"] = -1.0
        pool.replace(2, WorkerError("worker-2", Command.PLAY, None, "is gone"))
        assert not pool.ready([2])
        time.sleep(0.06)
        assert not pool.ready([2])
        assert places(ray)[4:] == ["None 1", "None 0"]
        ray.cluster[1]["free"] = 1.0
        assert pool.ready([2]) == [2]
        pool.receive(2)
        assert places(ray)[4:] == ["node-1 1", "node-1 0 killed"]


@pytest.mark.parametrize("answers", [1, 2, 4])
def test_what_a_lost_actor_had_is_played_again(answers, ray, policy, specs, expected, caplog):
    with pool_of(2) as pool:
        ray.actors[0].answers_left = answers
        rollout = AsyncCollector(pool, 3).collect(policy, specs)
        assert_same_trajectories(rollout.trajectories, expected)
        assert rollout.workers_restarted == 1
        assert places(ray) == ["node-0 1 killed", "node-1 1", "node-0 1"]
    (told,) = [record for record in caplog.records if record.levelno == logging.WARNING]
    message, reason = told.getMessage().split("\nThe actor died unexpectedly.")
    assert "worker-0 ended during 'play episodes' (process " in message
    assert " of node 10.0.0.0); it is replaced" in message
    assert 500 < len(reason) < ray_connection.REASON_LENGTH


def test_an_actor_that_hangs_is_late(ray):
    with pool_of(1, timeout=0.2) as pool:
        pool.send(0, Command.RESET, ([0], [SPEC]))
        ray.actors[0].hangs = True
        with pytest.raises(WorkerError, match=r"sign of life for 0\.2 s.* during 'reset'"):
            pool.receive(0)


def test_a_node_of_other_software_is_refused(ray, monkeypatch, caplog):
    own, here = ray_worker.software(), {"node-1": {"numpy": "1.0"}}
    monkeypatch.setattr(ray_worker, "software", lambda: own | here.get(ray.here, {}))
    monkeypatch.setattr(ray_pool, "software", lambda: own)
    other = rf"10\.0\.0\.1 would not give the same weights: numpy: 1\.0 there, {own['numpy']} here"
    with pytest.raises(ConfigError, match=other), pool_of(2):
        pass
    assert ray.stored[-1] == "left"
    ray.cluster[1]["free"] = 0.0
    with pool_of(1) as pool:
        before = len(ray.actors)
        ray.cluster[0]["free"], ray.cluster[1]["free"] = -1.0, 1.0
        pool.replace(0, WorkerError("worker-0", Command.PLAY, None, "is gone"))
        assert not pool.ready([0])
        assert places(ray)[before:] == ["node-1 1 killed", "None 1"]
        assert ray.actors[-1].options["label_selector"] == {"ray.io/node-id": "!in(node-1)"}
        ray.cluster[0]["free"] = 1.0
        pool.receive(0)
        assert places(ray)[-1] == "node-0 1"
    assert caplog.text.count("The node is not used") == 1


@pytest.mark.parametrize(("ahead", "added"), [(2 * 10**15, 2 * 10**15), (10**5, 0)])
def test_marks_have_the_times_of_this_machine(ahead, added, ray, policy, monkeypatch, tmp_path):
    """ahead: of the other machine's time of day less its clock, in nanoseconds."""
    true_offset = ray_worker.clock_offset()
    monkeypatch.setattr(ray_connection, "clock_offset", lambda: true_offset)
    monkeypatch.setattr(ray_worker, "clock_offset", lambda: true_offset + ahead)
    trace = Trace(tmp_path / "trace.json")
    began = time.perf_counter_ns()
    with pool_of(1, trace=trace) as pool:
        AsyncCollector(pool).collect(policy, [SPEC])
    marks = [unpacked_marks(mark) for mark in trace._rows["worker-0"]]
    assert marks[0][1] is Activity.STARTING
    assert marks[-1][1] is Activity.IDLE
    assert all(0 <= at - added - began < 60 * 10**9 for at, _ in marks)


def test_signs_are_stored_once_a_second_and_at_a_compilation(ray, monkeypatch):
    stored: list[tuple[float, bool]] = []
    store = sys.modules["ray.experimental.internal_kv"]
    monkeypatch.setattr(
        store, "_internal_kv_put", lambda _, sign: stored.append(pickle.loads(sign))
    )
    monkeypatch.setattr(ray_worker, "clock_offset", lambda: 500 * 10**9)
    life = StoredLife("actor-0")
    for at, change in [(1.0, 0), (1.9, 0), (2.1, 0), (2.2, 1), (2.3, 1), (2.4, -1), (2.5, -1)]:
        life.compiling += change
        life.at = at
    assert stored == [(501.0, False), (502.1, False), (502.2, True), (502.5, False)]


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
    age, compiles, is_silent, monkeypatch
):
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


def read(stream: Iterator[bytes]) -> list[Any]:
    """As Ray does: it sends a value for each message of a stream."""
    messages = [next(stream)]
    with suppress(StopIteration):
        while True:
            messages.append(stream.send("more"))  # type: ignore[attr-defined]
    return [pickle.loads(message) for message in messages]


def test_streams_take_what_ray_sends(monkeypatch):
    host = Host("node", "127.0.0.1", os.getpid(), 0, [])
    monkeypatch.setattr(RayWorker, "_host", lambda worker: host)
    worker = RayWorker(2, 0.0, False, {})
    make_envs = functools.partial(SerialEnvs, lambda: FlatEnv(PuzzleEnv()))
    assert read(worker.start(cloudpickle.dumps(make_envs))) == [Reply(host)]
    reset = Request(Command.RESET, ([0, 1], [episode_spec(0, n) for n in range(2)]))
    (reply,) = read(worker.answer(pickle.dumps(reset), None))
    assert np.shape(reply.result[0]) == (2, 15)
