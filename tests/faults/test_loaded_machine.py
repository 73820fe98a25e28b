"""A machine with four busy loops a core: who is healthy is kept, and who hangs is found."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from functools import partial

import numpy as np
import pytest

from tests.faulty_env import FaultyEnv
from tests.tiny_envs import CountingEnv
from workflow_rl.collection.local_pool import LocalPool
from workflow_rl.collection.messages import Command, WorkerError
from workflow_rl.environments.env_batch import SerialEnvs
from workflow_rl.environments.episode import episode_spec
from workflow_rl.machine_facts import usable_cores
from workflow_rl.runs.folder import read_summary

pytestmark = [pytest.mark.slow, pytest.mark.timeout(3600)]

CAGE4 = "train-async --env workflow_rl/CAGE4-v0 --total-episodes 8 --episodes-per-update 4"
CAGE2 = "train-async --simulator compiled --total-episodes 200"


@pytest.fixture(autouse=True)
def busy_loops() -> Iterator[None]:
    program = [sys.executable, "-c", "while True: pass"]
    loops = [subprocess.Popen(program) for _ in range(4 * usable_cores())]
    yield
    for loop in loops:
        loop.kill()
        loop.wait()


@pytest.mark.parametrize("options", [CAGE4, CAGE2], ids=["CAGE-4", "CAGE-2"])
def test_a_simulator_that_has_yet_to_be_compiled_costs_no_worker(options, tmp_path):
    command = [sys.executable, "-m", "workflow_rl", *options.split(), "--worker-timeout", "20"]
    result = subprocess.run(
        [*command, "--max-worker-failures", "0", "--run-dir", str(tmp_path / "run")],
        env={**os.environ, "NUMBA_CACHE_DIR": str(tmp_path / "compiled")},
        check=False,
        capture_output=True,
        text=True,
    )
    assert result.returncode == 0, result.stderr
    assert "Compiling the simulator" in result.stderr
    assert read_summary(tmp_path / "run")["workers_restarted"] == 0


@pytest.mark.parametrize("fault", ["hang", "stopped"])
def test_a_worker_that_hangs_is_found_within_its_deadline(fault, tmp_path):
    struck = tmp_path / "struck"
    make_env = partial(FaultyEnv, CountingEnv, fault, "step", 1, [struck])
    with LocalPool(partial(SerialEnvs, make_env), 2, timeout=20.0) as pool:
        for index in range(2):
            pool.send(index, Command.RESET, ([0], [episode_spec(3, index, ("",))]))
            pool.receive(index)
        pool.send(0, Command.STEP, ([0], np.zeros(1, np.int64)))
        with pytest.raises(WorkerError, match=r"worker-0 gave no sign of life for 20 s.*'step'"):
            pool.receive(0)
        assert time.time() - struck.stat().st_mtime < 30
        pool.send(1, Command.STEP, ([0], np.zeros(1, np.int64)))
        pool.receive(1)
