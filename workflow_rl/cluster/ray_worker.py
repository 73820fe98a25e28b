"""A worker as a Ray actor, and the software of its node. Imports neither torch nor Ray."""

import gc
import os
import pickle
import platform
import time
from collections.abc import Iterator, Mapping
from importlib.metadata import PackageNotFoundError, version
from typing import Any, NamedTuple

from workflow_rl import __version__, portable
from workflow_rl.collection.messages import Command, Reply, Request
from workflow_rl.collection.worker import Worker
from workflow_rl.life import show_life_in

SECONDS_BETWEEN_SIGNS = 1.0
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
    versions: dict[str, str | None] = {
        "python": platform.python_version(),
        "workflow_rl": __version__,
        "the C library": " ".join(platform.libc_ver()),
    }
    for name in PACKAGES:
        try:
            versions[name] = version(name)
        except PackageNotFoundError:
            versions[name] = None
    if portable.departures():
        return versions  # Other machines cannot give the main process's numbers anyway.
    versions["NumPy's kernels"] = portable.numpy_kernels()
    return versions | {name: os.environ.get(name) for name in portable.PINS}


class StoredLife:
    """A Life in the store of Ray's head, under the actor's id, where the pool reads it: the time of
    day at the last sign, and whether a compilation is under way."""

    def __init__(self, actor_id: str) -> None:
        self._actor_id, self._stored, self.compiling = actor_id, (0.0, False), 0
        self._clock = clock_offset() / 1e9

    def _store(self, at: float) -> None:
        from ray.experimental.internal_kv import _internal_kv_put

        before, sign = self._stored, (at + self._clock, self.compiling > 0)
        if sign[1] != before[1] or sign[0] > before[0] + SECONDS_BETWEEN_SIGNS:
            self._stored = sign
            _internal_kv_put(self._actor_id, pickle.dumps(sign))

    at = property(fset=_store)


class RayWorker:
    """A Ray actor that answers requests with pickled messages, until it is killed.

    n_envs, step_delay, traced: see `Worker`. expected: the main process's software.
    """

    def __init__(
        self, n_envs: int, step_delay: float, traced: bool, expected: Mapping[str, str | None]
    ) -> None:
        self._worker = Worker(n_envs, step_delay, traced)
        self._expected = expected

    def start(self, pickled_make_envs: bytes) -> Iterator[bytes]:
        """Make the envs, unless the software differs. The one reply is the Host."""
        host = self._worker.start_result = self._host()
        if host.differences:
            yield _pickled(Reply(host))
            return
        gc.freeze()
        yield from self._messages(Request(Command.START, pickled_make_envs))

    def answer(self, request: bytes, pickled_actor: bytes | None) -> Iterator[bytes]:
        """Load the actor, if one is given, then answer a pickled Request."""
        if pickled_actor is not None:
            loading = Request(Command.LOAD_ACTOR, pickled_actor)
            yield from self._messages(loading)
            if self._worker.failure is not None:
                return
        yield from self._messages(pickle.loads(request))

    def answer_once(self, request: bytes, pickled_actor: bytes | None) -> bytes:
        """Answer a request that has one reply, without a stream, which takes twice as long."""
        return list(self.answer(request, pickled_actor))[-1]

    def _messages(self, request: Request) -> Iterator[bytes]:
        # Ray sends values into a stream, which a generator takes and a `map` does not.
        for message in self._worker.messages(request):
            yield _pickled(message)

    def _host(self) -> Host:
        import ray

        context = ray.get_runtime_context()
        show_life_in(StoredLife(context.get_actor_id()))
        here = software()
        differences = [
            f"{name}: {here.get(name)} there, {expected} here"
            for name, expected in self._expected.items()
            if here.get(name) != expected
        ]
        address = ray.util.get_node_ip_address()
        return Host(context.get_node_id(), address, os.getpid(), clock_offset(), differences)


def _pickled(message: Any) -> bytes:
    # Ray carries bytes as they are, and small ones without its object store.
    return pickle.dumps(message, protocol=5)
