"""Many envs at once, what does not fit, and what is out of range."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from workflow_rl import jit
from workflow_rl.cage2.compiled.batched_simulator import BatchedSimulator, reset_envs
from workflow_rl.cage2.compiled.state import MAX_PORTS, STATE
from workflow_rl.cage2.scenario2 import ACTION_NAMES, HOSTS, RED_AGENTS

SLEEP = 0


def play(simulator: BatchedSimulator, action: int, n_steps: int) -> None:
    for _ in range(n_steps):
        simulator.step(action)


def test_an_env_fits_into_eight_kilobytes() -> None:
    """All that is kept for it: the state, and its rows of the simulator's arrays."""
    kept = sum(array.nbytes for array in BatchedSimulator(5).save())
    assert STATE.itemsize < kept / 5 < 8000


def test_only_chosen_envs_are_reset() -> None:
    simulator = BatchedSimulator(3)
    simulator.reset([1, 2, 3], 0)
    play(simulator, SLEEP, 20)
    before = simulator.states.copy(), simulator.obs.copy()
    assert before[1].any(axis=1).all()
    simulator.reset([7, 7, 7], 1, chosen=[False, True, False])
    for now, then in zip((simulator.states, simulator.obs), before, strict=True):
        assert (now[[0, 2]] == then[[0, 2]]).all()
    assert not simulator.obs[1].any()
    assert simulator.states["red_agent"].tolist() == [0, 1, 0]


def test_too_many_decoys_are_an_error_and_no_overflow() -> None:
    simulator = BatchedSimulator(1)
    simulator.reset(0, RED_AGENTS.index("SleepAgent"))
    # CybORG sets up any number of these on one host.
    action = ACTION_NAMES.index("DecoyVsftpd Op_Host0")
    with pytest.raises(RuntimeError, match="env 0: more than 200 decoys"):
        play(simulator, action, 300)
    assert simulator.states["n_processes"][0] == 200
    with pytest.raises(RuntimeError, match="env 0: more than 200 decoys"):
        simulator.step(SLEEP)
    simulator.reset(0, 2)
    simulator.step(action)


def test_too_many_ports_are_an_error_and_no_overflow() -> None:
    simulator = BatchedSimulator(1)
    simulator.reset(0, RED_AGENTS.index("B_lineAgent"))
    simulator.states["n_ports"] = MAX_PORTS // 2, MAX_PORTS // 2 - 3
    simulator.states["busy_host"] = HOSTS.index("Op_Host2")
    with pytest.raises(RuntimeError, match=f"env 0: more than {MAX_PORTS} ephemeral ports"):
        play(simulator, SLEEP, 100)
    assert simulator.states["n_ports"].sum() <= MAX_PORTS


def test_hundred_steps_always_fit() -> None:
    """At most a decoy, a red session and a caught process a step."""
    for host in range(len(HOSTS)):
        simulator = BatchedSimulator(300)
        simulator.reset(np.arange(300) + 300 * host, np.arange(300) % 3)
        action = ACTION_NAMES.index(f"DecoyVsftpd {HOSTS[host]}")
        play(simulator, action, 100)
        assert not simulator.states["error"].any()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([0, 1], [0, 3]), "red_agents: 3 is not from 0 to 2"),
        (([-1, 1], [0, 0]), "seeds: -1 is not from 0 to"),
        (([0.5, 1], [0, 0]), "seeds: integers are needed, not float64"),
        (([True, False], [0, 0]), "seeds: integers are needed, not bool"),
        (([1, 2, 3], [0, 0]), r"seeds: an array of \(2,\) is needed, not of \(3,\)"),
        ((1, 0, [0, 1]), "chosen: booleans are needed, not int64"),
        ((1, 0, [True] * 3), r"chosen: an array of \(2,\) is needed, not of \(3,\)"),
    ],
)
def test_mistakes_in_a_reset_are_named(arguments: tuple[Any, ...], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        BatchedSimulator(2).reset(*arguments)


def test_actions_out_of_range_are_named() -> None:
    simulator = BatchedSimulator(2)
    simulator.reset(0, 0)
    for action in (-1, 145):
        with pytest.raises(ValueError, match=f"actions: {action} is not from 0 to 144"):
            simulator.step([0, action])


def test_a_change_in_any_file_is_compiled(tmp_path: Path) -> None:
    for name in ("a.py", "b.py"):
        (tmp_path / name).write_text("x = 1")
    before = jit.digest(tmp_path.glob("*.py"))
    assert before == jit.digest(tmp_path.glob("*.py"))
    (tmp_path / "b.py").write_text("x = 2")
    assert before != jit.digest(tmp_path.glob("*.py"))
    stamps = []
    for _ in range(2):
        function = jit.entry_points(tmp_path)(reset_envs.py_func)  # type: ignore[attr-defined]
        stamps.append(function._cache._cache_file._source_stamp)
        (tmp_path / "a.py").write_text("x = 3")
    assert stamps[0] != stamps[1]


def test_the_second_process_does_not_compile() -> None:
    code = (
        "import numpy as np\n"
        "from workflow_rl.cage2.compiled.batched_simulator import BatchedSimulator\n"
        "from workflow_rl.cage2.compiled.batched_simulator import reset_envs, step_envs\n"
        "s = BatchedSimulator(2); s.reset(0, 0); s.step(0)\n"
        "s.reset(np.array([1, 2]), [0, 1], chosen=[True, False])\n"
        "s.step(np.zeros(2, np.int64)); s.step(np.zeros(2, np.int32), np.ones(2, bool))\n"
        "for f in (reset_envs, step_envs):\n"
        "    print(f.stats.cache_hits.total(), f.stats.cache_misses.total())"
    )
    simulator = BatchedSimulator(2)
    simulator.reset(0, 0)
    simulator.step(SLEEP)
    result = subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, text=True
    )
    assert result.stdout.split() == ["1", "0", "1", "0"]
    assert "Compiling" not in result.stderr
