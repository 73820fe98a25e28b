import fcntl
import multiprocessing.forkserver
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from random_order.config import Config as RandomOrder

import workflow_rl.portable  # noqa: F401  # Before any test loads NumPy.
from workflow_rl.collection import local_pool

# Networks this small only lose time to a second thread. torch reads the variable when it is loaded.
os.environ.setdefault("OMP_NUM_THREADS", "1")
# A busy machine exceeds hypothesis's time limits of single examples. Every run tries the same
# examples.
settings.register_profile("reproducible", deadline=None, derandomize=True, max_examples=50)
settings.load_profile("reproducible")

pytest_plugins = ["tests.installed", "tests.shown_commands"]

ROOT = Path(__file__).resolve().parents[1]
# What compiles the simulators, with what agents see of them.
COMPILING = (
    "import workflow_rl.cage4.compiled.preload",
    "from workflow_rl.cage2.env.environment import Cage2\n"
    "for view in ('belief', 'true-state'): Cage2(simulator='compiled', observation=view).check()",
)
COMPILATIONS = pytest.StashKey[list[subprocess.Popen[bytes]]]()
COLLECTION = pytest.StashKey[int]()


def pytest_configure(config: pytest.Config) -> None:
    """Begin to compile the simulators once for all processes, if there will be several."""
    if config.getoption("numprocesses", None) and not hasattr(config, "workerinput"):
        config.stash[COLLECTION] = os.open(__file__, os.O_RDONLY)
        fcntl.flock(config.stash[COLLECTION], fcntl.LOCK_EX)
        config.stash[COMPILATIONS] = [
            subprocess.Popen([sys.executable, "-c", program], cwd=ROOT) for program in COMPILING
        ]


def pytest_sessionstart(session: pytest.Session) -> None:
    """Print the seed of a random order: the plug-in's header is not shown with -q."""
    order = RandomOrder(session.config)
    if order.is_enabled and not hasattr(session.config, "workerinput"):
        session.config.get_terminal_writer().line(f"--random-order-seed={order.seed}")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_node_collection_finished(node: Any) -> None:
    """Hand out no test before the simulators are compiled: each process would do so again."""
    fcntl.flock(node.config.stash[COLLECTION], fcntl.LOCK_UN)
    for compilation in node.config.stash[COMPILATIONS]:
        compilation.wait()


def pytest_collection(session: pytest.Session) -> None:
    """Let the first process collect the tests before the others do, which find what pytest has made
    of each file: with all at once, each would compile every file."""
    if getattr(session.config, "workerinput", {"workerid": "gw0"})["workerid"] != "gw0":
        with Path(__file__).open("rb") as lock:
            fcntl.flock(lock, fcntl.LOCK_SH)


@pytest.fixture(scope="session", autouse=True)
def own_state(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Keep what the tests remember out of the user's own state."""
    os.environ["XDG_STATE_HOME"] = str(tmp_path_factory.mktemp("state"))


@pytest.fixture(autouse=True)
def own_variables() -> Iterator[None]:
    """Undo what a command of a test sets in the environment for its workers."""
    before = dict(os.environ)
    yield
    for name in [name for name in os.environ if name not in before]:
        del os.environ[name]
    os.environ.update(before)


@pytest.fixture(scope="session", autouse=True)
def workers_share_simulators() -> Iterator[None]:
    """Fork all workers from a process that knows every simulator.

    A process has one fork server. It would know what the first test to start workers plays, or
    nothing if another package starts it, and the workers of all others would import their simulator
    themselves.
    """
    server = vars(multiprocessing.forkserver)["_forkserver"]
    assert server._forkserver_pid is None, "a module of tests starts a worker when it is imported"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(local_pool, "PRELOAD", "tests.preloaded")
        local_pool.ensure_fork_server()
        yield


@pytest.fixture(scope="session", autouse=True)
def quick_learning_curves() -> Iterator[None]:
    """Draw no learning curve at the end of a run in this process: it takes longer than the run.

    Tests of the curve draw it, and so does every run in a process of its own.
    """
    from workflow_rl.reporting import learning_curve  # It takes a while.

    def leave_file(metrics: Any, path: Path, config: Any) -> None:
        path.write_bytes(b"\x89PNG")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(learning_curve, "plot_learning_curve", leave_file)
        yield


@pytest.fixture(scope="session", autouse=True)
def without_fsync() -> Iterator[None]:
    """Do not wait for the disk: no file of a test has to survive a power cut."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda descriptor: None)
        yield
