"""Workers that are Ray actors, on whichever nodes of a cluster there are."""

from __future__ import annotations

import functools
import logging
import os
import pickle
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import cloudpickle

from workflow_rl import portable
from workflow_rl.collection.cluster import LOCAL, Cluster, ClusterError
from workflow_rl.collection.failures import POLL_SECONDS, WorkerError
from workflow_rl.collection.pool import CLOSE_SECONDS, Pool, PooledWorker, RemoteTraceback
from workflow_rl.collection.ray_worker import Host, RayWorker, clock_behind, software
from workflow_rl.collection.trace import Trace
from workflow_rl.collection.worker import Command, Failure, Reply, Request
from workflow_rl.environments.env_batch import EnvBatchFactory

START_SECONDS = 120.0
"""How long a process may take to start, while no other one does either."""
PATIENCE_SECONDS = 10.0
"""How long a worker waits for a core of its own before it shares one."""
LONG_PATIENCE_SECONDS = 30.0
"""And how long if there is one for every worker: they may only be slow to start."""
SAME_CLOCK = 1_000_000
"""Nanoseconds by which two readings of one clock may differ: less than between machines."""
REASON_LENGTH = 600
PUT_POLICIES = 32
ONE_REPLY = (Command.RESET, Command.STEP, Command.FREE_RUN)

_log = logging.getLogger(__name__)


class WorkerMoved(WorkerError):
    """No failure: a core has become free for a worker that had to share one, and it begins there
    anew."""


class _Actor:
    """A Ray actor that is a worker or may become one, and the answers it is giving.

    has_core: it alone has one of its node's. Otherwise it shares them.
    """

    def __init__(self, ray: Any, handle: Any, make_envs: Any, has_core: bool) -> None:
        self._ray = ray
        self._handle = handle
        self.has_core = has_core
        self.host: Host | None = None
        self.stream = handle.start.remote(make_envs)

    def ask(self, request: Request, policy: Any) -> None:
        """policy: reference of a pickled actor that it loads before."""
        answer = self._handle.answer_once if _has_one_reply(request) else self._handle.answer
        self.stream = answer.remote(pickle.dumps(request, protocol=5), policy)

    def has_message(self, seconds: float = 0.0) -> bool:
        """Waits so long. True if it has failed, too."""
        return bool(self._ray.wait([self.stream], timeout=seconds)[0])

    def message(self, seconds: float) -> Any:
        """Its next one. Raises RayError, which may be a timeout, or StopIteration."""
        is_stream = isinstance(self.stream, self._ray.ObjectRefGenerator)
        reference = next(self.stream) if is_stream else self.stream
        return pickle.loads(self._ray.get(reference, timeout=seconds))

    def kill(self) -> None:
        with suppress(Exception):  # Ray's connection may be closed.
            self._ray.kill(self._handle)


class _ActorWorker(PooledWorker):
    """One worker: the actor that does its work, and those of which the first to start will.

    What it is asked before one has started waits here.
    """

    def __init__(
        self,
        index: int,
        timeout: float,
        trace: Trace,
        ray: Any,
        make_actor: Callable[[bool], _Actor],
        put: Callable[[bytes], Any],
        accepts: Callable[[Host], bool],
        may_share: Callable[[float], bool],
    ) -> None:
        super().__init__(index, timeout, trace)
        self.actor: _Actor | None = None
        self.successor: _Actor | None = None
        self.starting = [make_actor(True)]
        self._ray = ray
        self._make_actor = make_actor
        self._put = put
        self._accepts = accepts
        self._may_share = may_share
        self._waits_since = time.monotonic()
        self._policy: Any = None
        self._unsent: list[tuple[Request, Any]] = []
        self._failed: Failure | Exception | None = None

    @property
    def overdue(self) -> bool:
        """Whether its answer should have come."""
        if self.actor is None:
            return time.monotonic() > self.heard_at + START_SECONDS
        return super().overdue

    @property
    def streams(self) -> dict[Any, _Actor]:
        """What it may next be heard by."""
        actors = self.starting if self.actor is None else [self.actor]
        return {actor.stream: actor for actor in actors}

    @property
    def has_message(self) -> bool:
        """Whether `receive` has something at once that no stream has."""
        return self._failed is not None or (
            self.actor is not None and self.command is Command.START
        )

    def poll(self, seconds: float) -> bool:
        """Waits so long for an answer, or its failure to give one. Whether there is one."""
        if self.has_message:
            return True
        if self.actor is not None:
            return self.actor.has_message(seconds)
        self.tend()
        for stream in self._ray.wait(list(self.streams), timeout=seconds)[0]:
            self.hear(self.streams[stream])
        return self.has_message

    def hear(self, actor: _Actor) -> bool:
        """Note that this actor has a message. Whether it is for `receive`."""
        if actor is self.actor:
            return True
        self.starting.remove(actor)
        try:
            message = actor.message(self.timeout)
        except (self._ray.exceptions.RayError, StopIteration) as error:
            self._lose(actor, error)
            return self.has_message
        answer = message[0] if type(message) is tuple else message
        if isinstance(answer, Failure):
            self._lose(actor, answer)
            return self.has_message
        host = actor.host = answer.result
        if not self._accepts(host):
            actor.kill()
            self.starting.append(self._make_actor(actor.has_core))
            return False
        if self.actor is not None:
            self.successor = actor
            return False
        self.actor = actor
        self.trace.take_marks(self.name, message, self._ahead)
        for other in [other for other in self.starting if not other.has_core]:
            self.starting.remove(other)
            other.kill()
        self.heard_at = time.monotonic()
        for request, policy in self._unsent:
            actor.ask(request, policy)
        return self.has_message

    def _lose(self, actor: _Actor, reason: Failure | Exception) -> None:
        actor.kill()
        if self.actor is None and not self.starting:
            self._failed = reason

    @property
    def _ahead(self) -> int:
        """Nanoseconds to add to the actor's clock."""
        assert self.actor is not None
        assert self.actor.host is not None
        ahead = self.actor.host.clock - clock_behind()
        return ahead if abs(ahead) > SAME_CLOCK else 0

    def tend(self) -> None:
        """Have it share a core with others once it has waited long enough for one of its own."""
        if (
            self.actor is None
            and all(actor.has_core for actor in self.starting)
            and self._may_share(time.monotonic() - self._waits_since)
        ):
            self.starting.append(self._make_actor(False))

    def wait_longer(self) -> None:
        """Others start, if slowly: so may this one."""
        self._waits_since = time.monotonic()
        if self.actor is None:
            self.heard_at = time.monotonic()

    def move(self) -> None:
        """Go on with the actor that has a core of its own."""
        assert self.actor is not None
        assert self.successor is not None
        self.actor.kill()
        self.actor, self.successor = self.successor, None
        self._policy = None

    def _send(self, request: Request) -> None:
        if request.command is Command.LOAD_ACTOR:
            self._policy = self._put(request.payload)  # Goes along with what is asked next.
            return
        policy, self._policy = self._policy, None
        if self.actor is None:
            self._unsent.append((request, policy))
            return
        for actor in [actor for actor in self.starting if actor.has_message()]:
            self.hear(actor)
        if self.successor is not None:
            raise WorkerMoved(self.name, request.command, None, "moved")
        self.actor.ask(request, policy)

    def _receive(self) -> Any:
        if isinstance(self._failed, Failure):
            return self._failed
        if self._failed is not None:
            raise self._error("did not start") from _told(self._failed)
        if self.actor is None:
            raise self._error(f"did not start within {START_SECONDS:g} s")
        if self.command is Command.START:
            return Reply(None)
        if self.overdue and not self.actor.has_message():
            raise self._error(f"gave no complete answer for {self.timeout:g} s")
        try:
            message = self.actor.message(self.timeout)
        except self._ray.exceptions.GetTimeoutError:
            raise self._error(f"gave no complete answer for {self.timeout:g} s") from None
        except (self._ray.exceptions.RayError, StopIteration) as error:
            raise self._error("ended") from _told(error)
        self.trace.take_marks(self.name, message, self._ahead)
        return message[0] if type(message) is tuple else message

    def _error(self, reason: str) -> WorkerError:
        host = None if self.actor is None else self.actor.host
        place = "not started" if host is None else f"process {host.pid} of node {host.address}"
        return WorkerError(self.name, self.command, None, reason, place=place)

    def close(self) -> bool:
        """Ask it to end, if it has started. Returns whether it is asked."""
        if self.actor is None or self._failed is not None:
            return False
        self.actor.ask(Request(Command.CLOSE), None)
        return True

    def take_last_marks(self, deadline: float) -> None:
        """Wait until it has closed its envs; what is left of its marks goes into the trace."""
        assert self.actor is not None
        with suppress(self._ray.exceptions.RayError, StopIteration):
            if self.actor.has_message(max(0.0, deadline - time.monotonic())):
                message = self.actor.message(CLOSE_SECONDS)
                self.trace.take_marks(self.name, message, self._ahead)

    def kill(self) -> None:
        """End it, whatever it does."""
        for actor in (self.actor, self.successor, *self.starting):
            if actor is not None:
                actor.kill()


class RayPool(Pool[_ActorWorker]):
    """Workers that are Ray actors with a core each, spread over a cluster's nodes. A context
    manager.

    A new worker is asked before it has started: while nodes are lost the others go on. With fewer
    cores than workers some share them, until nodes join.

    make_envs: called in each worker (sent by cloudpickle) with `envs_per_worker`.
    address: see `Cluster`.
    timeout, max_failures, step_delays, trace: see `Pool`. The timeout does not include the start.

    Entering it raises ClusterError.
    """

    def __init__(
        self,
        make_envs: EnvBatchFactory,
        n_workers: int,
        envs_per_worker: int = 1,
        timeout: float = 60.0,
        max_failures: int = 10,
        address: str = LOCAL,
        step_delays: Sequence[float] = (),
        trace: Trace | None = None,
    ) -> None:
        super().__init__(n_workers, envs_per_worker, timeout, max_failures, step_delays, trace)
        self.address = address
        self._make_envs = cloudpickle.dumps(make_envs)
        self._cluster: Cluster | None = None
        self._refused: list[str] = []
        self._has_started = False
        self._shares = False

    def _prepare(self) -> None:
        self._cluster = Cluster(self.address, self.n_workers)
        self._ray = self._cluster.ray
        self._class = self._ray.remote(RayWorker)
        self._factory = self._ray.put(self._make_envs)
        # A policy is stored once for all workers, which are sent the same object.
        self._put = functools.lru_cache(PUT_POLICIES)(self._ray.put)

    def __enter__(self) -> RayPool:
        super().__enter__()
        self._has_started = True
        return self

    def _start(self, index: int) -> _ActorWorker:
        return _ActorWorker(
            index,
            self.timeout,
            self.trace,
            self._ray,
            functools.partial(self._actor, index),
            self._put,
            self._accepts,
            self._may_share,
        )

    def _actor(self, index: int, has_core: bool) -> _Actor:
        options = {}
        if self._refused:
            options["label_selector"] = {"ray.io/node-id": f"!in({','.join(self._refused)})"}
        handle = self._class.options(
            **options,
            num_cpus=1 if has_core else 0,
            scheduling_strategy="SPREAD",
            runtime_env={"env_vars": worker_variables()},
            max_restarts=0,
            enable_task_events=False,
        ).remote(self.envs_per_worker, self.step_delays[index], self.trace.is_on, software())
        return _Actor(self._ray, handle, self._factory, has_core)

    def _accepts(self, host: Host) -> bool:
        """Whether its workers give the same numbers. If not, and none has started yet, raises
        ClusterError; later such a node is left out."""
        if host.differences:
            refusal = f"node {host.address} would not give the same weights: " + "; ".join(
                host.differences
            )
            if not self._has_started:
                raise ClusterError(f"{self.address}: {refusal}")
            if host.node not in self._refused:
                self._refused.append(host.node)
                _log.warning("%s; it is left out", refusal)
            return False
        for worker in self._workers:
            worker.wait_longer()
        return True

    def _wait_for_new(self, index: int) -> None:
        """In a run that goes on it is asked all the same, and so the others go on as well."""
        if not self._has_started:
            super()._wait_for_new(index)

    def replace(self, index: int, error: WorkerError) -> None:
        """Put a new worker in a failed one's place. Raises TooManyFailuresError."""
        if isinstance(error, WorkerMoved):
            self._workers[index].move()
        else:
            super().replace(index, error)

    def _may_share(self, waited: float) -> bool:
        """Whether a worker that has waited so many seconds for a core has none to hope for."""
        if self.address == LOCAL or waited < PATIENCE_SECONDS:
            return False
        cores, free = self._cores()
        if free >= 1 or (cores >= self.n_workers and waited < LONG_PATIENCE_SECONDS):
            return False
        if not self._shares:
            self._shares = True
            _log.warning(
                "the cluster has fewer free cores than there are workers: some share theirs until "
                "nodes join"
            )
        return True

    def _cores(self) -> tuple[float, float]:
        """On nodes that are not refused: all, and at least how many of them are free."""
        cores = of_refused = 0.0
        for node in self._ray.nodes():
            if node["Alive"] and node["NodeID"] in self._refused:
                of_refused += node["Resources"].get("CPU", 0.0)
            elif node["Alive"]:
                cores += node["Resources"].get("CPU", 0.0)
        return cores, self._ray.available_resources().get("CPU", 0.0) - of_refused

    def _heard(self, indices: Sequence[int]) -> set[int]:
        for index in indices:
            self._workers[index].tend()
        heard = {index for index in indices if self._workers[index].has_message}
        streams = {
            stream: (index, actor)
            for index in indices
            if index not in heard
            for stream, actor in self._workers[index].streams.items()
        }
        seconds = 0.0 if heard else POLL_SECONDS
        if streams and self._ray.wait(list(streams), timeout=seconds)[0]:
            ready, _ = self._ray.wait(list(streams), num_returns=len(streams), timeout=0)
            for index, actor in (streams[stream] for stream in ready):
                worker = self._workers[index]
                # The first of several that start ends the others.
                if (actor is worker.actor or actor in worker.starting) and worker.hear(actor):
                    heard.add(index)
        return heard

    def close(self) -> None:
        """End all workers, at the latest after a few seconds. May be called again."""
        workers, self._workers = self._workers, []
        # An idle worker does as it is asked; one in an episode is killed below.
        asked = [worker for worker in workers if worker.close()]
        deadline = time.monotonic() + CLOSE_SECONDS / 4
        for worker in asked:
            worker.take_last_marks(deadline)
        for worker in workers:
            worker.kill()
        if self._cluster is not None:
            self._cluster.leave()


def worker_variables() -> dict[str, str]:
    """Environment variables of every worker: this process's kernels, one thread, its packages."""
    names = [name for name in (*portable.PINS, portable.NATIVE) if name in os.environ]
    package_root = str(Path(__file__).resolve().parents[2])
    return {
        **{name: os.environ[name] for name in names},
        "OPENBLAS_NUM_THREADS": "1",
        "OMP_NUM_THREADS": "1",
        "MKL_NUM_THREADS": "1",
        "PYTHONPATH": os.pathsep.join(filter(None, [package_root, os.environ.get("PYTHONPATH")])),
    }


def _has_one_reply(request: Request) -> bool:
    """Whether it needs no stream, which costs a worker and this process twice as much."""
    is_one_episode = request.command is Command.PLAY and len(request.payload) == 1
    return is_one_episode or request.command in ONE_REPLY


def _told(error: Exception) -> RemoteTraceback:
    """What Ray says, without its advice."""
    return RemoteTraceback(str(error).strip()[:REASON_LENGTH])
