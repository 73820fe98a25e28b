"""As much of Ray as pools use, played in this process: an actor works while its answer is read."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any, NamedTuple

Node = dict[str, Any]


class Gone(Exception):
    """RayError."""


class Late(Gone):
    """GetTimeoutError."""


class Reference(NamedTuple):
    """What `put` returns, and a method with one answer."""

    read: Callable[[], Any]
    actor: Actor | None = None


class Answers:
    """The stream of a method that is a generator."""

    def __init__(self, answers: Iterator[Any], actor: Actor) -> None:
        self._answers, self.actor = answers, actor

    def __next__(self) -> Reference:
        self.actor.go_on()
        answer = next(self._answers)
        return Reference(lambda: answer, self.actor)


class Actor:
    """An actor, which starts once a node has a core for it. node: None before it starts.

    hangs: it answers no more. answers_left: it dies when it is to answer once more.
    """

    def __init__(self, ray: PlayedRay, options: dict[str, Any], worker: Any) -> None:
        self.ray, self.options, self._worker = ray, options, worker
        self.node: Node | None = None
        self.is_killed, self.hangs, self.answers_left = False, False, 1_000_000
        self._actor_id = SimpleNamespace(hex=lambda: f"actor-{ray.actors.index(self)}")
        self.start, self.answer = (
            SimpleNamespace(remote=lambda *given, name=name: self._stream(name, given))
            for name in ("start", "answer")
        )
        self.answer_once = SimpleNamespace(
            remote=lambda *given: Reference(
                lambda: self.go_on() or worker.answer_once(*map(_value, given)), self
            )
        )

    def _stream(self, method: str, given: tuple[Any, ...]) -> Answers:
        return Answers(getattr(self._worker, method)(*map(_value, given)), self)

    def go_on(self) -> None:
        self.ray.acting = self
        self.answers_left -= 1
        if self.answers_left < 0:
            self.ray.kill(self)
        if self.is_killed:
            raise Gone("\nThe actor died unexpectedly." + " Advice." * 100)


def _value(given: Any) -> Any:
    return given.read() if isinstance(given, Reference) else given


class PlayedRay:
    """The module, and a cluster of nodes. n_cores: of each node."""

    exceptions = SimpleNamespace(RayError=Gone, GetTimeoutError=Late)
    ObjectRefGenerator = Answers

    def __init__(self, *n_cores: float) -> None:
        self.cluster: list[Node] = []
        for n in n_cores:
            self.join(n)
        self.actors: list[Actor] = []
        self.stored: list[Any] = []
        self.acting: Actor
        self.util = SimpleNamespace(get_node_ip_address=lambda: f"10.0.0.{self.here[-1]}")

    def join(self, n_cores: float) -> None:
        name = f"node-{len(self.cluster)}"
        node = {"NodeID": name, "Alive": True, "Resources": {"CPU": n_cores}, "free": n_cores}
        self.cluster.append(node)

    @property
    def here(self) -> str:
        """The node of the actor that is at work."""
        assert self.acting.node is not None
        return str(self.acting.node["NodeID"])

    def get_runtime_context(self) -> Any:
        return SimpleNamespace(
            get_node_id=lambda: self.here, get_actor_id=self.acting._actor_id.hex
        )

    def remote(self, worker_class: type) -> Any:
        def with_options(**options: Any) -> Any:
            def start(*given: Any) -> Actor:
                self.actors.append(Actor(self, options, worker_class(*given)))
                return self.actors[-1]

            return SimpleNamespace(remote=start)

        return SimpleNamespace(options=with_options)

    def put(self, thing: Any) -> Reference:
        self.stored.append(thing)
        return Reference(lambda: thing)

    def get(self, reference: Reference, timeout: float) -> Any:
        assert timeout > 0
        if reference.actor is not None and reference.actor.hangs:
            raise Late
        return reference.read()

    def wait(
        self, streams: list[Any], num_returns: int = 1, timeout: float | None = None
    ) -> tuple[list[Any], list[Any]]:
        assert len(streams) >= num_returns
        for actor, node in itertools.product(self.actors, self.cluster):
            refused = str(actor.options.get("label_selector"))
            needed = actor.options["num_cpus"]
            if actor.node is None and node["free"] >= needed and node["NodeID"] not in refused:
                actor.node = node
                node["free"] -= needed
        ready = [
            stream
            for stream in streams
            if stream.actor.is_killed or (stream.actor.node and not stream.actor.hangs)
        ][:num_returns]
        return ready, [stream for stream in streams if stream not in ready]

    def kill(self, actor: Actor) -> None:
        if actor.node and not actor.is_killed:
            actor.node["free"] += actor.options["num_cpus"]
        actor.is_killed, actor.node = True, actor.node or {}

    def nodes(self) -> list[Node]:
        return self.cluster

    def available_resources(self) -> dict[str, float]:
        return {"CPU": sum(node["free"] for node in self.cluster)}
