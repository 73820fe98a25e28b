"""Asynchronous collection: workers act by themselves, and do not wait for each other's steps."""

import functools
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from typing import NamedTuple, TypeAlias

import cloudpickle

from workflow_rl.agents.policies.numpy_policy import Actor
from workflow_rl.collection.assignments import (
    Assignments,
    EnvPosition,
    EpisodeAssignments,
    UnrollAssignments,
)
from workflow_rl.collection.messages import Command, Reply, WorkerError
from workflow_rl.collection.pool import AnyPool
from workflow_rl.collection.rollout import Following, Gathering, Rollout, require_any
from workflow_rl.collection.trace import COLLECTOR, Activity
from workflow_rl.environments.episode import EpisodeSpec

Sources: TypeAlias = Callable[[], Iterable[tuple[Assignments, Actor]]]
"""Return assignments for idle workers, each with its actor. The most urgent come first."""


class _Batch(NamedTuple):
    """Episodes that are collected with one actor, and their trajectories so far."""

    actor: Actor
    specs: list[EpisodeSpec]
    assignments: EpisodeAssignments
    gathering: Gathering

    @property
    def n_left(self) -> int:
        n_gathered = len(self.gathering.trajectories)
        return len(self.specs) - n_gathered - len(self.assignments.skipped)


class AsyncCollector:
    """Plays episodes on a pool's workers. Each worker acts by itself with a copy of the actor.

    An idle worker gets the next episode, so a slow episode does not delay other workers. An episode
    depends only on its spec and the actor. An unrolled env's episodes depend only on its number and
    the actor. Therefore the number of workers, the order of arrival and failures do not change a
    rollout by a bit.
    """

    def __init__(self, pool: AnyPool, episodes_per_request: int = 1) -> None:
        self.pool = pool
        self.episodes_per_request = episodes_per_request
        self._unrolls: UnrollAssignments | None = None
        self._ahead: _Batch | None = None
        self._asked: dict[int, Assignments] = {}
        self._pickled: tuple[Actor, bytes] | None = None
        self._loaded: list[Actor | None] = [None] * pool.n_workers

    def collect(
        self, actor: Actor, specs: Sequence[EpisodeSpec], following: Following = lambda: None
    ) -> Rollout:
        """Play every spec. Workers without work begin with the next collection, `following`."""
        if self._unrolls is not None:
            self._unrolls.forget()
        batch = self._begun(actor, specs)
        if batch is self._ahead:
            self._ahead = None
        batch.gathering.start()

        def sources() -> Iterator[tuple[Assignments, Actor]]:
            yield batch.assignments, actor
            after = following()
            if after is not None:
                ahead = self._ahead = self._begun(*after)
                yield ahead.assignments, ahead.actor

        if batch.n_left:
            for assignments, reply in self._play(sources):
                # Workers may also send episodes of a batch that was begun and then dropped.
                for owner in (batch, self._ahead):
                    if owner is not None and owner.assignments is assignments:
                        owner.gathering.add(*reply)
                if not batch.n_left:
                    break
        return require_any(batch.gathering.rollout(batch.assignments.skipped))

    def _begun(self, actor: Actor, specs: Sequence[EpisodeSpec]) -> _Batch:
        ahead = self._ahead
        if ahead is not None and ahead.actor is actor and ahead.specs == list(specs):
            return ahead
        assignments = self.episode_assignments(specs, len(specs))
        return _Batch(actor, list(specs), assignments, Gathering(self.pool))

    def episode_assignments(
        self, specs: Iterable[EpisodeSpec], n_specs: float
    ) -> EpisodeAssignments:
        """Return assignments for `play`, in blocks for these workers. n_specs: may be infinity."""
        return EpisodeAssignments(
            specs,
            n_specs,
            self.pool.n_workers,
            largest_block=self.episodes_per_request,
            smallest_block=self.pool.envs_per_worker,
        )

    def start_unrolls(self, positions: Sequence[EnvPosition], n_steps: int) -> None:
        self._unrolls = UnrollAssignments(list(positions), self.pool.n_workers, n_steps)

    def unroll(self, actor: Actor, times: int = 1) -> Rollout:
        unrolls = self.unroll_assignments()
        unrolls.add_rounds(times)
        n_skipped = len(unrolls.skipped)
        gathering = Gathering(self.pool)
        for reply in self.play(unrolls, lambda: actor):
            gathering.add(*reply)
        return gathering.rollout(unrolls.skipped[n_skipped:], unrolls.positions)

    def unroll_assignments(self) -> UnrollAssignments:
        assert self._unrolls is not None
        return self._unrolls

    def play(
        self, assignments: Assignments, newest: Callable[[], Actor | None]
    ) -> Generator[Reply, None, None]:
        """Let the workers do all assignments, each request with the newest actor.

        Yields the replies in the order of arrival. If `newest` returns None, no worker gets a
        request, and the generator ends when all workers are idle: call again to continue. Raises
        TooManyFailuresError, StopRequested.
        """

        def sources() -> Iterator[tuple[Assignments, Actor]]:
            actor = newest()
            if actor is not None:
                yield assignments, actor

        for _, reply in self._play(sources):
            yield reply

    def _play(self, sources: Sources) -> Generator[tuple[Assignments, Reply], None, None]:
        """Ask idle workers, until the sources have no requests left and all workers are idle.

        Yields each reply with its assignments.
        """
        mark = functools.partial(self.pool.trace.mark, COLLECTOR)
        while True:
            mark(Activity.SENDING)
            for worker in range(self.pool.n_workers):
                if worker not in self._asked:
                    self._ask(worker, sources)
            if not self._asked:
                mark(Activity.IDLE)
                return
            mark(Activity.WAITING)
            for worker in self.pool.ready(sorted(self._asked)):
                mark(Activity.RECEIVING)
                try:
                    reply = self.pool.receive(worker)
                except WorkerError as error:
                    self._replace(worker, error)
                    continue
                assignments = self._asked[worker]
                if assignments.answered(worker, reply.result):
                    del self._asked[worker]
                mark(Activity.IDLE)
                yield assignments, reply

    def _ask(self, worker: int, sources: Sources) -> None:
        for assignments, actor in sources():
            while (request := assignments.request(worker)) is not None:
                self._asked[worker] = assignments
                try:
                    self._load(worker, actor)
                    self.pool.send(worker, *request)
                    return
                except WorkerError as error:
                    self._replace(worker, error)

    def _load(self, worker: int, actor: Actor) -> None:
        if self._loaded[worker] is not actor:
            if self._pickled is None or self._pickled[0] is not actor:
                self._pickled = (actor, cloudpickle.dumps(actor))
            self.pool.send(worker, Command.LOAD_ACTOR, self._pickled[1])
            self._loaded[worker] = actor

    def _replace(self, worker: int, error: WorkerError) -> None:
        assignments = self._asked.pop(worker)
        self._loaded[worker] = None
        self.pool.replace(worker, error)
        unplayable = self.pool.unplayable_episode(error)
        assignments.lost(worker, None if unplayable is None else unplayable.number)
