"""What importing a module loads: workers start many times, and must start quickly."""

import sys

import pytest

from tests.processes import ended, said_by_python

pytestmark = pytest.mark.system

LIGHT = {"torch", "click", "pydantic"}
NOT_LOADED = {
    "workflow_rl.agents.trajectory": LIGHT,
    "workflow_rl.agents.policies.numpy_policy": LIGHT,
    "workflow_rl.agents.policies.policy_file": LIGHT,
    "workflow_rl.agents.ppo.algorithm": {"torch"},
    "workflow_rl.agents.sac.algorithm": {"torch"},
    "tests.tiny_envs": {"torch"},
    "workflow_rl.cage2.agent.scripted": {"torch", "numba", "csle_cyborg"},
    "workflow_rl.cage2.cyborg.preload": {*LIGHT, "numba"},
    "workflow_rl.cage2.parity": {"numba"},
    "workflow_rl.cage2.env.viewed_envs": {*LIGHT, "numba"},
    "workflow_rl.cage2.scoring.players": {"torch"},
    "workflow_rl.cage4.agent.rules": {"torch", "numba", "networkx"},
    "workflow_rl.collection.worker": {*LIGHT, "numba"},
    "workflow_rl.collection.worker_preload": {*LIGHT, "numba"},
    "workflow_rl.commands.main": {"torch", "numba", "ray"},
    "workflow_rl.commands.plot": {"torch"},
    "workflow_rl.api": {"matplotlib", "ray"},
    "workflow_rl.environments.making": {*LIGHT, "numba"},
    "workflow_rl.runs.loop": {"matplotlib", "ray"},
}
"""Packages that a module does without."""

PROGRAM = """
import importlib, os, sys
import workflow_rl
for module in sys.argv[1:]:
    if os.fork():
        os.wait()
    else:
        importlib.import_module(module)
        print(module, *{name.partition(".")[0] for name in sys.modules}, flush=True)
        os._exit(0)
"""


@pytest.fixture(scope="module")
def loaded() -> dict[str, set[str]]:
    """The packages that each module loads, alone in a process."""
    lines = map(str.split, said_by_python("-c", PROGRAM, *NOT_LOADED).splitlines())
    return {module: set(packages) for module, *packages in lines}


@pytest.mark.parametrize("module", NOT_LOADED)
def test_a_module_loads_no_more_than_it_needs(module, loaded):
    assert not loaded[module] & NOT_LOADED[module]


OF_WORKERS = (
    *("collection.worker", "collection.player", "collection.sync_collector"),
    *("environments.making", "environments.joint_env", "environments.flat_env"),
)


def test_the_main_process_of_an_asynchronous_run_does_without_what_workers_are_made_of():
    modules = "workflow_rl.runs.loop, workflow_rl.collection.try_in_worker"
    loaded = said_by_python("-c", f"import sys, {modules}; print(*sys.modules)").split()
    assert "workflow_rl.collection.local_pool" in loaded
    assert not {f"workflow_rl.{name}" for name in OF_WORKERS} & set(loaded)


@pytest.mark.parametrize(
    ("option", "code", "heavy"),
    [
        ("--no-such-option", 2, {"torch", "gymnasium"}),
        ("--help", 0, {"torch", "gymnasium", "numpy"}),
    ],
)
def test_help_and_a_refused_option_import_nothing_heavy(option, code, heavy):
    command = ["-X", "importtime", "-m", "workflow_rl", "train-async"]
    done = ended(sys.executable, *command, option)
    assert done.returncode == code
    lines = [line for line in done.stderr.splitlines() if line.startswith("import time:")]
    imported = {line.rpartition("|")[2].strip() for line in lines}
    assert "workflow_rl.commands.train" in imported
    assert not heavy & imported


MADE = "import gymnasium; print(gymnasium.spec('workflow_rl/CAGE2-v0').id)"


def test_a_package_that_is_run_has_the_environments(tmp_path):
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "__init__.py").write_text("import workflow_rl")
    (tmp_path / "own" / "__main__.py").write_text(MADE)
    assert said_by_python("-m", "own", cwd=tmp_path) == "workflow_rl/CAGE2-v0\n"


CHILD = f"""
import multiprocessing, sys
sys.argv[0] = "workflow-rl"
import workflow_rl

def made():
    {MADE}

if __name__ == "__main__":
    assert "gymnasium" not in sys.modules
    child = multiprocessing.get_context("spawn").Process(target=made)
    child.start()
    child.join()
"""


def test_a_process_that_a_command_starts_has_the_environments(tmp_path):
    (tmp_path / "program.py").write_text(CHILD)
    assert said_by_python(tmp_path / "program.py") == "workflow_rl/CAGE2-v0\n"


OWN = """
from workflow_rl import TrainConfig, evaluate, load_agent, train  # isort: skip

import sys
from tests.any_envs import PictureEnv

class Env(PictureEnv):
    def step(self, action):
        print("torch" in sys.modules, flush=True)
        return super().step(action)

if __name__ == "__main__":
    sizes = {"n_envs": 1, "total_steps": 20, "steps_per_update": 20}
    train(TrainConfig("async", env="own:Env", network="cnn", **sizes), "run")
"""


def test_a_worker_that_imports_the_users_script_has_no_torch(tmp_path):
    (tmp_path / "own.py").write_text(OWN)
    assert set(said_by_python("own.py", cwd=tmp_path).splitlines()) == {"False"}
