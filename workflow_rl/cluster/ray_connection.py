"""The pool's side of one worker on Ray: the actors that do or may do the worker's work."""

from __future__ import annotations

import pickle
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from workflow_rl.cluster.ray_worker import Host, clock_offset
from workflow_rl.collection.messages import Command, Failure, Reply, Request, WorkerError
from workflow_rl.collection.pool import CLOSE_SECONDS, WorkerConnection

if TYPE_CHECKING:
    from workflow_rl.cluster.ray_pool import RayPool

START_SECONDS = 120.0
"""How long a process that starts may be silent, while no other process starts."""
COMPILE_SECONDS = 1800.0
"""How long a compilation may take, of which nothing is heard until it ends."""
SAME_CLOCK = 1_000_000
"""Nanoseconds by which two readings of one clock may differ. Clocks of machines differ by more."""
REASON_LENGTH = 600
ONE_REPLY = (Command.RESET, Command.STEP)


class WorkerMoved(WorkerError):
    """No failure: a worker that shared a core moves to a core that has become free."""


class RayActor:
    """A Ray actor that is a worker or may become one, and the stream of its answers.

    has_core: whether it has a core of its node to itself. Otherwise it shares the node's cores.
    """

    def __init__(self, ray: Any, actor: Any, make_envs: Any, has_core: bool) -> None:
        self._ray = ray
        self._actor = actor
        self.has_core = has_core
        self.host: Host | None = None
        self.stream = actor.start.remote(make_envs)

    def ask(self, request: Request, policy: Any) -> None:
        """Ask the actor. policy: reference of the pickled policy that it loads before, or None."""
        is_one_episode = request.command is Command.PLAY and len(request.payload) == 1
        has_one_reply = is_one_episode or request.command in ONE_REPLY
        answer = self._actor.answer_once if has_one_reply else self._actor.answer
        self.stream = answer.remote(pickle.dumps(request, protocol=5), policy)

    def has_message(self, seconds: float = 0.0) -> bool:
        """Wait for these seconds at most. Return whether a message or a failure has arrived."""
        return bool(self._ray.wait([self.stream], timeout=seconds)[0])

    def message(self, seconds: float) -> Any:
        """Return the next message. Raises RayError, such as a timeout, or StopIteration."""
        is_stream = isinstance(self.stream, self._ray.ObjectRefGenerator)
        reference = next(self.stream) if is_stream else self.stream
        return pickle.loads(self._ray.get(reference, timeout=seconds))

    def sign(self) -> tuple[float, bool]:
        """Return the last value that the actor's StoredLife has stored."""
        from ray.experimental.internal_kv import _internal_kv_get

        stored = _internal_kv_get(self._actor._actor_id.hex())
        return (0.0, False) if stored is None else pickle.loads(stored)

    def kill(self) -> None:
        with suppress(Exception):  # Ray's connection may be closed.
            self._ray.kill(self._actor)


class RayConnection(WorkerConnection):
    """The pool's side of one worker. Requests wait here until an actor has started.

    actor: does the work; None until an actor has started. starting: actors that start. The first
    that has started becomes `actor`. successor: has a core of its own, and replaces an actor that
    shares cores.
    """

    _pool: RayPool

    def __init__(self, index: int, pool: RayPool) -> None:
        super().__init__(index, pool)
        self.timeout = START_SECONDS
        self._index = index
        self._ray = pool.ray
        self._errors = (pool.ray.exceptions.RayError, StopIteration)
        self.actor: RayActor | None = None
        self.successor: RayActor | None = None
        self.starting = [pool.make_actor(index, has_core=True)]
        self._clock = clock_offset()
        self._waits_since = time.monotonic()
        self._policy: Any = None
        self._unsent: list[tuple[Request, Any]] = []
        self._failed: Failure | Exception | None = None

    def listen(self) -> None:
        now = time.monotonic()
        for at, compiles in [actor.sign() for actor in self.streams.values()]:
            until = at - self._clock / 1e9 + COMPILE_SECONDS * compiles
            self.heard_at = max(self.heard_at, min(until, now))

    @property
    def streams(self) -> dict[Any, RayActor]:
        """The streams that may bring the next message, and whose they are."""
        actors = self.starting if self.actor is None else [self.actor]
        return {actor.stream: actor for actor in actors}

    @property
    def has_message(self) -> bool:
        """Whether `receive` returns or raises at once, without reading a stream."""
        has_started = self.actor is not None and self.command is Command.START
        return self._failed is not None or has_started

    def note_message(self, actor: RayActor) -> bool:
        """Take note that this actor has a message. Return whether `receive` has one now."""
        if actor is self.actor:
            return True
        self.starting.remove(actor)
        try:
            message = actor.message(self.timeout)
        except self._errors as error:
            self._lose(actor, error)
            return self.has_message
        answer = message[0] if type(message) is tuple else message
        if isinstance(answer, Failure):
            self._lose(actor, answer)
            return self.has_message
        actor.host = answer.result
        if not self._pool.accepts(answer.result):
            actor.kill()
            self.starting.append(self._pool.make_actor(self._index, actor.has_core))
            return False
        if self.actor is not None:
            self.successor = actor
            return False
        self._begin_with(actor, message)
        return self.has_message

    def _begin_with(self, actor: RayActor, message: Any) -> None:
        self.actor = actor
        self.timeout = self._pool.timeout
        self.trace.take_marks(self.name, message, self._clock_difference)
        for other in [other for other in self.starting if not other.has_core]:
            self.starting.remove(other)
            other.kill()
        self.heard_at = time.monotonic()
        for request, policy in self._unsent:
            actor.ask(request, policy)

    def _lose(self, actor: RayActor, reason: Failure | Exception) -> None:
        actor.kill()
        if self.actor is None and not self.starting:
            self._failed = reason

    @property
    def _host(self) -> Host:
        assert self.actor is not None
        assert self.actor.host is not None
        return self.actor.host

    @property
    def _clock_difference(self) -> int:
        """Nanoseconds to add to times of the actor's clock."""
        difference = self._host.clock - self._clock
        return difference if abs(difference) > SAME_CLOCK else 0

    def share_if_waited(self) -> None:
        """Start an actor that shares cores, once the worker has waited long for its own core."""
        if (
            self.actor is None
            and all(actor.has_core for actor in self.starting)
            and self._pool.may_share(time.monotonic() - self._waits_since)
        ):
            self.starting.append(self._pool.make_actor(self._index, has_core=False))

    def wait_longer(self) -> None:
        """Allow more time to start: another worker has started, if slowly."""
        self._waits_since = time.monotonic()
        if self.actor is None:
            self.heard_at = time.monotonic()

    def move(self) -> None:
        """Continue with the actor that has a core of its own."""
        assert self.actor is not None
        assert self.successor is not None
        self.actor.kill()
        self.actor, self.successor = self.successor, None
        self._policy = None

    def _send(self, request: Request) -> None:
        if request.command is Command.LOAD_ACTOR:
            self._policy = self._pool.put(request.payload)  # Goes along with the next request.
            return
        policy, self._policy = self._policy, None
        if self.actor is None:
            self._unsent.append((request, policy))
            return
        for actor in [actor for actor in self.starting if actor.has_message()]:
            self.note_message(actor)
        if self.successor is not None:
            raise WorkerMoved(self.name, request.command, None, "moved")
        self.actor.ask(request, policy)

    def _receive(self) -> Any:
        if isinstance(self._failed, Failure):
            return self._failed
        if self._failed is not None:
            raise self._error("did not start") from _reason(self._failed)
        if self.actor is None:
            raise self._error(f"did not start, and was silent for {START_SECONDS:g} s")
        if self.command is Command.START:
            return Reply(None)
        if self.overdue and not self.actor.has_message():
            raise self._late()
        try:
            message = self.actor.message(self.timeout)
        except self._ray.exceptions.GetTimeoutError:
            raise self._late() from None
        except self._errors as error:
            raise self._error("ended") from _reason(error)
        return self.trace.take_marks(self.name, message, self._clock_difference)

    def _error(self, reason: str) -> WorkerError:
        has_started = self.actor is not None
        place = f"process {self._host.pid} of node {self._host.address}" if has_started else ""
        return WorkerError(
            self.name, self.command, None, reason, place=place or "its process has not started"
        )

    def close(self) -> bool:
        if self.actor is None or self._failed is not None:
            return False
        self.actor.ask(Request(Command.CLOSE), None)
        return True

    def take_last_marks(self, deadline: float) -> None:
        assert self.actor is not None
        with suppress(*self._errors):
            if self.actor.has_message(max(0.0, deadline - time.monotonic())):
                message = self.actor.message(CLOSE_SECONDS)
                self.trace.take_marks(self.name, message, self._clock_difference)

    def kill(self) -> None:
        for actor in (self.actor, self.successor, *self.starting):
            if actor is not None:
                actor.kill()


def _reason(error: Exception) -> RuntimeError:
    """Return what Ray says, without its advice."""
    return RuntimeError(f"\n{str(error).strip()[:REASON_LENGTH]}")
