"""Child processes run no module of the current folder, which may be a stranger's."""

import ast
import functools
import glob
import os
import re
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.called_functions import calls_in
from workflow_rl.check_install import PACKAGES
from workflow_rl.environments import simulator_process

ROOT = Path(__file__).parents[2]
STARTS = re.compile(
    r"^(subprocess\.\w+|os\.(system|popen|exec\w+|spawn\w+|posix_spawn\w*|fork\w*)|pty\.\w+|"
    r"(.+\.)?(get_context|Pool|Process|ProcessPoolExecutor|ensure_running|Popen|set_executable)|"
    r"asyncio\.create_subprocess_\w+|runpy\.\w+|(\w+\.)?ray\.init)$"
)
WORDS = re.compile(r"subprocess|multiprocessing|concurrent|os\.|pty|asyncio|runpy|ray|context")
"""Calls that may start a process."""
SAFE = "in variables_set(SAFE_PATH)"
NO_PYTHON = "starts no Python"
ROOTED = "in the checkout, or in a copy of it: `cwd`, or `chdir` before"
OWN_FLAGS = "gives -I or -P"
A_SCRIPT = "runs a file: Python searches the folder of the file instead"
ALLOWED = {
    ("workflow_rl/cage/comparison.py", "ProcessPoolExecutor"): SAFE,
    ("workflow_rl/cage/comparison.py", "get_context"): SAFE,
    ("workflow_rl/cage2/cyborg/simulators.py", "run"): NO_PYTHON,
    ("workflow_rl/cluster/cluster.py", "Popen"): OWN_FLAGS,
    ("workflow_rl/cluster/cluster.py", "init"): "Ray's workers search it: see the page on safety",
    ("workflow_rl/collection/local_pool.py", "Process"): "forked, with SAFE_PATH for its own",
    ("workflow_rl/collection/local_pool.py", "ensure_running"): SAFE,
    ("workflow_rl/collection/local_pool.py", "get_context"): SAFE,
    ("workflow_rl/environments/simulator.py", "Popen"): A_SCRIPT,
    ("workflow_rl/environments/simulator.py", "run"): "takes the folder off the path first",
    ("scripts/benchmark_peers/compare.py", "Popen"): "in a folder that was made a moment ago",
    ("scripts/benchmark_peers/task.py", "Process"): "forks",
    ("scripts/benchmark_peers/task.py", "get_context"): "forks",
    ("scripts/check_clients.py", "run"): A_SCRIPT,
    ("scripts/check_gpu.py", "run"): ROOTED,
    ("scripts/check_mutants.py", "run"): ROOTED,
    ("scripts/check_processors.py", "run"): ROOTED,
    ("scripts/client_environments.py", "run"): OWN_FLAGS,
    ("scripts/count_house.py", "run"): ROOTED,
    ("scripts/watched_command.py", "run_module"): "this process, in the checkout",
}
"""Why a place that starts processes runs nothing of the current folder."""


def starts(source: str) -> Iterator[str]:
    """The names of calls that may start a process."""
    if not WORDS.search(source):  # Parsing takes most of the time.
        return
    for name, _ in calls_in(ast.parse(source)):
        if STARTS.match(name):
            yield name.rpartition(".")[2]


def test_each_place_that_starts_a_process_is_known():
    files = [path for room in ("agents", "workflow_rl", "scripts") for path in ROOT.glob(room)]
    found = Counter(
        (str(path.relative_to(ROOT)), name)
        for folder in files
        for path in folder.rglob("*.py")
        for name in starts(path.read_text(encoding="utf-8"))
    )
    assert found.keys() == ALLOWED.keys()


@pytest.mark.parametrize(
    "source",
    [
        *("subprocess.run(['a'])", "os.system('a')", "multiprocessing.Pool(2)", "ray.init()"),
        *("from subprocess import Popen as start\nstart(['a'])", "context.Process()"),
        "from multiprocessing import get_context\nget_context('spawn')",
    ],
)
def test_starts_are_found(source):
    assert list(starts(source))


@pytest.mark.parametrize("script", sorted(ROOT.glob("scripts/*.sh")), ids=lambda path: path.name)
def test_shell_scripts_call_python_in_the_checkout(script):
    if script.name != "setup.sh":  # Others read it, when they are there.
        before = script.read_text().partition("python")[0]
        assert 'cd "$(dirname "${BASH_SOURCE[0]}")/.."' in before


@functools.cache
def pythons() -> list[str]:
    """Interpreters of this machine, one of each version."""
    found = [sys.executable, *filter(None, (shutil.which(f"python3.{n}") for n in range(8, 20)))]
    found += sorted(glob.glob(os.path.expanduser("~/.pyenv/versions/3.*/bin/python")))
    of_version: dict[str, str] = {}
    for python in found:
        version = "import sys; print(*sys.version_info[:2], sep='.')"
        told = subprocess.run([python, "-I", "-c", version], capture_output=True, text=True)
        if told.returncode == 0 and int(told.stdout.split(".")[1]) >= 8:
            of_version.setdefault(told.stdout.strip(), python)
    return list(of_version.values())


@pytest.fixture
def ran(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file that lists what ran of a stranger's folder, which is the current one and has a module
    of every name that somebody may import."""
    ran, folder = tmp_path / "ran", tmp_path / "strangers"
    folder.mkdir()
    for name in {*sys.stdlib_module_names, *PACKAGES, "gym", "workflow_rl", "sitecustomize"}:
        content = f"open({str(ran)!r}, 'a').write(__name__ + ' ')\n"
        (folder / f"{name}.py").write_text(content)
    monkeypatch.chdir(folder)
    for name in ("PYTHONSAFEPATH", "PYTHONPATH"):
        monkeypatch.delenv(name, raising=False)
    return ran


def call(tmp_path: Path, code: str, *words: str) -> str:
    """What a script of another folder says, as an installed command is one."""
    script = tmp_path / "command.py"
    script.write_text(f"import sys\nsys.path[0] = {str(ROOT)!r}\n{code}")
    command = [sys.executable, str(script), *words]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240)
    assert "Traceback" not in done.stderr, done.stderr
    return done.stdout + done.stderr


MAIN = "from workflow_rl.commands.main import main\nmain()\n"
POOL = """
from workflow_rl.agents.ppo.config import PPOConfig
from workflow_rl.cage.comparison import in_processes
if __name__ == "__main__":
    print(*in_processes(abs, [-1, -2], 2))
"""


@pytest.mark.system
@pytest.mark.parametrize("python", pythons())
def test_another_interpreter_runs_nothing_of_the_folder(python, ran, tmp_path):
    assert f"{python}: python 3." in call(tmp_path, MAIN, "doctor", "--env-python", python)
    options = ["--total-steps", "32", "--steps-per-update", "16", "--quiet", "--n-workers", "1"]
    training = ["train-async", "--env", "CartPole-v1", "--run-dir", str(tmp_path / "run"), *options]
    call(tmp_path, MAIN, *training, "--env-python", python)
    # It ends at once: it is given no socket, and may have no NumPy.
    subprocess.run([python, simulator_process.__file__, "0"], capture_output=True, timeout=60)
    assert not ran.exists(), ran.read_text()


@pytest.mark.system
def test_a_pool_runs_nothing_of_the_folder(ran, tmp_path):
    assert "1 2" in call(tmp_path, POOL)
    assert not ran.exists(), ran.read_text()


def test_the_folder_would_be_searched(ran):
    subprocess.run([sys.executable, "-c", "import json"])
    assert "json" in ran.read_text()
