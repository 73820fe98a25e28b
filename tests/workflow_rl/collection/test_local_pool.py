import json
import multiprocessing
import multiprocessing.forkserver
import os
import pickle
import resource
import signal
import struct
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from importlib.util import spec_from_loader
from pathlib import Path
from typing import Any

import cloudpickle
import numpy as np
import psutil
import pytest

from tests.processes import survivors
from tests.tiny_envs import CountingEnv, RaisingEnv
from workflow_rl.cage2.scenario2 import RED_AGENTS
from workflow_rl.collection import local_pool
from workflow_rl.collection.local_pool import LocalPool
from workflow_rl.collection.messages import (
    Command,
    Failure,
    Reply,
    StopRequested,
    TooManyFailuresError,
    WorkerError,
)
from workflow_rl.collection.worker import failure_of
from workflow_rl.environments.env_batch import EpisodeError, SerialEnvs
from workflow_rl.environments.episode import episode_spec
from workflow_rl.errors import ObservationError

ROOT = Path(__file__).resolve().parents[3]
COUNTING = partial(SerialEnvs, CountingEnv)
RESET = (Command.RESET, ([0], [episode_spec(0, 0, RED_AGENTS)]))
STEP = (Command.STEP, ([0], np.array([0])))
LOST = WorkerError("worker-0", Command.STEP, None, "was unlucky")


def workers_in(pool: LocalPool) -> list[psutil.Process]:
    return [psutil.Process(worker.process.pid) for worker in pool._workers]


def test_an_exception_ends_all_workers_and_close_may_be_called_again():
    with suppress(ZeroDivisionError), LocalPool(COUNTING, 3) as pool:
        workers = workers_in(pool)
        assert len(survivors(workers, 0)) == 3
        raise ZeroDivisionError
    assert not survivors(workers, 30)
    pool.close()


def test_close_is_bounded_when_workers_are_stopped_or_dead():
    with LocalPool(COUNTING, 3) as pool:
        workers = workers_in(pool)
        workers[0].suspend()
        workers[1].kill()
        start = time.monotonic()
    assert time.monotonic() - start < 30
    assert not survivors(workers, 30)


class StartingEnv(CountingEnv):
    """Starts a program and, by multiprocessing, a process. Their ids go into a file."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        program = subprocess.Popen(["sleep", "600"])
        process = multiprocessing.get_context("fork").Process(target=time.sleep, args=(600,))
        process.start()
        (folder / f"{os.getpid()}").write_text(f"{program.pid} {process.pid}")

    def step(self, action: int) -> Any:
        time.sleep(0.2)
        return super().step(action)


@pytest.mark.system
@pytest.mark.parametrize("is_playing", [True, False])
def test_what_an_environment_has_started_ends_with_its_worker(is_playing, policy, tmp_path):
    with LocalPool(partial(SerialEnvs, partial(StartingEnv, tmp_path)), 2) as pool:
        pids = [int(pid) for file in tmp_path.iterdir() for pid in file.read_text().split()]
        started = [*map(psutil.Process, pids)]
        assert len(survivors(started, 0)) == 4
        if is_playing:
            pool.send(0, Command.LOAD_ACTOR, cloudpickle.dumps(policy))
            pool.send(0, Command.PLAY, [episode_spec(0, 0, RED_AGENTS)])
    assert not survivors(started, 30)


def test_a_message_too_large_for_a_stopped_worker_does_not_block_for_ever():
    with LocalPool(COUNTING, 1, timeout=1.0) as pool:
        workers_in(pool)[0].suspend()
        with pytest.raises(WorkerError, match="took no message for 1 s during 'load actor'"):
            pool.send(0, Command.LOAD_ACTOR, bytes(10_000_000))


def test_a_stop_is_noticed_while_waiting():
    with LocalPool(COUNTING, 1) as pool:
        pool.stop_signal = signal.SIGTERM
        with pytest.raises(StopRequested, match="SIGTERM"):
            pool.ready([0])


@pytest.mark.system
def test_ctrl_c_never_reaches_the_fork_server_nor_a_worker():
    """Not even before they can ignore it."""
    # After a fork server that was lost, multiprocessing may have started its own.
    multiprocessing.forkserver._forkserver._stop()  # type: ignore[attr-defined]
    with LocalPool(COUNTING, 1) as pool:
        (worker,) = workers_in(pool)
        for pid in (worker.pid, worker.ppid()):
            status = dict(
                line.split(":\t") for line in Path(f"/proc/{pid}/status").read_text().splitlines()
            )
            assert int(status["SigBlk"], 16) & 1 << signal.SIGINT - 1


@pytest.mark.parametrize(
    ("then", "timeout", "fixtures", "said"),
    [
        (lambda: time.sleep(60), 1.0, (), r"for 1 s, because .*, during 'reset'"),
        (
            *(lambda: os._exit(9), 60.0, ["exit_codes_are_known"]),
            r"ended during 'reset' \(exit code: 9\)",
        ),
    ],
    ids=["stops", "dies"],
)
def test_a_worker_that_goes_wrong_in_a_message_is_reported(then, timeout, fixtures, said, request):
    for name in fixtures:
        request.getfixturevalue(name)

    class HalfMessage:
        def reset(self, **options):
            frame = sys._getframe()
            while frame.f_code.co_name != "worker_main":
                frame = frame.f_back
            os.write(frame.f_locals["pipe"].fileno(), struct.pack("!i", 1000) + bytes(10))
            then()

    with LocalPool(partial(SerialEnvs, HalfMessage), 1, timeout=timeout) as pool:  # type: ignore[arg-type]
        (worker,) = workers_in(pool)
        # Frees a receive that would wait for ever, which is then told otherwise.
        rescue = threading.Timer(30, worker.kill)
        rescue.start()
        pool.send(0, *RESET)
        with pytest.raises(WorkerError, match=said):
            pool.receive(0)
        rescue.cancel()


def test_a_worker_that_cannot_be_forked_is_a_failed_worker(monkeypatch):
    def no_fork(process):
        raise EOFError

    with LocalPool(COUNTING, 1, max_failures=2) as pool:
        monkeypatch.setattr(local_pool._context.Process, "start", no_fork)
        with pytest.raises(TooManyFailuresError, match="worker-0 ended during 'start'"):
            pool.replace(0, LOST)


def test_a_second_that_passed_while_everything_stood_still_is_no_hang(monkeypatch):
    # Of how long the grace is nothing is said: it may take the worker seconds to get a core.
    monkeypatch.setattr(local_pool, "GRACE_SECONDS", 60.0)
    with LocalPool(COUNTING, 1, timeout=0.4) as pool:
        (worker,) = workers_in(pool)
        worker.suspend()
        pool.send(0, *RESET)
        time.sleep(0.6)
        worker.resume()
        assert len(pool.receive(0).result.obs) == 1


@pytest.fixture
def stopped_fork_server() -> Iterator[Callable[[], None]]:
    def stop() -> None:
        os.kill(multiprocessing.forkserver._forkserver._forkserver_pid, signal.SIGSTOP)  # type: ignore[attr-defined]

    yield stop
    local_pool.ensure_fork_server()
    os.kill(multiprocessing.forkserver._forkserver._forkserver_pid, signal.SIGCONT)  # type: ignore[attr-defined]


@pytest.mark.system
@pytest.mark.timeout(60)
def test_a_fork_server_that_is_stopped_is_replaced(stopped_fork_server, monkeypatch):
    with LocalPool(COUNTING, 1):
        pass  # The server has imported what it needs, which takes longer.
    monkeypatch.setattr(local_pool, "FORK_SECONDS", 0.5, raising=False)
    with LocalPool(COUNTING, 2) as pool:
        monkeypatch.setattr(local_pool, "FORK_SECONDS", 60.0, raising=False)
        monkeypatch.setattr(local_pool, "CLOSE_SECONDS", 0.2)
        stopped_fork_server()
        pool.replace(0, LOST)
        assert len(survivors(workers_in(pool), 0)) == 2


@pytest.mark.system
@pytest.mark.timeout(60)
def test_a_stop_is_noticed_while_the_fork_server_is_stopped(stopped_fork_server, monkeypatch):
    monkeypatch.setattr(local_pool, "CLOSE_SECONDS", 0.2)
    with LocalPool(COUNTING, 1) as pool:
        pool._workers[0].process.kill()
        pool._workers[0].process.join()
        stopped_fork_server()
        threading.Timer(0.3, setattr, [pool, "stop_signal", signal.SIGINT]).start()
        with pytest.raises(StopRequested):
            pool.replace(0, LOST)


PRELUDE = """
from functools import partial
import time
import numpy as np
import psutil
from tests.tiny_envs import CountingEnv, SleepyEnv
from workflow_rl.collection.local_pool import LocalPool
from workflow_rl.collection.messages import Command
from workflow_rl.environments.env_batch import SerialEnvs
from workflow_rl.environments.episode import episode_spec

RESET = (Command.RESET, ([0], [episode_spec(0, 0, ("B_lineAgent",))]))
STEP = (Command.STEP, ([0], np.array([0])))

def print_children():
    print(*[child.pid for child in psutil.Process().children(recursive=True)], flush=True)
"""


def run_script(code: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", PRELUDE + textwrap.dedent(code)]
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)


@pytest.mark.system
def test_a_fork_server_that_is_slow_to_start_is_waited_for():
    """As one that compiles what workers share."""
    main = run_script(
        """
        from workflow_rl.collection import local_pool

        local_pool.FORK_SECONDS = 1.5
        with LocalPool(partial(SerialEnvs, CountingEnv), 1, preload="tests.busy_preload") as pool:
            print(pool.failures)
        """
    )
    assert main.communicate()[0] == "0\n"


@pytest.mark.system
def test_nobody_is_late_while_this_process_was_stopped_with_its_workers():
    """As a job is that its scheduler suspends."""
    main = run_script(
        """
        class Working(CountingEnv):
            def step(self, action):
                for _ in range(80):
                    time.sleep(0.01)
                return super().step(action)

        with LocalPool(partial(SerialEnvs, Working), 2, 1, timeout=1.5) as pool:
            for index in range(2):
                pool.send(index, *RESET)
                pool.receive(index)
                pool.send(index, *STEP)
            print_children()
            print([len(pool.receive(index).result.obs) for index in range(2)], flush=True)
        """
    )
    pids = [main.pid, *map(int, main.stdout.readline().split())]
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    time.sleep(2)
    for pid in pids:
        os.kill(pid, signal.SIGCONT)
    assert main.stdout.read() == "[1, 1]\n"
    assert main.wait(30) == 0


class Forking(CountingEnv):
    """Forks in the middle of a step, and comes back twice."""

    def step(self, action: Any) -> Any:
        os.fork()
        return super().step(action)


def test_what_an_environment_forks_answers_nothing():
    with LocalPool(partial(SerialEnvs, Forking), 1) as pool:
        pool.send(0, *RESET)
        counted = [pool.receive(0).result.obs]
        for _ in range(3):
            pool.send(0, *STEP)
            counted.append(pool.receive(0).result.obs)
        assert [int("".join(map(str, row[0][:8])), 2) for row in counted] == [0, 1, 2, 3]


JUNK = [b"no pickle", pickle.dumps(7), pickle.dumps(Reply(None)), pickle.dumps((Reply(None), b""))]


@pytest.mark.parametrize("junk", JUNK, ids=["bytes", "number", "reply", "trace"])
def test_junk_in_the_pipe_is_a_failure_of_the_worker(junk):
    class Writing(CountingEnv):
        def reset(self, **options: Any) -> Any:
            for fd in range(3, 50):
                with suppress(OSError):
                    if os.readlink(f"/proc/self/fd/{fd}").startswith("socket"):
                        os.write(fd, struct.pack("!i", len(junk)) + junk)
            return super().reset(**options)

    with LocalPool(partial(SerialEnvs, Writing), 1) as pool:
        pool.send(0, *RESET)
        with pytest.raises(WorkerError, match="worker-0 sent what"):
            pool.receive(0)


@pytest.mark.system
def test_pools_started_in_threads_leave_the_process_as_it_was(monkeypatch):
    ensure_running = multiprocessing.forkserver.ensure_running

    def slowly() -> None:
        ensure_running()
        time.sleep(0.01)

    monkeypatch.setattr(multiprocessing.forkserver, "ensure_running", slowly)
    # In threads some are missing and some are set; that of `python -m` has a spec.
    monkeypatch.delenv("PYTHONSAFEPATH", raising=False)
    monkeypatch.setenv("OMP_NUM_THREADS", "7")
    monkeypatch.setattr(sys.modules["__main__"], "__spec__", spec_from_loader("main", None))
    before = dict(os.environ), dict(vars(sys.modules["__main__"]))
    failed: list[BaseException] = []

    def start() -> None:
        try:
            with LocalPool(COUNTING, 2):
                pass
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=start) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed
    assert (dict(os.environ), dict(vars(sys.modules["__main__"]))) == before


@pytest.mark.system
def test_a_small_pool_takes_no_open_files_from_a_large_one(monkeypatch):
    limits = [64, 10_000]

    def slowly(number: int) -> tuple[int, ...]:
        soft = limits[0]
        time.sleep(0.05 if threading.current_thread().name == "small" else 0)
        return soft, limits[1]

    monkeypatch.setattr(resource, "getrlimit", slowly)
    monkeypatch.setattr(resource, "setrlimit", lambda number, both: limits.__setitem__(0, both[0]))
    small, large = (
        threading.Thread(target=LocalPool(COUNTING, n_workers)._prepare, name=name)
        for name, n_workers in (("small", 2), ("large", 200))
    )
    small.start()
    time.sleep(0.01)
    large.start()
    small.join()
    large.join()
    assert limits[0] == 64 + 8 * 200


@pytest.mark.system
@pytest.mark.parametrize(
    ("sent", "requests"),
    [(signal.SIGTERM, "()"), (signal.SIGKILL, "(RESET, STEP)")],
    ids=["idle", "in a step"],
)
def test_nothing_survives_the_main_process(sent, requests):
    main = run_script(
        f"""
        with LocalPool(partial(SerialEnvs, partial(SleepyEnv, 1000.0)), 3) as pool:
            for index in range(3):
                for request in {requests}:
                    pool.send(index, *request)
            print_children()
            time.sleep(60)
        """
    )
    workers = [psutil.Process(int(pid)) for pid in main.stdout.readline().split()]
    assert len(workers) >= 3
    main.send_signal(sent)
    main.wait(30)
    assert not survivors(workers, 30)


@pytest.mark.system
def test_workers_import_no_torch_and_share_their_memory():
    main = run_script(
        """
        import torch  # the main process has it, and so has its script
        from workflow_rl.cage2.env.cage2_env import Cage2Env

        preload = "workflow_rl.cage2.cyborg.preload"
        make_env = partial(Cage2Env, simulator="cyborg")
        with LocalPool(partial(SerialEnvs, make_env), 4, preload=preload) as pool:
            for worker in pool._workers:
                process = psutil.Process(worker.process.pid)
                maps = {part.path for part in process.memory_maps()}
                torch_maps = [path for path in maps if "torch" in path]
                print(process.memory_full_info().pss // 2**20, len(torch_maps))
        """
    )
    output, _ = main.communicate(timeout=60)
    lines = [line.split() for line in output.splitlines()]
    assert len(lines) == 4
    for megabytes, torch_maps in lines:
        assert torch_maps == "0"
        assert int(megabytes) < 30


def test_slow_workers_are_so_much_slower():
    make_env = partial(CountingEnv, min_length=12)
    with LocalPool(partial(SerialEnvs, make_env), 2, step_delays=[0.1]) as pool:
        fastest = []
        for worker, n_steps in enumerate((3, 12)):
            pool.send(worker, *RESET)
            pool.receive(worker)
            seconds = []
            for _ in range(n_steps):
                pool.send(worker, *STEP)
                seconds.append(pool.receive(worker).busy_seconds)
            # Without the steps in which it was kept from a core.
            fastest.append(min(seconds))
    assert 0.1 <= fastest[0] < 0.2
    assert fastest[1] < 0.1


SPEC = episode_spec(3, 7, RED_AGENTS)


def failure_in(method: Any, *arguments: Any) -> Failure:
    try:
        method(*arguments)
    except Exception as error:
        return failure_of(Command.PLAY, error)
    raise AssertionError("nothing was raised")


def test_of_an_episode_s_exception_the_user_s_frames_are_shown():
    envs = SerialEnvs(lambda: RaisingEnv(frozenset([SPEC.env_seed]), "reset"), 1)
    failure = failure_in(envs.reset, [0], [SPEC])
    assert failure.spec == SPEC
    assert failure.summary.startswith(f"ArithmeticError: no episode of seed {SPEC.env_seed}")
    assert "tiny_envs.py, line " in failure.summary
    assert "env_batch.py" not in failure.traceback
    assert failure.traceback.rstrip().splitlines()[-1].startswith("ArithmeticError")


def test_where_a_library_raised_the_user_s_line_that_called_it_is_named():
    failure = failure_in(json.loads, "{")
    assert failure.spec is None
    assert failure.summary.startswith("JSONDecodeError: ")
    assert "test_local_pool.py, line " in failure.summary
    assert "decoder.py" in failure.traceback


@pytest.mark.parametrize(
    ("cause", "field", "told"),
    [
        (ValueError("one\ntwo"), "summary", "ValueError: one"),
        (ObservationError("obs is too large"), "final", "in episode 7 obs is too large"),
    ],
    ids=["of several lines, without a traceback", "an observation outside its space"],
)
def test_what_an_episodes_error_says(cause, field, told):
    error = EpisodeError(SPEC)
    error.__cause__ = cause
    assert getattr(failure_of(Command.PLAY, error), field) == told


def test_an_overlong_exception_is_cut():
    failure = failure_of(Command.PLAY, ValueError("x" * 10_000_000))
    assert failure.summary.startswith("ValueError: xxx")
    assert len(failure.summary) < 1_000
    assert len(failure.traceback) < 100_000
