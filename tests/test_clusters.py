"""The same weights from workers behind pipes, on a cluster of this machine, and on three nodes."""

import pytest

from tests.nodes import running
from tests.processes import start
from tests.tiny_runs import same_weights

pytest.importorskip("ray")

RUNS = {
    "cyborg": "--red-agent mixed --simulator cyborg --total-episodes 96",
    "compiled": "--red-agent mixed --simulator compiled --total-episodes 480",
    "CartPole": "--env CartPole-v1 --total-steps 10000",
}
MODES = {
    "async": "train-async --n-envs 12",
    "lag-1": "train-async --n-envs 12 --async-rl",
    "unrolls": "train-async --n-envs 12 --num-steps-per-env 20",
    "sync": "train-sync --n-envs 12",
}


@pytest.mark.slow
@pytest.mark.parametrize("mode", MODES)
def test_the_same_weights_wherever_workers_are(mode, tmp_path):
    with running(3) as nodes:
        for name, options in RUNS.items():
            pipes = tmp_path / name / "none"
            for where in ("none", "local", nodes.address):
                path = pipes.with_name(where.partition(":")[0])
                workers = ["--n-workers", 2 if where == "none" else 3, "--cluster", where]
                words = [*MODES[mode].split(), *options.split(), *workers, "--run-dir", path]
                assert start(*words, "--quiet").wait(1800) == 0
                assert same_weights(pipes, path), path
