"""Workers behind pipes: processes of this machine."""

from __future__ import annotations

import multiprocessing
import multiprocessing.forkserver
import multiprocessing.resource_tracker
import os
import pickle
import resource
import signal
import socket
import struct
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

import cloudpickle

from workflow_rl.collection.failures import POLL_SECONDS, WorkerError
from workflow_rl.collection.pool import CLOSE_SECONDS, Pool, PooledWorker
from workflow_rl.collection.trace import Trace
from workflow_rl.collection.worker import Command, Request, worker_main
from workflow_rl.environments.env_batch import EnvBatchFactory

GRACE_SECONDS = 0.5
LOST = 255  # What multiprocessing gives as the exit code of a process whose fork server is gone.

_context = multiprocessing.get_context("forkserver")

_process_state = threading.Lock()
"""Held by whoever changes what the whole process has, such as its environment's variables: pools
may be started in several threads at once."""


class _WorkerProcess(PooledWorker):
    """One worker: its process and its pipe."""

    def __init__(
        self,
        index: int,
        make_envs: bytes,
        n_envs: int,
        step_delay: float,
        timeout: float,
        trace: Trace,
    ) -> None:
        self.pipe, child_pipe = _context.Pipe()
        _limit_blocking(self.pipe, timeout)
        super().__init__(index, timeout, trace)
        self.process = _context.Process(
            target=worker_main,
            args=(child_pipe, make_envs, n_envs, step_delay, trace.is_on),
            name=self.name,
            daemon=True,
        )
        self.fork_error: Exception | None = None
        try:
            with _main_module_hidden():
                self.process.start()
        except (EOFError, OSError) as error:
            self.fork_error = error  # `receive` finds the pipe closed.
        self.heard_at = time.monotonic()
        # With our copy of the child's end closed, a worker's death reads as the end of the file.
        child_pipe.close()

    def poll(self, seconds: float) -> bool:
        """Waits so long for an answer, or its failure to give one. Whether there is one."""
        return self.pipe.poll(seconds)

    def _send(self, request: Request) -> None:
        try:
            self.pipe.send(request)
        except BlockingIOError:
            raise self._error(f"took no message for {self.timeout:g} s") from None
        except OSError:
            # It may have said why before it ended.
            self.receive()
            raise self._error("ended") from None

    def _receive(self) -> Any:
        try:
            # The grace is for a run that was itself stopped, and its workers with it.
            if self.overdue and not self.pipe.poll(GRACE_SECONDS):
                raise BlockingIOError  # As the pipe itself does half-way through a message.
            return self.pipe.recv()
        except BlockingIOError:
            raise self._error(f"gave no complete answer for {self.timeout:g} s") from None
        except (EOFError, OSError):
            raise self._error("ended") from self.fork_error

    def _error(self, reason: str) -> WorkerError:
        # A pipe can close a moment before its process can be waited for.
        if self.fork_error is None:
            self.process.join(0.5 if reason in ("ended", "raised an exception") else 0)
        return WorkerError(self.name, self.command, self.process.exitcode, reason)

    def take_last_marks(self) -> None:
        """What a worker that has ended left in the pipe goes into the trace."""
        with suppress(EOFError, OSError):
            while self.pipe.poll():
                self.trace.take_marks(self.name, self.pipe.recv())

    def kill(self) -> None:
        """End it, whatever it does."""
        self.pipe.close()
        if self.process.pid is None:
            return  # It could not be forked.
        if self.process.exitcode in (None, LOST):
            with suppress(ProcessLookupError):
                os.kill(self.process.pid, signal.SIGKILL)
        self.process.join(CLOSE_SECONDS)


class LocalPool(Pool[_WorkerProcess]):
    """Workers behind pipes: processes of this machine. A context manager.

    make_envs: called in each worker (sent by cloudpickle) with `envs_per_worker`.
    preload: module that the process imports that workers are forked from; of a main process's first
    pool only. It saves memory and time, and changes nothing else.
    timeout, max_failures, step_delays, trace: see `Pool`.
    """

    def __init__(
        self,
        make_envs: EnvBatchFactory,
        n_workers: int,
        envs_per_worker: int = 1,
        timeout: float = 60.0,
        max_failures: int = 10,
        preload: str = "workflow_rl.collection.worker_preload",
        step_delays: Sequence[float] = (),
        trace: Trace | None = None,
    ) -> None:
        super().__init__(n_workers, envs_per_worker, timeout, max_failures, step_delays, trace)
        self.preload = preload
        self._make_envs = cloudpickle.dumps(make_envs)

    def _prepare(self) -> None:
        _allow_open_files(64 + 8 * self.n_workers)

    def _start(self, index: int) -> _WorkerProcess:
        ensure_fork_server(self.preload)
        return _WorkerProcess(
            index,
            self._make_envs,
            self.envs_per_worker,
            self.step_delays[index],
            self.timeout,
            self.trace,
        )

    def _heard(self, indices: Sequence[int]) -> set[int]:
        pipes = {self._workers[index].pipe: index for index in indices}
        return {pipes[pipe] for pipe in wait(list(pipes), POLL_SECONDS)}  # type: ignore[index]

    def close(self) -> None:
        """End all workers, at the latest after a few seconds. May be called again."""
        workers, self._workers = self._workers, []
        for worker in workers:
            # An idle worker reads this; one in an episode is killed below.
            with suppress(OSError):
                os.set_blocking(worker.pipe.fileno(), False)
                worker.pipe.send_bytes(pickle.dumps(Request(Command.CLOSE)))
        deadline = time.monotonic() + CLOSE_SECONDS / 4
        for worker in workers:
            if worker.fork_error is None:
                worker.process.join(max(0.0, deadline - time.monotonic()))
        for worker in workers:
            if self.trace.is_on:
                worker.take_last_marks()
            worker.kill()


def _allow_open_files(number: int) -> None:
    """Raises the soft limit of open files, if it is lower, as far as the hard one allows."""
    with _process_state:
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        if soft != resource.RLIM_INFINITY and soft < number:
            limit = number if hard == resource.RLIM_INFINITY else min(number, hard)
            resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))


def _limit_blocking(pipe: Connection, seconds: float) -> None:
    """Makes reads and writes that block for longer fail with BlockingIOError.

    Polling before a read is not enough: a worker can stop in the middle of a message.
    """
    limit = struct.pack("@ll", int(seconds), int(seconds % 1 * 1_000_000))
    with socket.socket(fileno=os.dup(pipe.fileno())) as side:
        side.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, limit)
        side.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, limit)


@contextmanager
def _main_module_hidden() -> Iterator[None]:
    """Keeps multiprocessing from importing the caller's script again in every worker.

    Workers need nothing of it (cloudpickle sends what a factory refers to), and it may import
    torch, which costs each of them 200 MB and seconds.
    """
    main = sys.modules["__main__"]
    with _process_state:
        hidden: dict[str, Any] = {
            name: main.__dict__.pop(name) for name in ("__file__", "__spec__") if name in vars(main)
        }
        main.__spec__ = None
        try:
            yield
        finally:
            main.__dict__.update(hidden)


def ensure_fork_server(preload: str) -> None:
    """Starts the process all workers are forked from, which imports `preload`. Does not wait.

    A fork takes milliseconds and shares its memory; a hundred fresh interpreters would take a
    minute and 6 GB. One thread a worker: they are as many as the cores.
    """
    with _process_state, _workers_variables():
        multiprocessing.forkserver.set_forkserver_preload([preload])
        multiprocessing.resource_tracker.ensure_running()  # It would unblock what is blocked now.
        # Ctrl-C in a terminal reaches it too, and whatever it forks, before they can ignore it.
        blocked = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            multiprocessing.forkserver.ensure_running()
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, blocked)


@contextmanager
def _workers_variables() -> Iterator[None]:
    """What is started in here inherits the variables of workers."""
    package_root = str(Path(__file__).resolve().parents[2])
    search_path = os.pathsep.join(filter(None, [package_root, os.environ.get("PYTHONPATH")]))
    environment = {
        "PYTHONPATH": search_path,
        "PYTHONSAFEPATH": "1",  # Another checkout may be the working directory.
        "OPENBLAS_NUM_THREADS": "1",
        "OMP_NUM_THREADS": "1",
        "MKL_NUM_THREADS": "1",
    }
    before = {name: os.environ.get(name) for name in environment}
    os.environ.update(environment)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
