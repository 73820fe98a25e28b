"""Asynchronous collection: workers act by themselves, and nobody waits for a step."""

from __future__ import annotations

import functools
import itertools
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence

import cloudpickle

from agents.policies.numpy_policy import Actor
from agents.trajectory import Trajectory
from workflow_rl.collection.assignments import EpisodeAssignments, UnrollAssignments, Work
from workflow_rl.collection.env_positions import EnvPosition
from workflow_rl.collection.failures import WorkerError, Workers, unplayable
from workflow_rl.collection.rollout import Following, Rollout, in_order, require_any
from workflow_rl.collection.trace import COLLECTOR, Activity
from workflow_rl.collection.worker import Command, FreeRun, FreeRunCount, Reply
from workflow_rl.environments.episode import EpisodeSpec


class _Batch:
    """Episodes that are being collected with one actor, and what has come of them."""

    def __init__(
        self, actor: Actor, specs: Sequence[EpisodeSpec], work: EpisodeAssignments
    ) -> None:
        self.actor = actor
        self.specs = list(specs)
        self.work = work
        self.trajectories: list[Trajectory] = []
        self.busy_seconds = 0.0

    @property
    def n_left(self) -> int:
        """How many episodes are still to come."""
        return len(self.specs) - len(self.trajectories) - len(self.work.skipped)

    def plays(self, actor: Actor, specs: Sequence[EpisodeSpec]) -> bool:
        return self.actor is actor and self.specs == list(specs)


class AsyncCollector:
    """Plays episodes on a pool's workers, each acting by itself with a copy of the actor.

    Episode numbers are handed out to whichever worker is idle, so a slow episode delays nobody.
    As an episode depends on its spec and the actor alone, the rollout is the same, bit for bit,
    for any number of workers, any order of arrival, and any failures on the way. So are unrolls:
    which episodes an env plays depends on its number alone, wherever it lives.
    """

    def __init__(self, pool: Workers, episodes_per_request: int = 1) -> None:
        self.pool = pool
        self.episodes_per_request = episodes_per_request
        self._unroll_work: UnrollAssignments | None = None
        self._ahead: _Batch | None = None
        self._asked: dict[int, Work] = {}
        self._pickled: tuple[Actor, bytes] | None = None
        self._loaded: list[Actor | None] = [None] * pool.n_workers

    def collect(
        self,
        actor: Actor,
        specs: Sequence[EpisodeSpec],
        following: Following = lambda: None,
    ) -> Rollout:
        """Play every spec. Raises TooManyFailuresError, StopRequested.

        following: what is to be collected next, once that is known. Workers for which nothing is
        left begin with it, instead of waiting for the longest episode.
        """
        if self._unroll_work is not None:
            self._unroll_work.forget()
        batch = self._begun(actor, specs)
        if batch is self._ahead:
            self._ahead = None
        start = time.perf_counter()
        failures_before = self.pool.failures

        def sources() -> Iterator[tuple[Work, Actor]]:
            yield batch.work, actor
            after = following()
            if after is not None:
                ahead = self._ahead = self._begun(*after)
                yield ahead.work, ahead.actor

        if batch.n_left:
            for work, trajectories, busy_seconds in self._play(sources):
                # Of a batch that was begun and then given up, workers may still send some.
                for owner in (batch, self._ahead):
                    if owner is not None and owner.work is work:
                        owner.trajectories += trajectories
                        owner.busy_seconds += busy_seconds
                if not batch.n_left:
                    break
        return require_any(
            Rollout(
                trajectories=in_order(batch.trajectories),
                collect_seconds=time.perf_counter() - start,
                busy_seconds=batch.busy_seconds,
                n_workers=self.pool.n_workers,
                workers_restarted=self.pool.failures - failures_before,
                skipped=tuple(batch.work.skipped),
            )
        )

    def _begun(self, actor: Actor, specs: Sequence[EpisodeSpec]) -> _Batch:
        if self._ahead is not None and self._ahead.plays(actor, specs):
            return self._ahead
        return _Batch(actor, specs, self.episode_work(specs, len(specs)))

    def episode_work(self, specs: Iterable[EpisodeSpec], n_specs: float) -> EpisodeAssignments:
        """So many specs, or infinitely many, for `play`, in blocks that suit the workers."""
        return EpisodeAssignments(
            specs,
            n_specs,
            self.pool.n_workers,
            largest_block=self.episodes_per_request,
            smallest_block=self.pool.envs_per_worker,
        )

    def start_unrolls(self, slots: list[EnvPosition], n_steps: int) -> None:
        """Say what `unroll` unrolls, and how many steps at a time."""
        self._unroll_work = UnrollAssignments(list(slots), self.pool.n_workers, n_steps)

    def unroll(self, actor: Actor, times: int = 1) -> Rollout:
        """Unroll every slot so many times. Raises TooManyFailuresError, StopRequested."""
        work = self.unroll_work()
        work.add_rounds(times)
        n_skipped = len(work.skipped)
        start = time.perf_counter()
        failures_before = self.pool.failures
        replies = list(self.play(work, lambda: actor))
        return Rollout(
            trajectories=in_order(itertools.chain(*(trajectories for trajectories, _ in replies))),
            collect_seconds=time.perf_counter() - start,
            busy_seconds=sum(seconds for _, seconds in replies),
            n_workers=self.pool.n_workers,
            workers_restarted=self.pool.failures - failures_before,
            slots=tuple(work.slots),
            skipped=tuple(work.skipped[n_skipped:]),
        )

    def unroll_work(self) -> UnrollAssignments:
        """The slots for `play`."""
        assert self._unroll_work is not None
        return self._unroll_work

    def play(
        self, work: Work, newest: Callable[[], Actor | None]
    ) -> Generator[tuple[list[Trajectory], float], None, None]:
        """Have the workers do all the work there is, each request with the newest actor.

        Yields what they send, as it comes, with their busy seconds. While there is no newest actor
        nobody is asked, and once nobody is at work any more it ends: go on by calling it again.
        Raises TooManyFailuresError, StopRequested.
        """

        def sources() -> Iterator[tuple[Work, Actor]]:
            actor = newest()
            if actor is not None:
                yield work, actor

        for _, trajectories, busy_seconds in self._play(sources):
            yield trajectories, busy_seconds

    def _play(
        self, sources: Callable[[], Iterable[tuple[Work, Actor]]]
    ) -> Generator[tuple[Work, list[Trajectory], float], None, None]:
        """Have idle workers do the first work that has something for them, until none has and
        nobody is at work any more. Yields what they send, with the work that it is of."""
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
                reply = self._receive(worker)
                if reply is not None:
                    work = self._asked[worker]
                    if work.answered(worker, reply.result):
                        del self._asked[worker]
                    mark(Activity.IDLE)
                    yield work, *reply

    def _ask(self, worker: int, sources: Callable[[], Iterable[tuple[Work, Actor]]]) -> None:
        for work, actor in sources():
            while (request := work.request(worker)) is not None:
                self._asked[worker] = work
                try:
                    if self._loaded[worker] is not actor:
                        if self._pickled is None or self._pickled[0] is not actor:
                            self._pickled = (actor, cloudpickle.dumps(actor))
                        self.pool.send(worker, Command.LOAD_ACTOR, self._pickled[1])
                        self._loaded[worker] = actor
                    self.pool.send(worker, *request)
                    return
                except WorkerError as error:
                    self._replace(worker, error)

    def _receive(self, worker: int) -> Reply | None:
        try:
            return self.pool.receive(worker)
        except WorkerError as error:
            self._replace(worker, error)
            return None

    def _replace(self, worker: int, error: WorkerError) -> None:
        work = self._asked.pop(worker)
        self._loaded[worker] = None
        self.pool.replace(worker, error)
        work.lost(worker, unplayable(self.pool, error))

    def free_run(
        self, actor: Actor, specs: Sequence[EpisodeSpec], seconds: float
    ) -> list[FreeRunCount]:
        """What each worker alone can play in that time, sending nothing back: the ceiling."""
        pickled_actor = cloudpickle.dumps(actor)
        for worker in range(self.pool.n_workers):
            self.pool.send(worker, Command.LOAD_ACTOR, pickled_actor)
            self.pool.send(worker, Command.FREE_RUN, FreeRun(specs, seconds))
        self._loaded = [None] * self.pool.n_workers
        return [self.pool.receive(worker).result for worker in range(self.pool.n_workers)]
