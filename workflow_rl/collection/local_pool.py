"""Workers that are processes of this machine. Pipes connect them to the pool."""

from __future__ import annotations

import errno
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
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

from workflow_rl.collection.messages import Command, Failure, Numbered, Request, WorkerError
from workflow_rl.collection.pool import (
    CLOSE_SECONDS,
    POLL_SECONDS,
    Pool,
    WorkerConnection,
    worker_variables,
)
from workflow_rl.collection.worker_process import require_no_worker, worker_main
from workflow_rl.errors import UserError
from workflow_rl.life import Life, cpu_seconds

GRACE_SECONDS = 0.5
SPARE_FILES = 8
MOST_OF_TMPDIR = 70
"""The longest TMPDIR. On Linux, a socket's path has at most 107 bytes. multiprocessing needs 32."""
FORK_SECONDS = 60.0
"""How long the fork server may use no processor before it has forked a worker. It may have to start
first, and to compile code that workers share."""
FORK_SERVER_LOST = 255  # multiprocessing's exit code of a process whose fork server is gone.
PRELOAD = "workflow_rl.collection.worker_preload"
SAFE_PATH = {"PYTHONSAFEPATH": "1"}
"""Variables of a process that imports nothing from the current folder, which may contain a
stranger's modules, or another checkout of this package."""

_context = multiprocessing.get_context("forkserver")
_fork_server: Any = vars(multiprocessing.forkserver)["_forkserver"]

# A forked process inherits this record of a fork server that is not its own, so it clears it.
os.register_at_fork(after_in_child=lambda: _fork_server.__init__())

# Held while state of the whole process changes, because several threads may start pools.
_process_state = threading.Lock()


class PipeConnection(WorkerConnection):
    """The pool's side of one worker: the worker's process and pipe."""

    def __init__(self, index: int, pool: LocalPool) -> None:
        self.pipe, child_pipe = _context.Pipe()
        _limit_blocking(self.pipe, pool.timeout)
        super().__init__(index, pool)
        self._life: Any = _context.RawValue(Life)
        self._cpu_seconds = 0.0
        self.process = _context.Process(
            target=worker_main,
            args=(
                *(child_pipe, self._life, pool.pickled_make_envs, pool.envs_per_worker),
                *(pool.step_delay(index), pool.trace.is_on),
                {**os.environ, **worker_variables(), **SAFE_PATH},
            ),
            name=self.name,
            daemon=True,
        )
        self.fork_error: Exception | None = None
        self._n_sent = self._n_received = 0
        try:
            with _main_module_hidden(), _children_allowed(), _fork_server_watched(pool):
                self.process.start()
        except (EOFError, OSError) as error:
            self.fork_error = error  # `receive` finds the pipe closed.
        self.heard_at = time.monotonic()
        # An open copy of the worker's end in this process would hide the worker's death.
        child_pipe.close()

    def listen(self) -> None:
        self.heard_at = max(self.heard_at, self._life.at)
        if self._life.compiling:
            before, self._cpu_seconds = self._cpu_seconds, cpu_seconds(self.process.pid)
            if self._cpu_seconds > before:
                self.heard_at = time.monotonic()

    def _send(self, request: Request) -> None:
        try:
            self._n_sent += 1
            self.pipe.send(request)
        except BlockingIOError:
            raise self._error(f"took no message for {self.timeout:g} s") from None
        except OSError:
            self.receive()  # Raises the worker's failure, if the worker sent one before its end.
            raise self._error("ended") from None

    def _receive(self) -> Any:
        try:
            # If the whole run was suspended for a while, its workers need a moment.
            if self.overdue and not self.pipe.poll(GRACE_SECONDS):
                raise self._late()
            numbered = self.pipe.recv()
        except BlockingIOError:
            raise self._late() from None
        except (EOFError, OSError):
            raise self._error("ended") from self.fork_error
        except WorkerError:
            raise
        except Exception as error:  # An environment may have written anything into the pipe.
            raise self._error(f"sent what is no message ({type(error).__name__})") from None
        self._n_received += 1
        if type(numbered) is not Numbered or numbered.nth != self._n_received:
            raise self._error("sent what answers no request")
        answer = self.trace.take_marks(self.name, numbered.message)
        # A request without a reply fails only after the next request was sent.
        if numbered.request != self._n_sent and not isinstance(answer, Failure):
            raise self._error("answered another request")
        return answer

    def _error(self, reason: str) -> WorkerError:
        # A pipe can close a moment before its process has an exit code.
        if self.fork_error is None:
            self.process.join(0.5 if reason.startswith(("ended", "raised")) else 0)
        return WorkerError(self.name, self.command, self.process.exitcode, reason)

    def close(self) -> bool:
        with suppress(OSError):
            os.set_blocking(self.pipe.fileno(), False)
            self.pipe.send_bytes(pickle.dumps(Request(Command.CLOSE)))
        return self.fork_error is None

    def take_last_marks(self, deadline: float) -> None:
        self.process.join(max(0.0, deadline - time.monotonic()))
        with suppress(Exception):
            while self.trace.is_on and self.pipe.poll():
                self.trace.take_marks(self.name, self.pipe.recv().message)

    def kill(self) -> None:
        self.pipe.close()
        if self.process.pid is None:
            return  # The process could not be forked.
        if self.process.exitcode in (None, FORK_SERVER_LOST):
            with suppress(ProcessLookupError):
                os.kill(self.process.pid, signal.SIGKILL)
        with suppress(ProcessLookupError, PermissionError):  # Processes that its envs started.
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.join(CLOSE_SECONDS)
        if self.process.exitcode is None:  # The fork server does not report the end.
            _end_fork_server()
            self.process.join(CLOSE_SECONDS)
        _end_orphans()


@dataclass(eq=False)
class LocalPool(Pool[PipeConnection]):
    """A pool of processes of this machine, forked from one fork server.

    preload: a further module that the fork server imports, which saves memory and time. Only the
        first pool of a main process can choose the module.
    """

    preload: str = ""

    def _prepare(self) -> None:
        # The workers' pipes need files, as far as the hard limit allows.
        number = 64 + 8 * self.n_workers
        with _process_state:
            soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
            if soft != resource.RLIM_INFINITY and soft < number:
                limit = number if hard == resource.RLIM_INFINITY else min(number, hard)
                resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))

    def _start(self, index: int) -> PipeConnection:
        try:
            ensure_fork_server(self.preload)
            _require_spare_files()
            return PipeConnection(index, self)
        except OSError as error:
            if error.errno != errno.EMFILE:
                raise
            raise UserError(
                f"{self.n_workers} workers need more open files than `ulimit -n` allows: give a "
                "smaller --n-workers, or raise the limit"
            ) from None

    def _heard(self, indices: Sequence[int]) -> set[int]:
        pipes = {self._workers[index].pipe: index for index in indices}
        return {pipes[pipe] for pipe in wait(list(pipes), POLL_SECONDS)}  # type: ignore[index]


def _require_spare_files() -> None:
    """Raise OSError if a start would lack open files, because the fork server would fail in it."""
    spare: list[int] = []
    try:
        spare += (os.open(os.devnull, os.O_RDONLY) for _ in range(SPARE_FILES))
    finally:
        for file in spare:
            os.close(file)


def _limit_blocking(pipe: Connection, seconds: float) -> None:
    """Make reads and writes that block for longer raise BlockingIOError.

    To poll before a read is not enough, because a worker can stop in the middle of a message.
    """
    limit = struct.pack("@ll", int(seconds), int(seconds % 1 * 1_000_000))
    with socket.socket(fileno=os.dup(pipe.fileno())) as side:
        side.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, limit)
        side.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, limit)


def _end_orphans() -> None:
    """End processes that environments of ended workers started, also in other process groups.

    The fork server is the parent of these processes: see `worker_preload`.
    """
    with _process_state, suppress(OSError):  # Not every system lists children.
        server = _fork_server._forkserver_pid
        children = Path(f"/proc/{server}/task/{server}/children")
        known = {process.pid for process in multiprocessing.active_children()}
        ended: set[int] = set()
        # When an orphan ends, its children become orphans.
        while orphans := set(map(int, children.read_text().split())) - known - ended:
            for pid in orphans:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            ended |= orphans


@contextmanager
def _main_module_hidden() -> Iterator[None]:
    """Keep multiprocessing from importing the user's script again in every worker.

    Workers do not need the script, because cloudpickle sends what a factory refers to. The script
    may import torch, which costs each worker 200 MB and seconds.
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


@contextmanager
def _children_allowed() -> Iterator[None]:
    """Let a process of a multiprocessing.Pool start workers, which end when that process ends."""
    process = multiprocessing.current_process()
    before, process.daemon = process.daemon, False
    try:
        yield
    finally:
        process.daemon = before


def ensure_fork_server(preload: str = "") -> None:
    """Start the fork server, which imports `preload`. Does not wait.

    A fork takes milliseconds and shares memory. A hundred fresh interpreters would take a minute
    and 6 GB.

    Raises RuntimeError in a worker.
    """
    require_no_worker("workers cannot be started")
    if len(os.fsencode(tempfile.gettempdir())) > MOST_OF_TMPDIR:
        raise UserError(
            f"TMPDIR={tempfile.gettempdir()} is too long for sockets, which workers need: give a "
            f"folder of at most {MOST_OF_TMPDIR} characters"
        )
    with variables_set({**worker_variables(), **SAFE_PATH}):
        multiprocessing.forkserver.set_forkserver_preload([*filter(None, [preload]), PRELOAD])
        # A tracker that starts later would unblock the signal that is blocked below.
        multiprocessing.resource_tracker.ensure_running()
        # Ctrl-C in a terminal also reaches the fork server and its children, which inherit a block.
        blocked = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            multiprocessing.forkserver.ensure_running()
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, blocked)


@contextmanager
def _fork_server_watched(pool: LocalPool) -> Iterator[None]:
    """End a fork server that neither answers nor works, so that this process stops waiting."""
    has_answered = threading.Event()

    def watch() -> None:
        patience = FORK_SECONDS  # Polls are counted, because this process may be suspended, too.
        used = 0.0
        while not has_answered.wait(POLL_SECONDS):
            before, used = used, cpu_seconds(_fork_server._forkserver_pid)
            if pool.is_ending:
                patience = min(patience, CLOSE_SECONDS)
            elif used > before:
                patience = FORK_SECONDS
            patience -= POLL_SECONDS
            if patience < 0:
                _end_fork_server()
                return

    threading.Thread(target=watch, name="watch fork server", daemon=True).start()
    try:
        yield
    finally:
        has_answered.set()


def _end_fork_server() -> None:
    """Kill the fork server, even if it is suspended. The next worker gets a new fork server."""
    if (pid := _fork_server._forkserver_pid) is not None:
        with suppress(ProcessLookupError, ChildProcessError):
            os.kill(pid, signal.SIGKILL)
            os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)


@contextmanager
def variables_set(variables: Mapping[str, str]) -> Iterator[None]:
    """Let processes that are started in this context inherit these environment variables. Only one
    thread at a time can be in this context."""
    with _process_state:
        before = {name: os.environ.get(name) for name in variables}
        os.environ.update(variables)
        try:
            yield
        finally:
            for name, value in before.items():
                if value is None:
                    os.environ.pop(name, None)
                else:
                    os.environ[name] = value
