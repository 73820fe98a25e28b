import os
import random
import signal
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path

import pytest

from tests.faults.checks import assert_counted_once, assert_same_history, assert_sound
from tests.faults.conftest import Reference
from tests.faults.main_process import (
    Life,
    Moment,
    Run,
    Strike,
    file_size_limited,
    not_writable,
    signalled,
    without_override,
)
from tests.faults.runs import MODES, SAME_WEIGHTS, SIMULATORS, config_of, learned, options_of
from tests.tiny_runs import all_of, remembering_agent, same_weights
from workflow_rl.runs.folder import is_finished

UPDATES = 30
KINDS: dict[str, Strike] = {
    "SIGKILL": signalled(signal.SIGKILL),
    "full": file_size_limited,
    "SIGINT": signalled(signal.SIGINT),
    "read-only": not_writable,
    "SIGTERM": signalled(signal.SIGTERM),
}
"""What can happen to the process that trains."""


def assert_said_clearly(kind: str, life: Life) -> None:
    """How a process that this happened to ends."""
    assert "Traceback" not in life.errors
    if kind == "SIGKILL":
        assert life.returncode == -signal.SIGKILL
    elif kind.startswith("SIG"):
        assert life.returncode == 128 + signal.Signals[kind], life
        assert f"stopped by {kind}; go on with: " in life.errors
    else:
        assert life.returncode == 1, life
        assert life.errors.count("cannot be written: ") == 1
        assert "go on with: " in life.errors


def strike(run: Run, kind: str, moment: Moment) -> bool:
    """Have it happen to a process of the run. Returns whether it was in time."""
    life = run.live(moment, KINDS[kind])
    run.path.chmod(0o755)
    if not life.was_struck or is_finished(run.path):
        return False
    assert_said_clearly(kind, life)
    if (run.path / "checkpoint.safetensors").exists():
        assert_sound(run.path, finished=False)
    return True


def run_struck_in_every_way(
    path: Path, mode: str, simulator: str, kinds: list[str], seed: int
) -> Run:
    """One that all of it has happened to: it may be over before, if this process gets no core."""
    draw = random.Random(seed)
    moments = [Moment(draw.randrange(1, 3), draw.uniform(0, 0.1)) for _ in kinds]
    attempts = (run_in(path / str(attempt), mode, simulator) for attempt in range(5))
    struck = (run for run in attempts if all(map(partial(strike, run), kinds, moments)))
    run = next(struck, None)
    assert run is not None, f"five runs were over before {kinds} at {moments}"
    return run


def assert_as_if_nothing_had_happened(run: Run, mode: str, reference: Reference) -> None:
    """Once it has gone on to its end."""
    life = run.live()
    assert (life.returncode, life.errors) == (0, "")
    assert_sound(run.path, finished=True)
    assert_counted_once(run.path, config_of(mode, "compiled", UPDATES), learned(run.record))
    if mode in SAME_WEIGHTS:
        assert same_weights(run.path, reference(SAME_WEIGHTS[mode], UPDATES))
        assert_same_history(run.path, reference(SAME_WEIGHTS[mode], UPDATES))


def run_in(path: Path, mode: str, simulator: str) -> Run:
    prefix = without_override()
    if prefix is None:
        pytest.skip("root needs setpriv to be bound by permissions")
    return Run(path, options_of(mode, simulator, UPDATES), prefix)


@pytest.mark.slow
@pytest.mark.parametrize("simulator", SIMULATORS)
@pytest.mark.parametrize("mode", MODES)
def test_ended_in_every_way(mode, simulator, reference, tmp_path):
    run = run_struck_in_every_way(tmp_path, mode, simulator, list(KINDS), seed=2)
    assert_as_if_nothing_had_happened(run, mode, reference)


@pytest.mark.slow
@pytest.mark.parametrize("nth", range(5))
@pytest.mark.parametrize("simulator", SIMULATORS)
@pytest.mark.parametrize("mode", ["sync", "async", "lag-1"])
def test_killed_at_30_random_moments(mode, simulator, nth, reference, tmp_path):
    draw = random.Random(f"{mode} {simulator} {nth}")
    attempts = (
        Run(tmp_path / str(attempt), options_of(mode, simulator, UPDATES)) for attempt in range(9)
    )
    # One that is over before its moment is no run that was killed.
    run = next(run for run in attempts if strike(run, "SIGKILL", Moment.drawn(draw, UPDATES)))
    assert_as_if_nothing_had_happened(run, mode, reference)


MBPO = (
    *("train-async", "--async-rl", "--algorithm", "mbpo", "--simulator", "compiled"),
    *("--observation", "table", "--actions", "all"),
    *("--max-steps", "10", "--seed", "3", "--n-envs", "6", "--n-workers", "3"),
    *("--episodes-per-update", "12", "--total-episodes", str(12 * UPDATES)),
    *("--hidden-sizes", "16", "--batch-size", "32", "--gradient-steps", "0.1"),
    *("--model-hidden-sizes", "16", "--model-epochs", "2", "--warm-up-steps", "200"),
)


@pytest.mark.slow
@pytest.mark.parametrize("nth", range(3))
def test_a_killed_run_ends_with_the_same_models_and_memory(nth, tmp_path):
    draw = random.Random(nth)
    undisturbed, run = Run(tmp_path / "undisturbed", [*MBPO]), Run(tmp_path / "run", [*MBPO])
    strikes = [strike(run, "SIGKILL", Moment(draw.randrange(3, 8), 0.1)) for _ in range(3)]
    assert strikes == [True] * 3
    for one in (undisturbed, run):
        life = one.live()
        assert (life.returncode, life.errors) == (0, "")
    agents = [remembering_agent(one.path) for one in (undisturbed, run)]
    assert len(agents[0].replay) == 12 * 10 * UPDATES
    assert agents[0].imagined_steps > 0
    assert all_of(agents[0]) == all_of(agents[1])
    assert_same_history(undisturbed.path, run.path)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 4 MB."""
    path = tmp_path / "disk"
    path.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", str(path)]
    if os.getuid() != 0 or subprocess.run(mount, capture_output=True, check=False).returncode != 0:
        pytest.skip("only root mounts file systems, and not everywhere")
    yield path
    subprocess.run(["umount", "--lazy", str(path)], check=True)


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["sync", "lag-1"])
def test_a_disk_that_fills_up(mode, reference, small_disk, tmp_path):
    run = Run(small_disk / "run", options_of(mode, "compiled", UPDATES), record=tmp_path / "record")
    ballast = small_disk / "ballast"

    def fill(process: subprocess.Popen[bytes], path: Path) -> None:
        with ballast.open("wb", buffering=0) as file, suppress(OSError):
            while file.write(bytes(4096)):
                pass

    for updates in (1, 3):
        life = run.live(Moment(updates, 0.0), fill)
        assert_said_clearly("full", life)
        assert "No space left on device" in life.errors
        ballast.unlink()
        assert_sound(run.path, finished=False)
    assert_as_if_nothing_had_happened(run, mode, reference)
