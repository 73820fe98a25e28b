import re
import sys
from pathlib import Path

import pytest

from tests.processes import ended, said_by_python
from workflow_rl import TrainConfig, train
from workflow_rl.runs.folder import read_summary

pytestmark = pytest.mark.system

ONE_FILE = Path(__file__).resolve().parents[1] / "examples" / "one_file.py"
STEPS = 2500
"""Of CartPole: three updates."""


def last_line(*options: str) -> str:
    return said_by_python(ONE_FILE, *options).splitlines()[-1]


@pytest.mark.parametrize("mode", ["async", "sync"])
@pytest.mark.parametrize("seed", [0, 1, 7])
def test_one_file_ends_with_the_weights_of_the_trainers(seed, mode, tmp_path):
    config = TrainConfig(mode, env="CartPole-v1", total_steps=STEPS, seed=seed)
    train(config, tmp_path, quiet=True)
    weights = read_summary(tmp_path)["weights"]
    flags = ["--sync"] if mode == "sync" else []
    for n_workers in (3,) if mode == "sync" else (1, 3, 8):
        options = ["--seed", str(seed), "--total-steps", str(STEPS), *flags]
        assert last_line(*options, "--n-workers", str(n_workers)) == weights


@pytest.mark.slow
def test_with_default_options(tmp_path):
    train(TrainConfig("async", env="CartPole-v1"), tmp_path, quiet=True)
    assert last_line() == read_summary(tmp_path)["weights"]


def test_one_file_is_short_and_needs_nothing_of_the_package():
    lines = ONE_FILE.read_text().splitlines()
    assert len(lines) <= 320
    assert max(map(len, lines)) <= 100
    imports = [line for line in lines if line.startswith(("import ", "from "))]
    assert not [line for line in imports if "workflow_rl" in line]


def test_a_worker_that_dies_is_named():
    program = "import os, one_file\none_file.begun = lambda *_: os._exit(3)\none_file.main()\n"
    result = ended(sys.executable, "-c", program, cwd=ONE_FILE.parent)
    assert result.returncode == 1
    last = result.stderr.splitlines()[-1]
    assert re.fullmatch(r"RuntimeError: Process-\d ended with code 3", last)
