import random
import signal
from functools import partial

import pytest

from tests.faults.checks import assert_counted_once, assert_same_history, assert_sound
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
from tests.tiny_runs import same_weights
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


@pytest.mark.slow
@pytest.mark.parametrize("simulator", SIMULATORS)
@pytest.mark.parametrize("mode", MODES)
def test_ended_in_every_way(mode, simulator, reference, tmp_path):
    prefix = without_override()
    if prefix is None:
        pytest.skip("root needs setpriv to be bound by permissions")
    draw = random.Random(2)
    moments = [Moment(draw.randrange(1, 3), draw.uniform(0, 0.1)) for _ in KINDS]
    for attempt in range(5):
        run = Run(tmp_path / str(attempt), options_of(mode, simulator, UPDATES), prefix)
        if all(map(partial(strike, run), KINDS, moments)):
            break
    else:
        pytest.fail(f"five runs were over before {[*KINDS]} at {moments}")
    life = run.live()
    assert (life.returncode, life.errors) == (0, "")
    assert_sound(run.path, finished=True)
    assert_counted_once(run.path, config_of(mode, "compiled", UPDATES), learned(run.record))
    if mode in SAME_WEIGHTS:
        assert same_weights(run.path, reference(SAME_WEIGHTS[mode], UPDATES))
        assert_same_history(run.path, reference(SAME_WEIGHTS[mode], UPDATES))
