"""The lowest version of Gymnasium that pyproject.toml allows; all other tests have the newest."""

import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tests.tiny_runs import same_weights

ROOT = Path(__file__).resolve().parents[1]
TRAIN = (
    *("-m", "workflow_rl", "train-async", "--env", "tests.any_envs:MaskedPuzzleEnv", "--quiet"),
    *("--total-episodes", "8", "--episodes-per-update", "4", "--n-envs", "2", "--n-workers", "1"),
)


@pytest.mark.system
def test_the_lowest_gymnasium_gives_the_same_weights(tmp_path):
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    (allowed,) = (line for line in project["dependencies"] if line.startswith("gymnasium>="))
    lowest = allowed.partition(">=")[2].partition(",")[0]
    older = str(tmp_path / "older")
    install = (*("-m", "pip", "install", "--quiet", "--no-deps"), f"gymnasium=={lowest}")
    if subprocess.run([sys.executable, *install, "--target", older], check=False).returncode:
        pytest.skip(f"the package index has no gymnasium {lowest}")
    says = ("-c", "import gymnasium; print(gymnasium.__version__)")
    for folder, begins in (older, lowest), ("", "1."):
        environment = {**os.environ, "PYTHONPATH": folder}
        told = subprocess.check_output([sys.executable, *says], env=environment, text=True)
        assert told.startswith(begins)
        run = [sys.executable, *TRAIN, "--run-dir", str(tmp_path / begins)]
        subprocess.run(run, env=environment, cwd=ROOT, check=True)
    assert same_weights(tmp_path / lowest, tmp_path / "1.")
