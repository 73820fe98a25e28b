"""Nodes and main processes are lost, nodes join: nothing is lost or counted twice."""

from __future__ import annotations

import functools
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.faults.checks import assert_counted_once, assert_same_history, assert_sound
from tests.faults.runs import SAME_WEIGHTS, config_of, options_of
from tests.processes import descendants, survivors
from tests.tiny_envs import SleepyEnv
from tests.tiny_runs import recorded_updates, run, same_weights
from workflow_rl.collection import ray_pool
from workflow_rl.collection.env_batch import SerialEnvs
from workflow_rl.collection.parallel_env_async import AsyncParallelEnv
from workflow_rl.collection.ray_pool import RayWorkerPool

pytest.importorskip("ray")

Reference = Callable[[str], Path]

ROOT = Path(__file__).resolve().parents[2]
UPDATES = 12
NODE: dict[str, Any] = {"num_cpus": 1, "object_store_memory": 80 * 2**20}


class Nodes:
    """A cluster whose head has no workers, and whose other nodes have a core each."""

    def __init__(self, n_nodes: int) -> None:
        from ray.cluster_utils import Cluster

        head = {**NODE, "num_cpus": 0, "include_dashboard": False}
        self._cluster = Cluster(initialize_head=True, head_node_args=head)
        self.address: str = self._cluster.address
        self.nodes = [self._cluster.add_node(**NODE) for _ in range(n_nodes)]

    def add(self, **options: Any) -> None:
        self.nodes.append(self._cluster.add_node(**NODE, **options))

    def kill_oldest(self) -> None:
        self._cluster.remove_node(self.nodes.pop(0), allow_graceful=False)

    def shutdown(self) -> None:
        self._cluster.shutdown()


@pytest.fixture
def nodes() -> Iterator[Nodes]:
    before = descendants()
    cluster = Nodes(3)
    yield cluster
    cluster.shutdown()
    assert not survivors([child for child in descendants() if child not in before], 10)


@pytest.fixture(scope="module")
def reference(tmp_path_factory: pytest.TempPathFactory) -> Reference:
    """The run of a mode that nothing happens to, on this machine's workers."""

    @functools.cache
    def path_of(mode: str) -> Path:
        path = tmp_path_factory.mktemp("reference")
        config = config_of(mode, "compiled", UPDATES)
        run(path, config, make_envs=config.environment.make_envs)
        return path

    return path_of


def kill_nodes(nodes: Nodes, times: int, learned: list[Any], is_over: threading.Event) -> None:
    """One while the run collects, and another one in its place, again and again."""
    for kill in range(times):
        while len(learned) < (kill + 1) * UPDATES // (times + 2):
            if is_over.wait(0.002):
                return
        nodes.kill_oldest()
        nodes.add()


def strike(path: Path, mode: str, nodes: Nodes, times: int) -> None:
    config = config_of(mode, "compiled", UPDATES, "--cluster", nodes.address)
    make_envs = functools.partial(slowed, config.environment.make_envs)
    is_over = threading.Event()
    with recorded_updates() as updates:
        striking = threading.Thread(target=kill_nodes, args=(nodes, times, updates, is_over))
        striking.start()
        summary = run(path, config, make_envs=make_envs)
        is_over.set()
        striking.join()
    assert summary["workers_restarted"] >= times
    trajectories = [trajectory for _, some in updates for trajectory in some]
    assert_counted_once(path, config, trajectories)
    assert_sound(path, finished=True)


def slowed(make_envs: Any, n_envs: int) -> Any:
    """A run that waits for its workers while nodes start."""
    from workflow_rl.collection.env_batch import DelayedEnvs

    return DelayedEnvs(make_envs(n_envs), 0.02)


def test_a_killed_node_makes_no_difference(
    nodes: Nodes, reference: Reference, tmp_path: Path
) -> None:
    strike(tmp_path / "run", "lag-1", nodes, times=1)
    assert same_weights(tmp_path / "run", reference("lag-1"))


@pytest.mark.slow
@pytest.mark.parametrize("mode", SAME_WEIGHTS)
def test_nodes_killed_three_times_make_no_difference(
    mode: str, nodes: Nodes, reference: Reference, tmp_path: Path
) -> None:
    strike(tmp_path / "run", mode, nodes, times=3)
    assert same_weights(tmp_path / "run", reference(SAME_WEIGHTS[mode]))
    assert_same_history(tmp_path / "run", reference(SAME_WEIGHTS[mode]))


def test_workers_share_cores_until_nodes_join(
    nodes: Nodes,
    policy: Any,
    specs: Any,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(ray_pool, "PATIENCE_SECONDS", 1.0)
    make_envs = functools.partial(SerialEnvs, functools.partial(SleepyEnv, 0.01))

    def with_cores() -> int:
        actors = [worker.actor for worker in pool._workers]
        return sum(actor is not None and actor.has_core for actor in actors)

    with RayWorkerPool(make_envs, 5, address=nodes.address) as pool:
        collector = AsyncParallelEnv(pool)
        first = collector.collect(policy, specs).trajectories
        assert with_cores() == 3
        assert [record.message for record in caplog.records] == [
            "the cluster has fewer free cores than there are workers: some share theirs until "
            "nodes join"
        ]
        for _ in range(2):
            nodes.add()
        deadline = time.monotonic() + 60
        while with_cores() < 5 and time.monotonic() < deadline:
            again = collector.collect(policy, specs).trajectories
        assert with_cores() == 5
        assert [t.episode for t in again] == [t.episode for t in first]
        assert pool.failures == 0


def test_a_node_that_joins_with_other_software_is_left_out(
    nodes: Nodes, policy: Any, specs: Any, caplog: pytest.LogCaptureFixture
) -> None:
    make_envs = functools.partial(SerialEnvs, functools.partial(SleepyEnv, 0.01))
    with RayWorkerPool(make_envs, 3, address=nodes.address) as pool:
        collector = AsyncParallelEnv(pool)
        collector.collect(policy, specs)
        refused = nodes.nodes[-1]
        nodes.add(env_vars={"WORKFLOW_RL_NATIVE": "1"})
        other = nodes.nodes[-1]
        assert refused is not other
        nodes.kill_oldest()
        deadline = time.monotonic() + 60
        while not pool._refused and time.monotonic() < deadline:
            collector.collect(policy, specs)
        assert pool._refused == [other.node_id]
        collector.collect(policy, specs)
        homes = {worker.actor.host.node for worker in pool._workers if worker.actor}  # type: ignore[union-attr]
        assert other.node_id not in homes
    assert sum("it is left out" in record.message for record in caplog.records) == 1


def start(*options: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "workflow_rl.cli", *options, "--quiet"],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def wait_for_update(path: Path, process: subprocess.Popen[str]) -> None:
    """Until the run has a checkpoint of its second update."""
    metrics = path / "metrics.csv"
    while not (metrics.exists() and len(metrics.read_text().splitlines()) > 3):
        assert process.poll() is None, process.communicate()
        time.sleep(0.02)


@pytest.mark.parametrize("sent", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_a_lost_main_process_leaves_nothing_and_its_run_goes_on(
    sent: signal.Signals, reference: Reference, tmp_path: Path
) -> None:
    path = tmp_path / "run"
    options = options_of("lag-1", "compiled", UPDATES, "--run-dir", str(path))
    main = start(*options, "--cluster", "local", "--slow-worker-ms", "20")
    wait_for_update(path, main)
    started = descendants(main.pid)
    assert len(started) > 3
    os.kill(main.pid, sent)
    _, errors = main.communicate(timeout=30)
    assert not survivors(started, 10)
    assert "Traceback" not in errors
    if sent is not signal.SIGKILL:
        assert main.returncode == 128 + sent
        assert f"stopped by {sent.name}; go on with: --resume" in errors
    resumed = start("train-async", "--resume", str(path), "--cluster", "none")
    assert resumed.communicate(timeout=120)[1] == ""
    assert same_weights(path, reference("lag-1"))


def test_a_cluster_that_is_joined_is_left_running(
    nodes: Nodes, reference: Reference, tmp_path: Path
) -> None:
    for name in ("one", "other"):
        options = options_of("async", "compiled", UPDATES, "--run-dir", str(tmp_path / name))
        main = start(*options, "--cluster", nodes.address)
        _, errors = main.communicate(timeout=120)
        assert (main.returncode, errors) == (0, "")
        assert same_weights(tmp_path / name, reference("async"))
