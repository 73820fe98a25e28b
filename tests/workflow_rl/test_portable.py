"""What libraries are held to: in every entry point, in workers, and what a user makes of it."""

import subprocess
import sys

import pytest

from tests.processes import ended
from workflow_rl.portable import NATIVE, PINS

pytestmark = pytest.mark.system

DEPARTURES = """
from workflow_rl import portable
print(portable.departures())
"""
REPORT = """
from workflow_rl import portable
import torch
print(portable.numpy_kernels(), torch.backends.cpu.get_cpu_capability(), portable.departures())
"""
HELD = "X86_V3 AVX2 []"
ENTRY_POINTS = {
    "python -m workflow_rl": "run_module('workflow_rl', run_name='__main__')",
    "python a file": "run_path('workflow_rl/async_train_workflow_rl.py', run_name='__main__')",
}
WORKER = """
import multiprocessing
from workflow_rl.collection.local_pool import ensure_fork_server

ensure_fork_server("workflow_rl.collection.worker_preload")
worker = multiprocessing.get_context("forkserver").Process(target=exec, args=({report!r},))
worker.start()
worker.join()
"""


@pytest.fixture(autouse=True)
def nothing_is_set(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (*PINS, NATIVE):
        monkeypatch.delenv(name, raising=False)


def run(code: str, *options: str, **variables: str) -> subprocess.CompletedProcess[str]:
    return ended(sys.executable, *options, "-c", code, **variables)


def report(code: str, *options: str, **variables: str) -> str:
    done = run(code, *options, **variables)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip().splitlines()[-1]


@pytest.mark.parametrize("entry_point", ENTRY_POINTS)
def test_every_entry_point_is_held(entry_point):
    code = f"""
import runpy, sys
sys.argv[1:] = ["--help"]
try:
    runpy.{ENTRY_POINTS[entry_point]}
except SystemExit:
    pass
"""
    assert report(code + REPORT) == HELD


def test_so_are_workers():
    assert report(WORKER.format(report=REPORT)) == HELD


def test_so_is_whoever_imports_the_package_and_numpy_knows_all_it_is_told_to_leave_out():
    """NumPy would go on with a warning that nobody sees."""
    assert report("import workflow_rl\nimport numpy" + REPORT, "-W", "error::ImportWarning") == HELD
    wrong = run("import workflow_rl", "-W", "error::ImportWarning", NPY_DISABLE_CPU_FEATURES="V9")
    assert "cannot disable CPU features" in wrong.stderr


def test_what_the_user_has_set_stays_and_is_named():
    assert "MKL_CBWR is 'AVX2', not 'COMPATIBLE'" in report(
        "import numpy" + DEPARTURES, MKL_CBWR="AVX2"
    )


def test_a_library_that_was_loaded_before_is_named():
    assert "numpy was imported before workflow_rl" in report("import numpy" + DEPARTURES)


def test_native_results_can_be_had():
    code = "import os, workflow_rl\nprint(*os.environ)"
    assert not set(PINS) & set(report(code, **{NATIVE: "1"}).split())
    assert set(PINS) <= set(report(code).split())


OLD_PROCESSOR = """
import builtins, io
before = builtins.open
flags = io.StringIO("processor : 0\\nflags : fpu sse sse2 avx fma\\n")
builtins.open = lambda name, *rest: flags if name == "/proc/cpuinfo" else before(name, *rest)
import workflow_rl
builtins.open = before
"""


def test_a_processor_without_avx2_is_refused_in_one_line(tmp_path):
    code = f"""
from workflow_rl import portable
from workflow_rl.commands.main import main
portable.is_supported = lambda: False
main(["train-async", "--total-episodes", "1", "--run-dir", {str(tmp_path / "run")!r}])
"""
    done = run(OLD_PROCESSOR + code)
    assert done.returncode == 2
    assert "this processor lacks AVX2 with FMA" in done.stderr.splitlines()[-1]
    assert not (tmp_path / "run").exists()
    # torch would not survive being told to use them.
    assert not set(PINS) & set(report(OLD_PROCESSOR + "import os\nprint(*os.environ)").split())


WITHOUT_PROC = """
import builtins
before = builtins.open
def refuse(name, *rest):
    if name == "/proc/cpuinfo":
        raise PermissionError(name)
    return before(name, *rest)
builtins.open = refuse
"""


def test_where_the_system_tells_nothing_numpy_does():
    assert report(WITHOUT_PROC + REPORT) == HELD
