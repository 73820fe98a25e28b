"""A worker as a Ray actor, and what it says of where it lives. Imports neither torch nor Ray."""

from __future__ import annotations

import gc
import os
import pickle
import platform
import time
from collections.abc import Iterator, Mapping
from importlib.metadata import PackageNotFoundError, version
from typing import Any, NamedTuple

from workflow_rl import portable
from workflow_rl.collection.trace import Activity, WorkerMarks
from workflow_rl.collection.worker import Command, Failure, Reply, Request, Worker, failure_of
from workflow_rl.version import __version__

PACKAGES = ("csle-cyborg", "gymnasium", "numba", "numpy")


class Host(NamedTuple):
    """Where a worker lives: its node's id and address, its process, the nanoseconds that its clock
    for traces is behind the time of day, and how its software differs from the main process's."""

    node: str
    address: str
    pid: int
    clock: int
    differences: list[str]


def clock_behind() -> int:
    """Nanoseconds from this machine's clock for traces to the time of day, which machines share."""
    return time.time_ns() - time.perf_counter_ns()


def software() -> dict[str, str | None]:
    """What the numbers of an episode may depend on, by name."""
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
        return own  # The main process's own numbers are not those of other machines.
    own["NumPy's kernels"] = portable.numpy_kernels()
    return own | {name: os.environ.get(name) for name in portable.PINS}


class RayWorker:
    """The life of a worker: make envs, then answer requests until it is killed.

    Methods stream pickled messages: replies, or a Failure, after which nothing else comes.

    n_envs, step_delay, traced: as `worker_main` has them. expected: the main process's software.
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
        """Make the envs, if the software is the same. One reply: the Host."""
        yield from self._messages(Request(Command.START, pickled_make_envs))

    def answer(self, request: bytes, pickled_actor: bytes | None) -> Iterator[bytes]:
        """Load the actor, if there is one, and do what a pickled Request asks."""
        if pickled_actor is not None:
            yield from self._messages(Request(Command.LOAD_ACTOR, pickled_actor))
            if self._failure is not None:
                return
        yield from self._messages(pickle.loads(request))

    def answer_once(self, request: bytes, pickled_actor: bytes | None) -> bytes:
        """`answer` to a request with one reply, without the stream's cost: a step's is half."""
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
        return Host(node, address, os.getpid(), clock_behind(), differences)

    def _packed(self, answer: Any) -> bytes:
        # As bytes Ray carries it as it is, small ones without its object store.
        return pickle.dumps(
            answer if self._marks is None else self._marks.along(answer), protocol=5
        )
