"""A worker as a Ray actor, and the software of its node. Imports neither torch nor Ray."""

from __future__ import annotations

import gc
import os
import pickle
import platform
import time
from collections.abc import Iterator, Mapping
from importlib.metadata import PackageNotFoundError, version
from typing import NamedTuple

from workflow_rl import portable
from workflow_rl.collection.messages import Command, Failure, Reply, Request
from workflow_rl.collection.trace import Activity
from workflow_rl.collection.worker import Worker, failure_of
from workflow_rl.collection.worker_trace import WorkerMarks
from workflow_rl.version import __version__

PACKAGES = ("csle-cyborg", "gymnasium", "numba", "numpy")


class Host(NamedTuple):
    """Where a worker lives.

    node: its id. address: of the node. pid: of the worker's process. clock: see `clock_offset`.
    differences: between the node's software and the main process's, a phrase each.
    """

    node: str
    address: str
    pid: int
    clock: int
    differences: list[str]


def clock_offset() -> int:
    """Return the nanoseconds from this machine's clock for traces to the time of day."""
    return time.time_ns() - time.perf_counter_ns()


def software() -> dict[str, str | None]:
    """Return the versions and settings that an episode's numbers may depend on, by name."""
    own: dict[str, str | None] = {
        "python": platform.python_version(),
        "workflow_rl": __version__,
        "the C library": " ".join(platform.libc_ver()),
    }
    for name in PACKAGES:
        try:
            own[name] = version(name)
        except PackageNotFoundError:
            own[name] = None
    if portable.departures():
        return own  # Other machines cannot give the main process's numbers anyway.
    own["NumPy's kernels"] = portable.numpy_kernels()
    return own | {name: os.environ.get(name) for name in portable.PINS}


class RayWorker:
    """A worker that makes envs, then answers requests until it is killed.

    Its methods return pickled messages: replies, or a Failure, after which every answer is that
    Failure.

    n_envs, step_delay, traced: as in `worker_main`. expected: the main process's software.
    """

    def __init__(
        self, n_envs: int, step_delay: float, traced: bool, expected: Mapping[str, str | None]
    ) -> None:
        self._n_envs = n_envs
        self._step_delay = step_delay
        self._expected = expected
        self._marks = WorkerMarks() if traced else None
        self._worker: Worker | None = None
        self._failure: Failure | None = None
        if self._marks is not None:
            self._marks.add(Activity.STARTING)

    def start(self, pickled_make_envs: bytes) -> Iterator[bytes]:
        """Make the envs, unless the software differs. The one reply is the Host."""
        yield from self._messages(Request(Command.START, pickled_make_envs))

    def answer(self, request: bytes, pickled_actor: bytes | None) -> Iterator[bytes]:
        """Load the actor, if one is given, then answer a pickled Request."""
        if pickled_actor is not None:
            yield from self._messages(Request(Command.LOAD_ACTOR, pickled_actor))
            if self._failure is not None:
                return
        yield from self._messages(pickle.loads(request))

    def answer_once(self, request: bytes, pickled_actor: bytes | None) -> bytes:
        """Answer a request that has one reply, without a stream, which takes twice as long."""
        return list(self.answer(request, pickled_actor))[-1]

    def _messages(self, request: Request) -> Iterator[bytes]:
        if self._failure is None:
            try:
                for reply in self._replies(request):
                    yield self._packed(reply)
            except GeneratorExit:
                raise
            except BaseException as error:
                self._failure = failure_of(request.command, error)
        if self._failure is not None:
            yield self._packed(self._failure)
        elif self._marks is not None:
            if request.command is Command.CLOSE:
                yield pickle.dumps(self._marks.last(), protocol=5)
            else:
                self._marks.turn_to(Activity.WAITING)

    def _replies(self, request: Request) -> Iterator[Reply]:
        if self._worker is not None:
            yield from self._worker.answers(*request)
            return
        host = self._host()
        if not host.differences:
            gc.freeze()
            self._worker = Worker(request.payload, self._n_envs, self._step_delay, self._marks)
        yield Reply(host)

    def _host(self) -> Host:
        import ray

        own = software()
        differences = [
            f"{name}: {own.get(name)} there, {expected} here"
            for name, expected in self._expected.items()
            if own.get(name) != expected
        ]
        node = ray.get_runtime_context().get_node_id()
        address = ray.util.get_node_ip_address()
        return Host(node, address, os.getpid(), clock_offset(), differences)

    def _packed(self, answer: Reply | Failure) -> bytes:
        # Ray carries bytes as they are, and small ones without its object store.
        message = answer if self._marks is None else self._marks.along(answer)
        return pickle.dumps(message, protocol=5)
