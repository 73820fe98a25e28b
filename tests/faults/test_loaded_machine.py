"""A machine with four busy loops a core: who is healthy is kept."""

import os
import subprocess
import sys

import pytest

from workflow_rl.machine_facts import usable_cores
from workflow_rl.runs.folder import read_summary

pytestmark = [pytest.mark.slow, pytest.mark.timeout(3600)]

CAGE4 = "train-async --env workflow_rl/CAGE4-v0 --total-episodes 8 --episodes-per-update 4"
CAGE2 = "train-async --simulator compiled --total-episodes 200"


@pytest.mark.parametrize("options", [CAGE4, CAGE2], ids=["CAGE-4", "CAGE-2"])
def test_a_simulator_that_has_yet_to_be_compiled_costs_no_worker(options, tmp_path):
    busy = [sys.executable, "-c", "while True: pass"]
    command = [sys.executable, "-m", "workflow_rl", *options.split(), "--worker-timeout", "20"]
    loops = [subprocess.Popen(busy) for _ in range(4 * usable_cores())]
    try:
        result = subprocess.run(
            [*command, "--max-worker-failures", "0", "--run-dir", str(tmp_path / "run")],
            env={**os.environ, "NUMBA_CACHE_DIR": str(tmp_path / "compiled")},
            check=False,
            capture_output=True,
            text=True,
        )
    finally:
        for loop in loops:
            loop.kill()
            loop.wait()
    assert result.returncode == 0, result.stderr
    assert "Compiling the simulator" in result.stderr
    assert read_summary(tmp_path / "run")["workers_restarted"] == 0
