"""Runs to be changed by a stranger, and the folder that such files lie in."""

import json
import shutil
import sys
from pathlib import Path

import matplotlib.pyplot  # noqa: F401  # It makes a folder of its own, which no file has asked for.
import pytest

from tests.cli import output_of
from tests.strangers.folders import OWN_MODULE, RUNS
from tests.strangers.watch import CANARY, HOSTILE_MODULE, TINY
from workflow_rl.commands.tune import RANGES, TUNE_FILE
from workflow_rl.runs.folder import read_config


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run of each kind, its policy as a file, a population's folder and a search's."""
    root = tmp_path_factory.mktemp("made")
    for kind, options in RUNS.items():
        run = root / kind / "run"
        output_of("train-async", *TINY, *options, "--run-dir", run)
        output_of("export", run, "--format", "npz", "--output", run / "agent.npz")
        config = read_config(run).to_dict()
        for member in ("policy-0", "policy-1"):
            shutil.copytree(run, root / kind / "population" / member)
        population = {"configs": [config, config], "exchange": None, "meetings": []}
        (root / kind / "population" / "population.json").write_text(json.dumps(population))
        (root / kind / "tuned").mkdir()
        search = {"config": config, "ranges": RANGES, "n_policies": 2, "finalists": 1}
        (root / kind / "tuned" / TUNE_FILE).write_text(json.dumps(search))
    return root


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make the test's folder the current one, with a stranger's modules in it."""
    monkeypatch.chdir(tmp_path)
    for module in (f"{CANARY}.py", f"{CANARY}_package/__init__.py", f"{CANARY}_package/inner.py"):
        Path(module).parent.mkdir(exist_ok=True)
        Path(module).write_text(HOSTILE_MODULE)
    Path(f"{OWN_MODULE}.py").write_text(
        "import gymnasium\n"
        "from torch import nn\n"
        "def make():\n"
        "    return gymnasium.make('CartPole-v1')\n"
        "class Net(nn.Linear):\n"
        "    def __init__(self, n_inputs, n_outputs):\n"
        "        super().__init__(n_inputs, n_outputs)\n"
    )
    monkeypatch.delitem(sys.modules, OWN_MODULE, raising=False)
    return tmp_path
