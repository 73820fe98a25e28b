import functools
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.faults.checks import assert_counted_once, assert_same_history, assert_sound
from tests.faults.runs import SAME_WEIGHTS, config_of, options_of
from tests.nodes import Nodes, running
from tests.processes import descendants, survivors
from tests.tiny_runs import recorded_updates, run, same_weights
from workflow_rl.environments.env_batch import DelayedEnvs
from workflow_rl.runs.folder import is_finished

pytest.importorskip("ray")

ROOT = Path(__file__).resolve().parents[2]
UPDATES = 12


@pytest.fixture
def nodes() -> Iterator[Nodes]:
    with running(3) as three:
        yield three


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
    return DelayedEnvs(make_envs(n_envs), 0.02)


@pytest.mark.parametrize(
    ("mode", "times"),
    [("lag-1", 1), *(pytest.param(mode, 3, marks=pytest.mark.slow) for mode in SAME_WEIGHTS)],
)
def test_killed_nodes_make_no_difference(mode, times, nodes, reference, tmp_path):
    strike(tmp_path / "run", mode, nodes, times)
    assert same_weights(tmp_path / "run", reference(SAME_WEIGHTS[mode], UPDATES))
    assert_same_history(tmp_path / "run", reference(SAME_WEIGHTS[mode], UPDATES))


def start(*options: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "workflow_rl", *options, "--quiet"],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def wait_for_update(path: Path, process: subprocess.Popen[str]) -> None:
    metrics = path / "metrics.csv"
    while not (metrics.exists() and len(metrics.read_text().splitlines()) > 3):
        assert process.poll() is None, process.communicate()
        time.sleep(0.02)


@pytest.mark.parametrize("sent", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_a_lost_main_process_leaves_nothing_and_its_run_goes_on(sent, reference, tmp_path):
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
        assert f"stopped by {sent.name}; go on with: " in errors
    resumed = start("train-async", "--resume", str(path), "--cluster", "none")
    assert resumed.communicate(timeout=120)[1] == ""
    assert same_weights(path, reference("lag-1", UPDATES))


@pytest.mark.slow
@pytest.mark.parametrize("lost", ["local driver", "driver", "head"])
def test_after_a_lost_driver_or_head_a_run_goes_on(lost, reference, tmp_path):
    path = tmp_path / "run"
    options = options_of("lag-1", "compiled", UPDATES, "--run-dir", str(path))
    with ExitStack() as stack:
        nodes = None if lost == "local driver" else stack.enter_context(running(3))
        address = "local" if nodes is None else nodes.address
        main = start(*options, "--cluster", address, "--slow-worker-ms", "20")
        wait_for_update(path, main)
        if lost == "head":
            nodes.kill_head()
        else:
            main.kill()
        _, errors = main.communicate(timeout=30)
        assert main.returncode == (1 if lost == "head" else -signal.SIGKILL)
        (line,) = errors.splitlines()
        assert line.startswith("Error: the main process is gone")
        assert f"({address}) was lost" in line
        assert not is_finished(path)
        for cluster in ("none", "local" if lost == "head" else address):
            resumed_path = tmp_path / cluster.partition(":")[0]
            shutil.copytree(path, resumed_path)
            resumed = start("train-async", "--resume", str(resumed_path), "--cluster", cluster)
            assert resumed.communicate(timeout=120)[1] == ""
            assert_sound(resumed_path, finished=True)
            assert same_weights(resumed_path, reference("lag-1", UPDATES))
            assert_same_history(resumed_path, reference("lag-1", UPDATES))
        if lost == "head":
            # A file alone does not decide with which cluster a command talks.
            for more, problem in (
                ((), f"only the file mentions the cluster {address}"),
                (("--cluster", address), f"no cluster answers at {address}"),
            ):
                again = start("train-async", "--resume", str(path), *more)
                _, errors = again.communicate(timeout=60)
                assert again.returncode == 2
                assert problem in errors.splitlines()[-1]


def test_a_cluster_that_is_joined_is_left_running(nodes, reference, tmp_path):
    for name in ("one", "other"):
        options = options_of("async", "compiled", UPDATES, "--run-dir", str(tmp_path / name))
        main = start(*options, "--cluster", nodes.address)
        _, errors = main.communicate(timeout=120)
        assert (main.returncode, errors) == (0, "")
        assert same_weights(tmp_path / name, reference("async", UPDATES))
