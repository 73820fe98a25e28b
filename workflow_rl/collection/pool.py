"""What all pools of workers have in common, whatever carries their messages."""

from __future__ import annotations

import logging
import time
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import CancelledError
from types import TracebackType
from typing import Any, Generic, Self, TypeAlias, TypeVar

from workflow_rl.collection.failures import (
    POLL_SECONDS,
    Fault,
    StopRequested,
    TooManyFailuresError,
    UnplayableError,
    WorkerError,
    fault_of,
)
from workflow_rl.collection.trace import Trace
from workflow_rl.collection.worker import Command, Failure, Reply, Request

CLOSE_SECONDS = 2.0

_log = logging.getLogger(__name__)


class RemoteTraceback(Exception):
    """Carries a worker's traceback as the cause of a WorkerError."""

    def __str__(self) -> str:
        return f"\n{self.args[0]}"


class PooledWorker(ABC):
    """The main process's side of a worker: what it was last asked, when it was last heard.

    timeout: seconds within which every answer must come.
    """

    def __init__(self, index: int, timeout: float, trace: Trace) -> None:
        self.name = f"worker-{index}"
        self.timeout = timeout
        self.trace = trace
        self.command = Command.START
        self.heard_at = time.monotonic()

    @property
    def overdue(self) -> bool:
        """Whether its answer should have come."""
        return time.monotonic() > self.heard_at + self.timeout

    def send(self, request: Request) -> None:
        """Raises WorkerError if it is gone, or does not take the message in time."""
        self.command = request.command
        self.heard_at = time.monotonic()
        self._send(request)

    def receive(self) -> Reply:
        """The next answer. Raises WorkerError if there is none by the deadline, and
        TooManyFailuresError for a failure that is final."""
        answer = self.trace.take_marks(self.name, self._receive())
        self.heard_at = time.monotonic()
        if isinstance(answer, Failure):
            self.command = answer.command
            if answer.final is not None:
                raise TooManyFailuresError(answer.final)
            error = self._error("raised an exception")
            if answer.spec is not None:
                error.fault = fault_of(answer.spec, answer.traceback)
            raise error from RemoteTraceback(answer.traceback)
        assert isinstance(answer, Reply)
        return answer

    @abstractmethod
    def poll(self, seconds: float) -> bool:
        """Waits so long for an answer, or its failure to give one. Whether there is one."""

    @abstractmethod
    def kill(self) -> None:
        """End it, whatever it does."""

    @abstractmethod
    def _send(self, request: Request) -> None: ...

    @abstractmethod
    def _receive(self) -> Any:
        """The next message, by the deadline. Raises WorkerError."""

    @abstractmethod
    def _error(self, reason: str) -> WorkerError: ...


OneWorker = TypeVar("OneWorker", bound=PooledWorker)


class Pool(ABC, Generic[OneWorker]):
    """Workers that are started, asked, diagnosed, replaced and ended: see `Workers`. A context
    manager.

    timeout: seconds within which every answer must come. A worker that plays episodes answers
    whenever some end.
    max_failures: how many workers may fail and be replaced before TooManyFailuresError. An episode
    that raises the same exception again does not count again.
    step_delays: seconds that a step of each worker's envs takes longer, to see what slow ones do.
    trace: where what the workers do is recorded, and what whoever asks them does.
    """

    def __init__(
        self,
        n_workers: int,
        envs_per_worker: int,
        timeout: float,
        max_failures: int,
        step_delays: Sequence[float],
        trace: Trace | None,
    ) -> None:
        self.n_workers = n_workers
        self.envs_per_worker = envs_per_worker
        self.timeout = timeout
        self.max_failures = max_failures
        self.failures = 0
        self.faults: Counter[Fault] = Counter()
        self.step_delays = [*step_delays, *[0.0] * (n_workers - len(step_delays))]
        self.trace = trace or Trace()
        self.stop_signal: int | None = None
        self._cancelled = False
        self._workers: list[OneWorker] = []

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

    def __exit__(
        self,
        exception_type: type[BaseException] | None,
        exception: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    @abstractmethod
    def _prepare(self) -> None:
        """Before the first worker is started."""

    @abstractmethod
    def _start(self, index: int) -> OneWorker:
        """A new worker, which answers once its envs are made."""

    @abstractmethod
    def _heard(self, indices: Sequence[int]) -> set[int]:
        """Those of the workers that `receive` has something of. Waits for POLL_SECONDS at most."""

    @abstractmethod
    def close(self) -> None:
        """End all workers, at the latest after a few seconds. May be called again."""

    def send(self, index: int, command: Command, payload: Any = None) -> None:
        """Ask one worker. Raises WorkerError."""
        self._workers[index].send(Request(command, payload))

    def receive(self, index: int) -> Reply:
        """One worker's next answer. Raises WorkerError if none comes in time, StopRequested."""
        worker = self._workers[index]
        self.raise_if_stopped()
        while not worker.overdue and not worker.poll(POLL_SECONDS):
            self.raise_if_stopped()
        return worker.receive()

    def ready(self, indices: Sequence[int]) -> list[int]:
        """Those of the workers whose answer, or failure to give one, `receive` gives at once."""
        heard = self._heard(indices)
        self.raise_if_stopped()
        return [index for index in indices if index in heard or self._workers[index].overdue]

    def cancel(self) -> None:
        """Have whoever waits for a worker, in whatever thread, give up with CancelledError."""
        self._cancelled = True

    def raise_if_stopped(self) -> None:
        """Raises StopRequested once `stop_signal` has been set, CancelledError after `cancel`."""
        if self._cancelled:
            raise CancelledError
        if self.stop_signal is not None:
            raise StopRequested(self.stop_signal)

    def replace(self, index: int, error: WorkerError) -> None:
        """Put a new worker in a failed one's place. Raises TooManyFailuresError."""
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
        """Until it has started. Raises WorkerError."""
        self.receive(index)

    def _count(self, error: WorkerError) -> None:
        self.failures += 1
        if error.fault is not None:
            self.faults[error.fault] += 1
        cause = error.__cause__ or ""
        counted = self.failures - self.faults.total() + len(self.faults)
        if counted > self.max_failures:
            too_many = TooManyFailuresError if error.fault is None else UnplayableError
            raise too_many(
                f"{counted} workers failed, and at most {self.max_failures} may "
                f"(--max-worker-failures). The last one: {error}{cause}"
            ) from error
        _log.warning("%s; it is replaced and its episodes run again%s", error, cause)


AnyPool: TypeAlias = Pool[Any]
