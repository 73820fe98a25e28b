"""Long checks that a run left alone for a night keeps its memory, descriptors and threads.

ENDURANCE_SECONDS: how long each run is watched, 600 unless set.
"""

import os
import signal
import subprocess
import time
from collections import defaultdict

import numpy as np
import psutil
import pytest

from tests.patience import eventually
from tests.processes import start

pytestmark = pytest.mark.slow
SECONDS = float(os.environ.get("ENDURANCE_SECONDS", "600"))
# Until workers have played, the allocator has its arenas and CybORG its caches.
WARM_UP = min(120.0, SECONDS / 5)
EVERY = 2.0
MB_A_MINUTE = 1.0
MODES = {
    "sync": ["train-sync"],
    "async": ["train-async"],
    "lag-1": ["train-async", "--async-rl"],
    "free-running": ["train-async", "--preset", "continuous"],
}
# The one leaks where episodes are Python objects, the other where there are ten times as many.
SIZES = {"cyborg": 16, "compiled": 100}

Sample = tuple[float, int, int, int]
"""Seconds, bytes that are a process's alone, descriptors, threads."""


@pytest.mark.timeout(SECONDS + 300)
@pytest.mark.parametrize("simulator", SIZES)
@pytest.mark.parametrize("mode", MODES)
def test_a_long_run_keeps_what_it_has(mode, simulator, tmp_path):
    options = ["--simulator", simulator, "--n-envs", SIZES[simulator], "--n-workers", 2]
    options += ["--total-episodes", 10**9, "--run-dir", tmp_path / "run", "--quiet"]
    run = start(*MODES[mode], *options)
    try:
        metrics = tmp_path / "run" / "metrics.csv"
        eventually(lambda: metrics.exists() and len(metrics.read_text().splitlines()) > 1, 120)
        samples = watched(run)
    finally:
        run.send_signal(signal.SIGTERM)
        assert run.wait(60) == 128 + signal.SIGTERM
    main = samples.pop(run.pid)
    assert len(samples) >= 2, "no worker lived from the warm-up to the end"
    slopes = [slope(main), sum(map(slope, samples.values()))]
    print(
        f"{mode} on {simulator}, {SECONDS:g} s: main {slopes[0]:+.2f} MB/min of "
        f"{main[-1][1] / 2**20:.0f}, workers {slopes[1]:+.2f} MB/min"
    )
    assert sum(slopes) < MB_A_MINUTE
    for of_process in (main, *samples.values()):
        for column in (2, 3):
            # A file that is being saved is open for a moment: what stays open shows in the least.
            counts = [sample[column] for sample in of_process]
            half = len(counts) // 2
            assert min(counts[half:]) == min(counts[:half])


def watched(run: subprocess.Popen[bytes]) -> dict[int, list[Sample]]:
    """Samples from the warm-up on, by process; of the run and all its descendants throughout."""
    begun = time.monotonic()
    tree = [psutil.Process(run.pid), *psutil.Process(run.pid).children(recursive=True)]
    samples: dict[int, list[Sample]] = defaultdict(list)
    while (seconds := time.monotonic() - begun) < SECONDS:
        assert run.poll() is None
        if seconds >= WARM_UP:
            for process in tree:
                with process.oneshot():
                    size = process.memory_full_info().uss
                    sample = (seconds, size, process.num_fds(), process.num_threads())
                samples[process.pid].append(sample)
        time.sleep(EVERY)
    return samples


def slope(samples: list[Sample]) -> float:
    """Of a process's memory, in MB a minute, by least squares."""
    seconds, size = np.array([sample[:2] for sample in samples]).T
    return float(np.polyfit(seconds / 60, size / 2**20, 1)[0])
