"""A deadline counts silence: who is slow is kept, and who hangs is found."""

import importlib.util
import itertools
import os
import signal
import sys
import threading
import time
from functools import partial
from pathlib import Path
from typing import Any

import numba
import numpy as np
import pytest

from tests import env_of_any_python
from tests.faulty_env import FaultyEnv
from tests.tiny_envs import CountingEnv, SleepyEnv
from workflow_rl.agents.policies.numpy_policy import NumpyPolicy
from workflow_rl.collection.assignments import first_positions
from workflow_rl.collection.async_collector import AsyncCollector
from workflow_rl.collection.local_pool import LocalPool
from workflow_rl.collection.messages import Command, WorkerError
from workflow_rl.collection.rollout import Rollout
from workflow_rl.collection.sync_collector import SyncCollector
from workflow_rl.environments.env_batch import EnvBatchFactory, SerialEnvs
from workflow_rl.environments.episode import episode_spec
from workflow_rl.environments.gymnasium_env import GymnasiumEnvironment

pytestmark = pytest.mark.system

DEADLINE = 2.0
CALL = 0.2 * DEADLINE
MANY = 8
"""Calls that together take longer than the deadline."""
SPECS = [episode_spec(3, number, ("B_lineAgent",)) for number in range(MANY)]
RESET = (Command.RESET, ([0], SPECS[:1]))
STEP = (Command.STEP, ([0], np.zeros(1, np.int64)))
RESET_ALL = (Command.RESET, ([*range(MANY)], SPECS))


class SlowEnv(SleepyEnv):
    """Whose every call is slow, also the one that makes it."""

    def __init__(self, min_length: int = MANY) -> None:
        time.sleep(CALL)
        super().__init__(CALL, CALL, min_length, min_length)


def collect_async(pool: LocalPool, policy: NumpyPolicy) -> Rollout:
    return AsyncCollector(pool).collect(policy, SPECS[:2])


def collect_unrolls(pool: LocalPool, policy: NumpyPolicy) -> Rollout:
    collector = AsyncCollector(pool)
    collector.start_unrolls(first_positions(3, ("B_lineAgent",), 2), MANY)
    return collector.unroll(policy)


def collect_sync(pool: LocalPool, policy: NumpyPolicy) -> Rollout:
    return SyncCollector(pool, MANY).collect(policy, SPECS)


@pytest.mark.parametrize(
    ("collect", "n_envs", "length"),
    [(collect_async, 1, MANY), (collect_unrolls, 2, MANY), (collect_sync, MANY, 1)],
    ids=["episodes", "unrolls", "steps of many envs"],
)
def test_a_worker_whose_calls_return_is_kept(collect, n_envs, length, policy, caplog):
    make_envs = partial(SerialEnvs, partial(SlowEnv, length))
    with LocalPool(make_envs, 1, n_envs, timeout=DEADLINE, max_failures=0) as pool:
        assert len(collect(pool, policy).trajectories) >= 2
        assert pool.failures == 0
    (told,) = {record.getMessage().partition(":")[0] for record in caplog.records}
    assert told == "worker-0 is slow"


@pytest.mark.parametrize("python", ["", sys.executable], ids=["here", "own interpreter"])
@pytest.mark.parametrize("name", ["Walk", "Walks"])
def test_so_are_teams_and_interpreters_of_their_own(name, python):
    env_id, args = f"tests.env_of_any_python:{name}", {"seconds": CALL}
    environment = GymnasiumEnvironment(env_id, args, python=python)
    with LocalPool(environment.make_envs, 1, MANY, timeout=DEADLINE, max_failures=0) as pool:
        pool.send(0, *RESET_ALL)
        assert len(pool.receive(0).result.obs) == MANY
        actions = np.ones((MANY, 2) if name == "Walks" else MANY, np.int64)
        pool.send(0, Command.STEP, ([*range(MANY)], actions))
        assert len(pool.receive(0).result.obs) == MANY


@pytest.mark.parametrize("fault", ["hang", "stopped"])
@pytest.mark.parametrize("method", ["reset", "step"])
def test_a_call_that_hangs_is_found_however_long_others_took(method, fault, tmp_path):
    struck, numbers = tmp_path / "struck", itertools.count(1)

    def make_env() -> Any:
        is_struck = next(numbers) == MANY
        return FaultyEnv(SlowEnv, fault, method, 1, [struck]) if is_struck else SlowEnv()

    with LocalPool(partial(SerialEnvs, make_env), 1, MANY, timeout=DEADLINE) as pool:
        pool.send(0, *RESET_ALL)
        if method == "step":
            pool.receive(0)
            pool.send(0, Command.STEP, ([*range(MANY)], np.zeros(MANY, np.int64)))
        with pytest.raises(WorkerError, match=f"no sign of life for 2 s.*during '{method}'"):
            pool.receive(0)
        found = time.time() - struck.stat().st_mtime
    assert found < 2 * DEADLINE


class ForkingEnv(CountingEnv):
    """Whose step hangs, while a process that it has forked looks for modules."""

    def step(self, action: Any) -> Any:
        if os.fork() == 0:
            for number in itertools.count():
                importlib.util.find_spec(f"no_module_{number}")
                time.sleep(0.1)
        time.sleep(3600)


def test_what_an_environment_forks_gives_no_sign_for_its_worker():
    with LocalPool(partial(SerialEnvs, ForkingEnv), 1, timeout=DEADLINE) as pool:
        pool.send(0, *RESET)
        pool.receive(0)
        pool.send(0, *STEP)
        with pytest.raises(WorkerError, match="no sign of life for 2 s"):
            pool.receive(0)


@pytest.mark.parametrize("hangs", [False, True])
def test_imports_are_signs_of_life_while_a_worker_starts(hangs, tmp_path):
    for number in range(MANY):
        seconds = 3600 if hangs and number == MANY - 1 else CALL
        (tmp_path / f"slow_{number}.py").write_text(f"import time; time.sleep({seconds})")

    def importing(n_envs: int) -> SerialEnvs:
        sys.path.append(str(tmp_path))
        for number in range(MANY):
            importlib.import_module(f"slow_{number}")
        return SerialEnvs(CountingEnv, n_envs)

    pool = LocalPool(importing, 1, timeout=DEADLINE, max_failures=0)
    if not hangs:
        with pool:
            assert pool.failures == 0
        return
    with pytest.raises(RuntimeError, match=r"no sign of life for 2 s.*during 'start'"), pool:
        pass


def test_an_interpreter_of_its_own_tells_of_its_imports(tmp_path, monkeypatch):
    for number in range(MANY):
        (tmp_path / f"slow_{number}.py").write_text(f"import time; time.sleep({CALL})")
    imports = "".join(f"import slow_{number}\n" for number in range(MANY))
    walk = Path(env_of_any_python.__file__).read_text()
    (tmp_path / "importing.py").write_text(walk + imports)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path / "none"), str(tmp_path)]))
    environment = GymnasiumEnvironment("importing:Walk", {}, python=sys.executable)
    with LocalPool(environment.make_envs, 1, timeout=DEADLINE, max_failures=0) as pool:
        assert pool.failures == 0


class CompilingEnv(CountingEnv):
    """Compiles in a step, in one call that takes several seconds."""

    def __init__(self, stopping: bool = False) -> None:
        super().__init__()
        self._stopping = stopping

    def step(self, action: Any) -> Any:
        import workflow_rl.jit  # noqa: F401  # As the compiled simulators do.

        lines = [f"    x = x * 3.5 + {n}.5 if x > {n} else x - {n}" for n in range(500)]
        made: dict[str, Any] = {}
        exec("\n".join(["def f(x):", *lines, "    return x"]), made)
        if self._stopping:
            threading.Timer(0.3, os.kill, [os.getpid(), signal.SIGSTOP]).start()
        numba.njit(made["f"])(1.0)
        return super().step(action)


@pytest.mark.parametrize("stopping", [False, True])
def test_a_worker_that_compiles_is_kept_unless_it_gets_nowhere(stopping):
    make_envs: EnvBatchFactory = partial(SerialEnvs, partial(CompilingEnv, stopping))
    with LocalPool(make_envs, 1) as pool:
        pool.send(0, *RESET)
        pool.receive(0)
        pool.allow(1.0)
        pool.send(0, *STEP)
        if not stopping:
            assert len(pool.receive(0).result.obs) == 1
            return
        with pytest.raises(WorkerError, match=r"no sign of life for 1 s.*during 'step'"):
            pool.receive(0)
