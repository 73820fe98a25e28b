"""The same weights from workers behind pipes, on a cluster of this machine, and on three nodes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.nodes import running
from tests.tiny_runs import same_weights

pytest.importorskip("ray")

ROOT = Path(__file__).resolve().parents[1]
RUNS = {
    "cyborg": ["--red-agent", "mixed", "--total-episodes", "96"],
    "compiled": ["--red-agent", "mixed", "--simulator", "compiled", "--total-episodes", "480"],
    "CartPole": ["--env", "CartPole-v1", "--total-steps", "10000"],
}
MODES = {
    "async": ["train-async", "--n-envs", "12"],
    "lag-1": ["train-async", "--n-envs", "12", "--async-rl"],
    "unrolls": ["train-async", "--n-envs", "12", "--num-steps-per-env", "20"],
    "sync": ["train-sync", "--n-envs", "12"],
}


@pytest.mark.slow
@pytest.mark.parametrize("mode", MODES)
def test_the_same_weights_wherever_workers_are(mode: str, tmp_path: Path) -> None:
    with running(3) as nodes:
        for name, options in RUNS.items():
            for where in ("none", "local", nodes.address):
                run_dir = tmp_path / f"{name}-{where.partition(':')[0]}"
                command = [
                    sys.executable,
                    "-m",
                    "workflow_rl.commands.main",
                    *MODES[mode],
                    *options,
                ]
                workers = ["--n-workers", "2" if where == "none" else "3", "--cluster", where]
                subprocess.run(
                    [*command, *workers, "--quiet", "--run-dir", str(run_dir)],
                    cwd=ROOT,
                    check=True,
                    stdout=subprocess.DEVNULL,
                )
    for name in RUNS:
        pipes, *others = sorted(
            tmp_path.glob(f"{name}-*"), key=lambda path: "none" not in path.name
        )
        assert len(others) == 2
        for other in others:
            assert same_weights(pipes, other), other
