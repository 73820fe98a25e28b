"""Workers on Ray: what they return, what goes wrong with them, and that nothing is left of them."""

import os
import signal
import sys
import time
from collections.abc import Iterator
from functools import partial
from types import SimpleNamespace
from typing import Any

import numpy as np
import psutil
import pytest

from tests.faulty_env import FAULTS, FaultyEnv
from tests.nodes import is_of_ray
from tests.processes import descendants, survivors
from tests.tiny_envs import CountingEnv, RaisingEnv, SleepyEnv
from tests.workflow_rl.collection import collectors
from tests.workflow_rl.conftest import assert_same_trajectories
from workflow_rl import portable
from workflow_rl.cage2.scenario2 import RED_AGENTS
from workflow_rl.cluster import ray_connection
from workflow_rl.cluster.cluster import Cluster
from workflow_rl.cluster.ray_pool import RayPool, node_variables
from workflow_rl.collection.assignments import first_positions
from workflow_rl.collection.async_collector import AsyncCollector
from workflow_rl.collection.messages import (
    Command,
    StopRequested,
    TooManyFailuresError,
    WorkerError,
)
from workflow_rl.collection.player import player_at
from workflow_rl.collection.trace import Trace, unpacked_marks
from workflow_rl.environments.env_batch import SerialEnvs
from workflow_rl.environments.episode import episode_spec
from workflow_rl.life import compiling

ray = pytest.importorskip("ray")

COUNTING = partial(SerialEnvs, CountingEnv)
SPEC = episode_spec(0, 0, RED_AGENTS)


@pytest.fixture(scope="module", autouse=True)
def cluster() -> Iterator[Cluster]:
    """One for all: pools use a connection that is there, and leave it."""
    own = Cluster("local", 6)
    started = [child for child in descendants() if is_of_ray(child)]
    yield own
    assert ray.is_initialized()
    own.leave()
    assert not survivors(started, 10)


def test_no_other_machine_can_reach_a_local_cluster():
    with RayPool(COUNTING, 2):  # Workers listen too.
        of_ray = [child for child in descendants() if is_of_ray(child)]
        heard_at = {
            connection.laddr.ip
            for process in (psutil.Process(), *of_ray)
            for connection in process.net_connections("inet")
            if connection.status == psutil.CONN_LISTEN or not connection.raddr
        }
    assert heard_at
    assert heard_at <= {"127.0.0.1", "::1", "::ffff:127.0.0.1"}
    # A cluster that is joined later is reached by this machine's own address, as before.
    assert ray._private.ray_constants.ENABLE_RAY_CLUSTER


@pytest.mark.parametrize(
    ("n_workers", "waited", "free", "shares"),
    [
        (3, 9.0, 0, False),
        (3, 11.0, 0, True),
        (3, 11.0, 1, True),  # The refused node's, none to wait for.
        (3, 11.0, 2, False),
        (2, 11.0, 0, False),  # There are enough: its own may be slow to start.
        (2, 31.0, 0, True),  # Somebody else has them.
    ],
)
def test_when_a_worker_shares_cores(n_workers, waited, free, shares):
    """On two nodes that are well, one that is refused and one that is lost, of a core each."""
    pool = RayPool(COUNTING, n_workers, address="10.0.0.1:6379")
    nodes = [{"NodeID": name, "Alive": name != "lost"} for name in ("one", "two", "bad", "lost")]
    pool.ray = SimpleNamespace(
        nodes=lambda: [{**node, "Resources": {"CPU": 1.0}} for node in nodes],
        available_resources=lambda: {"CPU": float(free)},
    )
    pool._refused = ["bad"]
    assert pool.may_share(waited) is shares
    pool.address = "local"
    assert not pool.may_share(waited), "there a core is for every worker"


def pids(pool: RayPool) -> list[int]:
    return [worker.actor.host.pid for worker in pool._workers]  # type: ignore[union-attr]


collect_async = partial(collectors.collect_async, pool_of=RayPool)
collect_sync = partial(collectors.collect_sync, pool_of=RayPool)
COLLECTORS = [pytest.param(collect_async, id="async"), pytest.param(collect_sync, id="sync")]


def test_unrolls_go_on_in_a_new_worker(policy, tmp_path):
    positions = first_positions(3, RED_AGENTS, 4)
    player = player_at(SerialEnvs(CountingEnv, 4), positions)
    expected = [player.unroll(policy, 5) for _ in range(2)]
    make_env = partial(FaultyEnv, CountingEnv, "killed", "step", 8, [tmp_path / "1"])
    with RayPool(partial(SerialEnvs, make_env), 2, 2) as pool:
        collector = AsyncCollector(pool)
        collector.start_unrolls(positions, 5)
        unrolls = [collector.unroll(policy) for _ in range(2)]
    for rollout, trajectories in zip(unrolls, expected, strict=True):
        by_place = sorted(trajectories, key=lambda t: (t.episode, t.steps_before))
        assert_same_trajectories(rollout.trajectories, by_place)
    assert pool.failures == 1


@pytest.mark.parametrize("collect", COLLECTORS)
@pytest.mark.parametrize("method", ["create", "reset", "step"])
@pytest.mark.parametrize("fault", FAULTS)
def test_no_fault_changes_the_result(collect, fault, method, policy, specs, expected, tmp_path):
    if collect is collect_sync and fault in ("exit", "stopped", "hang"):
        pytest.skip("the same to a pool, whoever asks it")
    if method == "create" and fault in ("stopped", "hang"):
        pytest.skip("two minutes: a process may take so long to start")
    at = 1 if method == "create" else 2
    make_env = partial(FaultyEnv, CountingEnv, fault, method, at, [tmp_path / "1"])
    rollout = collect(make_env, policy, specs, timeout=2.0)
    assert (tmp_path / "1").exists()
    assert_same_trajectories(rollout.trajectories, expected)
    assert all(trajectory.obs.flags.writeable for trajectory in rollout.trajectories)
    assert 0 < rollout.utilisation <= 1
    if method != "create":
        assert rollout.workers_restarted == 1


def test_an_exception_names_worker_command_and_place_and_carries_the_traceback(policy, specs):
    with RayPool(partial(SerialEnvs, partial(RaisingEnv, {SPEC.env_seed})), 1) as pool:  # type: ignore[arg-type]
        pool.send(0, Command.RESET, ([0], [SPEC]))
        pool.receive(0)
        for _ in range(2):
            pool.send(0, Command.STEP, ([0], np.array([0])))
            reply = None
            try:
                reply = pool.receive(0)
            except WorkerError as error:
                caught = error
        (pid,) = pids(pool)
    assert reply is None
    message = str(caught)
    assert message.startswith("worker-0 raised ArithmeticError: no second step")
    assert "tiny_envs.py, line " in message
    assert f" in episode {SPEC.number} during 'step' (process {pid} of node " in message
    assert "ArithmeticError: no second step" in str(caught.__cause__)
    assert caught.fault.spec == SPEC


def test_an_actor_that_cannot_be_loaded_is_said_to_be_the_reason():
    with RayPool(COUNTING, 1) as pool:
        pool.send(0, Command.LOAD_ACTOR, b"no pickle")
        pool.send(0, Command.PLAY, [SPEC])
        with pytest.raises(WorkerError, match=r"raised UnpicklingError.* during 'load actor'"):
            pool.receive(0)


class CompilingEnv(CountingEnv):
    """Whose step tells of a compilation of 5 seconds, and then hangs for `hangs` seconds."""

    def __init__(self, hangs):
        super().__init__()
        self._hangs = hangs

    def step(self, action):
        compiling(1)
        time.sleep(5.0)
        compiling(-1)
        time.sleep(self._hangs)
        return super().step(action)


@pytest.mark.parametrize("hangs", [0.0, 60.0])
def test_a_worker_that_compiles_is_kept_and_found_if_it_hangs_then(hangs):
    make_env = partial(CompilingEnv, hangs)
    with RayPool(partial(SerialEnvs, make_env), 1, timeout=2.0) as pool:
        pool.send(0, Command.RESET, ([0], [SPEC]))
        pool.receive(0)
        pool.send(0, Command.STEP, ([0], np.zeros(1, np.int64)))
        start = time.monotonic()
        while not pool.ready([0]):
            assert time.monotonic() - start < 15
        if not hangs:
            assert len(pool.receive(0).result.obs) == 1
            return
        with pytest.raises(WorkerError, match="no sign of life for 2 s"):
            pool.receive(0)


def test_a_clock_that_is_put_right_ends_no_slow_worker(monkeypatch):
    make_env = partial(SleepyEnv, 1.0, reset_seconds=1.0)
    with RayPool(partial(SerialEnvs, make_env), 1, 6, timeout=4.0) as pool:
        true_offset = ray_connection.clock_offset
        hour = 3600 * 10**9
        monkeypatch.setattr(ray_connection, "clock_offset", lambda: true_offset() + hour)
        pool.send(0, Command.RESET, ([*range(6)], [SPEC] * 6))
        assert len(pool.receive(0).result.obs) == 6


def test_too_many_failures_end_it(policy, specs):
    def no_envs(n_envs: int) -> Any:
        raise ZeroDivisionError("no env today")

    pool = RayPool(no_envs, 1, max_failures=1)
    with pytest.raises(TooManyFailuresError, match=r"'start'.*not started") as caught, pool:
        pass
    assert "no env today" in str(caught.value)


class RevealingEnv(CountingEnv):
    """Observes whether torch is there."""

    def reset(self, **options: Any) -> Any:
        obs, info = super().reset(**options)
        obs[:] = any(name.partition(".")[0] == "torch" for name in sys.modules)
        return obs, info


def test_workers_import_no_torch_and_have_the_kernels_of_the_main_process():
    import torch  # noqa: F401  # The main process has it.

    with RayPool(partial(SerialEnvs, RevealingEnv), 1) as pool:
        pool.send(0, Command.RESET, ([0], [SPEC]))
        assert not pool.receive(0).result.obs.any()
        own = psutil.Process(*pids(pool)).environ()
    assert {name: own.get(name) for name in portable.PINS} == {
        name: os.environ.get(name) for name in portable.PINS
    }
    # A node that was started elsewhere has other variables.
    assert node_variables().items() >= {name: own[name] for name in portable.PINS}.items()
    assert own["OMP_NUM_THREADS"] == own["MKL_NUM_THREADS"] == "1"


def test_a_stop_is_noticed_while_waiting():
    with RayPool(COUNTING, 1) as pool:
        pool.stop_signal = signal.SIGTERM
        with pytest.raises(StopRequested, match="SIGTERM"):
            pool.ready([0])


def test_close_is_bounded_when_workers_are_stopped_dead_and_at_work():
    make_env = partial(SleepyEnv, 60.0)
    with RayPool(partial(SerialEnvs, make_env), 3) as pool:
        ended = pids(pool)
        os.kill(ended[0], signal.SIGSTOP)
        os.kill(ended[1], signal.SIGKILL)
        pool.send(2, Command.RESET, ([0], [SPEC]))
        pool.receive(2)
        pool.send(2, Command.STEP, ([0], np.array([0])))
        start = time.monotonic()
        pool.close()
        pool.close()
    assert time.monotonic() - start < 5
    assert not survivors([psutil.Process(pid) for pid in ended if psutil.pid_exists(pid)], 10)


def test_signals_stay_the_main_process_s():
    before = signal.getsignal(signal.SIGTERM)
    with RayPool(COUNTING, 1) as pool:
        assert signal.getsignal(signal.SIGTERM) is before
        (pid,) = pids(pool)
        # As a terminal's Ctrl-C, which reaches every process.
        os.kill(pid, signal.SIGINT)
        pool.send(0, Command.RESET, ([0], [SPEC]))
        assert len(pool.receive(0).result.obs) == 1


@pytest.mark.parametrize("block", [1, 2])
def test_a_trace_tells_what_workers_do(policy, specs, tmp_path, block):
    with Trace(tmp_path / "trace.json") as trace, RayPool(COUNTING, 2, trace=trace) as pool:
        began = time.perf_counter_ns()
        AsyncCollector(pool, block).collect(policy, specs)
        ended = time.perf_counter_ns()
    for index in range(2):
        times, activities = zip(*map(unpacked_marks, trace._rows[f"worker-{index}"]), strict=True)
        names = {activity.name for activity in activities}
        assert {"STARTING", "RESETTING", "LOADING", "PLAYING", "SENDING", "WAITING"} <= names
        assert list(times) == sorted(times)
        played = [
            when for when, what in zip(times, activities, strict=True) if what.name == "PLAYING"
        ]
        assert began < min(played) < max(played) < ended
        assert activities[-1].name == "IDLE"


def test_slow_workers_are_so_much_slower():
    with RayPool(COUNTING, 2, step_delays=[0.25]) as pool:
        seconds = []
        for worker in range(2):
            pool.send(worker, Command.RESET, ([0], [SPEC]))
            pool.receive(worker)
            pool.send(worker, Command.STEP, ([0], np.array([0])))
            seconds.append(pool.receive(worker).busy_seconds)
    assert 0.25 <= seconds[0] < 0.5
    assert seconds[1] < 0.1
