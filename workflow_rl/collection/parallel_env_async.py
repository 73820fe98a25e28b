"""Asynchronous collection: workers act by themselves, and nobody waits for a step."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Generator, Iterable, Sequence

import cloudpickle

from agents.numpy_policy import Actor
from agents.trajectory import Trajectory
from workflow_rl.collection.episode import EpisodeSpec
from workflow_rl.collection.rollout import Rollout, in_order
from workflow_rl.collection.slots import Slot
from workflow_rl.collection.trace import COLLECTOR, Activity
from workflow_rl.collection.work import EpisodeWork, UnrollWork, Work
from workflow_rl.collection.worker import Command, FreeRun, FreeRunCount, Reply
from workflow_rl.collection.worker_pool import WorkerError, WorkerPool


class AsyncParallelEnv:
    """Plays episodes on a pool's workers, each acting by itself with a copy of the actor.

    Episode numbers are handed out to whichever worker is idle, so a slow episode delays nobody.
    As an episode depends on its spec and the actor alone, the rollout is the same, bit for bit,
    for any number of workers, any order of arrival, and any failures on the way. So are unrolls:
    which episodes an env plays depends on its number alone, wherever it lives.
    """

    def __init__(self, pool: WorkerPool, episodes_per_request: int = 1) -> None:
        self.pool = pool
        self.episodes_per_request = episodes_per_request
        self._unroll_work: UnrollWork | None = None
        self._pickled: tuple[Actor, bytes] | None = None
        self._loaded: list[Actor | None] = [None] * pool.n_workers

    def collect(self, actor: Actor, specs: Sequence[EpisodeSpec]) -> Rollout:
        """Play every spec. Raises TooManyFailuresError, StopRequested."""
        if self._unroll_work is not None:
            self._unroll_work.forget()
        return self._rollout(self.episode_work(specs, len(specs)), actor)

    def episode_work(self, specs: Iterable[EpisodeSpec], n_specs: float) -> EpisodeWork:
        """So many specs, or infinitely many, for `play`, in blocks that suit the workers."""
        return EpisodeWork(
            specs,
            n_specs,
            self.pool.n_workers,
            largest_block=self.episodes_per_request,
            smallest_block=self.pool.envs_per_worker,
        )

    def start_slots(self, slots: list[Slot], n_steps: int) -> None:
        """Say what `unroll` unrolls, and how many steps at a time."""
        self._unroll_work = UnrollWork(list(slots), self.pool.n_workers, n_steps)

    def unroll(self, actor: Actor, times: int = 1) -> Rollout:
        """Unroll every slot so many times. Raises TooManyFailuresError, StopRequested."""
        work = self.unroll_work()
        work.add_rounds(times)
        return self._rollout(work, actor)._replace(slots=tuple(work.slots))

    def unroll_work(self) -> UnrollWork:
        """The slots for `play`."""
        assert self._unroll_work is not None
        return self._unroll_work

    def _rollout(self, work: Work, actor: Actor) -> Rollout:
        start = time.perf_counter()
        failures_before = self.pool.failures
        trajectories: list[Trajectory] = []
        busy_seconds = 0.0
        for some, seconds in self.play(work, lambda: actor):
            trajectories += some
            busy_seconds += seconds
        return Rollout(
            trajectories=in_order(trajectories),
            collect_seconds=time.perf_counter() - start,
            busy_seconds=busy_seconds,
            n_workers=self.pool.n_workers,
            workers_restarted=self.pool.failures - failures_before,
        )

    def play(
        self, work: Work, newest: Callable[[], Actor | None]
    ) -> Generator[tuple[list[Trajectory], float], None, None]:
        """Have the workers do all the work there is, each request with the newest actor.

        Yields what they send, as it comes, with their busy seconds. While there is no newest actor
        nobody is asked, and once nobody is at work any more it ends: go on by calling it again.
        Raises TooManyFailuresError, StopRequested.
        """
        mark = functools.partial(self.pool.trace.mark, COLLECTOR)
        asked: set[int] = set()
        while True:
            mark(Activity.SENDING)
            for worker in range(self.pool.n_workers):
                if worker not in asked:
                    self._ask(worker, work, newest, asked)
            if not asked:
                mark(Activity.IDLE)
                return
            mark(Activity.WAITING)
            for worker in self.pool.ready(sorted(asked)):
                mark(Activity.RECEIVING)
                reply = self._receive(worker, work, asked)
                if reply is not None:
                    if work.answered(worker, reply.result):
                        asked.remove(worker)
                    mark(Activity.IDLE)
                    yield reply

    def _ask(
        self, worker: int, work: Work, newest: Callable[[], Actor | None], asked: set[int]
    ) -> None:
        while (actor := newest()) is not None and (request := work.request(worker)) is not None:
            asked.add(worker)
            try:
                if self._loaded[worker] is not actor:
                    if self._pickled is None or self._pickled[0] is not actor:
                        self._pickled = (actor, cloudpickle.dumps(actor))
                    self.pool.send(worker, Command.LOAD_ACTOR, self._pickled[1])
                    self._loaded[worker] = actor
                self.pool.send(worker, *request)
                return
            except WorkerError as error:
                self._replace(worker, error, work, asked)

    def _receive(self, worker: int, work: Work, asked: set[int]) -> Reply | None:
        try:
            return self.pool.receive(worker)
        except WorkerError as error:
            self._replace(worker, error, work, asked)
            return None

    def _replace(self, worker: int, error: WorkerError, work: Work, asked: set[int]) -> None:
        asked.remove(worker)
        work.lost(worker)
        self._loaded[worker] = None
        self.pool.replace(worker, error)

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
