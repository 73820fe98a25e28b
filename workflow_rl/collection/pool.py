"""The common part of all pools of workers: deadlines, failures, restarts and the end."""

from __future__ import annotations

import logging
import os
import re
import signal
import time
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import CancelledError
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, Self, TypeAlias, TypeVar

import cloudpickle

from workflow_rl.collection.messages import (
    Command,
    Failure,
    Fault,
    Reply,
    Request,
    StopRequested,
    TooManyFailuresError,
    WorkerError,
)
from workflow_rl.collection.trace import Trace
from workflow_rl.environments.episode import EpisodeSpec

if TYPE_CHECKING:
    from workflow_rl.environments.env_batch import EnvBatchFactory

CLOSE_SECONDS = 2.0
POLL_SECONDS = 0.2
"""The longest time for which a waiting thread does not check whether it must stop."""
PAUSE_SECONDS = 1.0
"""If more time than this is between two polls of the workers, this process was suspended, and its
workers may have been suspended, too. A longer pause counts as one poll."""
MAX_RAISES = 3
"""An episode is left out after it has raised the same exception this many times."""

_log = logging.getLogger(__name__)


class WorkerConnection(ABC):
    """The pool's side of one worker. command: the last command. asked_at: the time of the last
    request or answer. heard_at: the time of the worker's last sign of life."""

    def __init__(self, index: int, pool: AnyPool) -> None:
        self.name = f"worker-{index}"
        self._pool = pool
        self.timeout = pool.timeout
        self.trace = pool.trace
        self.command = Command.START
        self.asked_at = self.heard_at = time.monotonic()

    @property
    def overdue(self) -> bool:
        if (now := time.monotonic()) <= self.heard_at + self.timeout:
            return False
        self.listen()
        is_silent = now > self.heard_at + self.timeout
        if not is_silent and not self._pool.is_slow:
            self._pool.is_slow = True
            _log.warning(
                "%s is slow: '%s' has taken %.0f s. It gives signs of life, so it is waited for. "
                "If it plays an episode, that episode may never end",
                *(self.name, self.command.value, now - self.asked_at),
            )
        return is_silent

    @abstractmethod
    def listen(self) -> None:
        """Update `heard_at` by the worker's signs of life."""

    def send(self, request: Request) -> None:
        """Send a request. Raises WorkerError if the worker ended or does not take it in time."""
        self.command = request.command
        self.asked_at = self.heard_at = time.monotonic()
        self._send(request)

    def receive(self) -> Reply:
        """Return the next answer.

        Raises WorkerError after `timeout` seconds of silence, TooManyFailuresError for a final
        failure.
        """
        answer = self._receive()
        self.asked_at = self.heard_at = time.monotonic()
        if isinstance(answer, Reply):
            return answer
        assert isinstance(answer, Failure)
        self.command = answer.command
        if answer.final is not None:
            raise TooManyFailuresError(answer.final)
        spec = answer.spec
        in_episode = "" if spec is None else f" in episode {spec.number}"
        error = self._error(f"raised {answer.summary}{in_episode}")
        if spec is not None:
            error.fault = Fault(spec, _without_addresses(answer.summary))
        raise error from RuntimeError(f"\n{answer.traceback}")

    @abstractmethod
    def close(self) -> bool:
        """Ask a started worker to end. Return whether the worker was asked."""

    @abstractmethod
    def take_last_marks(self, deadline: float) -> None:
        """Wait for the worker's end, until the deadline, and move its last marks to the trace."""

    @abstractmethod
    def kill(self) -> None:
        """End the worker, whatever it is doing."""

    @abstractmethod
    def _send(self, request: Request) -> None: ...

    @abstractmethod
    def _receive(self) -> Reply | Failure: ...

    @abstractmethod
    def _error(self, reason: str) -> WorkerError: ...

    def _late(self) -> WorkerError:
        why = "because one of its calls hangs or needs a longer --worker-timeout,"
        return self._error(f"gave no sign of life for {self.timeout:g} s, {why}")


Connection = TypeVar("Connection", bound=WorkerConnection)


@dataclass(eq=False)
class Pool(ABC, Generic[Connection]):
    """`n_workers` workers with `envs_per_worker` envs each, numbered from 0. A context manager.

    The start of the context starts the workers. A worker that fails is replaced.

    make_envs: called in each worker with `envs_per_worker`; cloudpickle sends this function.
    timeout: seconds for which a worker that was asked may be silent. A worker gives signs of life
        between its envs' steps, so an answer may take longer.
    max_failures: how many workers may fail before TooManyFailuresError. Equal faults count once.
    step_delays: seconds that are added to every step of the first workers, to simulate slowness.
    trace: the record of the activities of the pool, its workers and its collector.

    failures: how many workers have failed. faults: how often each fault has occurred. is_slow:
    whether a worker was slower than the timeout.
    stop_signal: a signal's number. If it is set, all waiting calls raise StopRequested.
    """

    make_envs: EnvBatchFactory
    n_workers: int
    envs_per_worker: int = 1
    timeout: float = 60.0
    max_failures: int = 10
    step_delays: Sequence[float] = ()
    trace: Trace = field(default_factory=Trace)

    def __post_init__(self) -> None:
        self.pickled_make_envs = cloudpickle.dumps(self.make_envs)
        self.failures = 0
        self.is_slow = False
        self.faults: Counter[Fault] = Counter()
        self.stop_signal: int | None = None
        self._cancelled = False
        self._shown: set[str] = set()
        self._workers: list[Connection] = []
        self._looked_at = time.monotonic()

    def step_delay(self, index: int) -> float:
        return self.step_delays[index] if index < len(self.step_delays) else 0.0

    def __enter__(self) -> Self:
        try:
            self._prepare()
            for index in range(self.n_workers):
                self._workers.append(self._start(index))
            for index in range(self.n_workers):
                try:
                    self.receive(index)
                except WorkerError as error:
                    self.replace(index, error)
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    @abstractmethod
    def _prepare(self) -> None:
        """Prepare for the first worker."""

    @abstractmethod
    def _start(self, index: int) -> Connection:
        """Start a worker, which answers after it has made its envs."""

    @abstractmethod
    def _heard(self, indices: Sequence[int]) -> set[int]:
        """Wait up to POLL_SECONDS. Return the workers whose answers or ends have arrived."""

    def close(self) -> None:
        """End all workers within a few seconds. May be called again."""
        workers, self._workers = self._workers, []
        # An idle worker ends when asked. A worker in an episode is killed below.
        asked = [worker for worker in workers if worker.close()]
        deadline = time.monotonic() + CLOSE_SECONDS / 4
        for worker in asked:
            worker.take_last_marks(deadline)
        for worker in workers:
            worker.kill()

    def send(self, index: int, command: Command, payload: Any = None) -> None:
        """Send a command to one worker. Raises WorkerError."""
        self._workers[index].send(Request(command, payload))

    def receive(self, index: int) -> Reply:
        """Return one worker's next answer. Raises WorkerError, StopRequested,
        TooManyFailuresError."""
        while not self.ready([index]):
            pass
        return self._workers[index].receive()

    def ready(self, indices: Sequence[int]) -> list[int]:
        """Wait up to POLL_SECONDS. Return the workers for which `receive` does not wait. Raises
        StopRequested."""
        heard = self._heard(indices)
        self.raise_if_stopped()
        now = time.monotonic()
        pause, self._looked_at = now - self._looked_at, now
        for worker in self._workers if pause > PAUSE_SECONDS else ():
            worker.listen()
            worker.heard_at = min(now, worker.heard_at + pause - POLL_SECONDS)
        return [index for index in indices if index in heard or self._workers[index].overdue]

    def allow(self, seconds: float) -> None:
        self.timeout = seconds
        for worker in self._workers:
            worker.timeout = seconds

    def cancel(self) -> None:
        """Make every call that waits for a worker, in any thread, raise CancelledError."""
        self._cancelled = True

    @property
    def is_ending(self) -> bool:
        """Whether waiting calls raise an error, because the run ends."""
        return self._cancelled or self.stop_signal is not None

    def raise_if_stopped(self) -> None:
        """Raise StopRequested if `stop_signal` is set, CancelledError after `cancel`."""
        if self._cancelled:
            raise CancelledError
        if self.stop_signal is not None:
            raise StopRequested(self.stop_signal)

    def replace(self, index: int, error: WorkerError) -> None:
        """Replace a worker that failed with this error. Raises TooManyFailuresError,
        StopRequested."""
        if error.exitcode == -signal.SIGTERM:
            time.sleep(POLL_SECONDS)  # A scheduler may have ended the whole run.
            self.raise_if_stopped()
        while True:
            self._count(error)
            self._workers[index].kill()
            self._workers[index] = self._start(index)
            try:
                self._wait_for_new(index)
                return
            except WorkerError as start_error:
                error = start_error

    def _wait_for_new(self, index: int) -> None:
        self.receive(index)

    def _count(self, error: WorkerError) -> None:
        """Count a failure and log it. Equal faults are logged only once."""
        self.failures += 1
        if error.fault is not None:
            self.faults[error.fault] += 1
        counted = self.failures - self.faults.total() + len(self.faults)
        if error.fault is None or self.faults[error.fault] == 1:
            then = "" if counted > self.max_failures else "; it is replaced and plays again"
            cause = "" if error.__cause__ is None else str(error.__cause__).rstrip()
            # Many episodes may raise the same exception.
            is_known = _without_addresses(cause) in self._shown
            self._shown.add(_without_addresses(cause))
            _log.warning("%s%s%s", error, then, "" if is_known else cause)
        if counted > self.max_failures:
            raise TooManyFailuresError(
                f"{counted} workers failed, and at most {self.max_failures} may "
                f"(--max-worker-failures). The last failure: {error}",
                is_of_episodes=error.fault is not None,
            ) from error

    def unplayable_episode(self, error: WorkerError) -> EpisodeSpec | None:
        """Return the episode that is unplayable by this error of a replaced worker, or None.

        None: the episode is played again, or the error did not come from an episode.
        """
        fault = error.fault
        if fault is None or self.faults[fault] < MAX_RAISES:
            return None
        _log.warning(
            "episode %d is left out: it raised the same exception %d times: %s",
            *(fault.spec.number, MAX_RAISES, fault.what),
        )
        return fault.spec


AnyPool: TypeAlias = Pool[Any]


def worker_variables() -> dict[str, str]:
    """Return the environment variables of every worker: one thread, and this package's path."""
    package_root = str(Path(__file__).resolve().parents[2])
    return {
        # A worker has one core, so its libraries must not start a thread for each core.
        "OPENBLAS_NUM_THREADS": "1",
        "OMP_NUM_THREADS": "1",
        "MKL_NUM_THREADS": "1",
        "PYTHONPATH": os.pathsep.join(filter(None, [package_root, os.environ.get("PYTHONPATH")])),
    }


def _without_addresses(text: str) -> str:
    """Remove the addresses of objects, which differ from process to process."""
    return re.sub("0x[0-9a-fA-F]+", "", text)
