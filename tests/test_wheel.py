"""What is installed: everything within `workflow_rl`, beside whatever else is called `agents`."""

import ast
import os
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

pytestmark = pytest.mark.system

ROOT = Path(__file__).resolve().parents[1]
TINY = [
    *("--n-envs", "2", "--max-steps", "5", "--episodes-per-update", "2", "--total-episodes", "4"),
    *("--n-workers", "2", "--hidden-sizes", "8", "--quiet"),
]


def test_one_package_is_installed(installed):
    with zipfile.ZipFile(installed.wheel) as archive:
        names = archive.namelist()
        (top_level,) = (name for name in names if name.endswith("/top_level.txt"))
        assert archive.read(top_level).decode().split() == ["workflow_rl"]
        assert {name.split("/")[0] for name in names} == {"workflow_rl", top_level.split("/")[0]}
        assert "workflow_rl/agents/ppo/agent.py" in names
        assert "workflow_rl/requirements.txt" in names
        assert "workflow_rl/cage2/agent/released/champion.npz" in names
        assert "workflow_rl/cage2/scoring/pages/side.html" in names
        assert "workflow_rl/cage4/scoring/pages/side.html" in names
        modules = (path.relative_to(ROOT) for path in ROOT.glob("workflow_rl/**/*.py"))
        assert {str(path) for path in modules} <= set(names)
        assert "workflow_rl/cage4/agent/released/champion.npz" in names
        assert "workflow_rl/cage/pages/replay.html" in names
        assert "workflow_rl/reporting/pages/style.css" in names
        for name in names:
            if name.endswith(".py"):
                imported = imports_of(archive.read(name).decode())
                assert "agents" not in {module.split(".")[0] for module in imported}, name


def imports_of(source: str) -> set[str]:
    modules = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            modules |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            modules.add(node.module or "")
    return modules


def test_it_runs_beside_another_agents(installed, tmp_path):
    where = installed.run(
        tmp_path, "python", "-c", "import workflow_rl; print(workflow_rl.__file__)"
    )
    assert Path(where.strip()).parent == installed.site / "workflow_rl"
    installed.run(tmp_path, "workflow-rl", "train-async", *TINY, "--run-dir", "run")
    played = ["--episodes", "1", "--max-steps", "5", "--red-agent", "SleepAgent", "--quiet"]
    assert "SleepAgent" in installed.run(tmp_path, "workflow-rl", "evaluate", "run", *played)
    submitted = ["--format", "cage2", "--output", "submission"]
    installed.run(tmp_path, "workflow-rl", "export", "champion", *submitted)
    modules = {path.name for path in (tmp_path / "submission").glob("acting_*.py")}
    assert {f"acting_{name}.py" for name in ("numpy_policy", "policy_file", "views")} <= modules
    act = "import agent, numpy; agent.BlueAgent().get_action(numpy.zeros(52))"
    installed.run(tmp_path / "submission", "python", "-c", act)


def test_what_is_installed_runs_in_a_checkout(installed, tmp_path):
    installed.run(ROOT, "workflow-rl", "train-async", *TINY, "--run-dir", tmp_path / "run")


def test_an_interface_of_one_name(installed, tmp_path):
    code = """
if __name__ == "__main__":  # Workers import this file.
    from tests_env import Corridor
    from workflow_rl import TrainConfig, evaluate, load_agent, train
    config = TrainConfig("async", n_envs=2, n_workers=2, env="corridor", total_steps=200,
                         steps_per_update=100, settings={"hidden_sizes": (8,)})
    run = train(config, "run", env=lambda: Corridor())
    assert evaluate(run, 2, env=Corridor).lengths
    load_agent(run, env=Corridor).act([0.0])
    # torch's compiler, which nothing needs, takes longer to import than this run.
    import sys
    assert not {"torch._dynamo", "torch._inductor"} & set(sys.modules)
"""
    (tmp_path / "main.py").write_text(code)
    shutil.copy(ROOT / "examples" / "corridor.py", tmp_path / "tests_env.py")
    installed.run(tmp_path, "python", "main.py")


def test_the_checkout_finds_its_own(tmp_path):
    (tmp_path / "agents.py").write_text("raise ImportError('a stranger')\n")
    variables = {**os.environ, "PYTHONPATH": str(tmp_path)}
    script = ROOT / "workflow_rl" / "async_train_workflow_rl.py"
    command = [sys.executable, str(script), "--help"]
    shown = subprocess.run(command, cwd=tmp_path, env=variables, check=True, capture_output=True)
    assert b"--red-agent" in shown.stdout
    imports = "from workflow_rl.agents.policies.numpy_policy import NumpyPolicy"
    subprocess.run([sys.executable, "-c", imports], cwd=ROOT, env=variables, check=True)


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("versions", ["locked", "lowest"])
def test_an_empty_environment(versions):
    subprocess.run(["bash", str(ROOT / "scripts" / "check_install.sh"), versions], check=True)


@pytest.mark.parametrize("name", ["requirements", "requirements-dev"])
def test_all_that_is_pinned_is_locked(name):
    pinned = set(re.findall(r"^([\w.-]+==\S+)$", (ROOT / f"{name}.txt").read_text(), re.MULTILINE))
    lock = (ROOT / f"{name}.lock").read_text()
    locked = re.findall(r"^(\S+==\S+)(?: ; .*)? \\\n +--hash=sha256:[0-9a-f]{64}\b", lock, re.M)
    assert len(pinned) >= 11
    assert pinned <= set(locked)
    # Every requirement has a hash, and nobody's address is in it.
    assert len(locked) == len(re.findall(r"^[^\s#]", lock, re.MULTILINE))
    assert "//" not in lock
