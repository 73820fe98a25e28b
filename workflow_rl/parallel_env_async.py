"""Asynchronous collection: workers return complete episodes, and nobody waits for a step."""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Sequence

import cloudpickle

from agents.numpy_policy import Actor
from agents.trajectory import Trajectory
from workflow_rl.episode import EpisodeSpec
from workflow_rl.rollout import Rollout
from workflow_rl.worker import Command, FreeRun, FreeRunCount
from workflow_rl.worker_pool import WorkerError, WorkerPool


class AsyncParallelEnv:
    """Plays episodes on a pool's workers, each acting by itself with a copy of the actor.

    Episode numbers are handed out to whichever worker is idle, so a slow episode delays nobody.
    As an episode depends on its spec and the actor alone, the rollout is the same, bit for bit,
    for any number of workers, any order of arrival, and any failures on the way.
    """

    def __init__(self, pool: WorkerPool, episodes_per_request: int = 1) -> None:
        self.pool = pool
        self.episodes_per_request = episodes_per_request

    def collect(self, actor: Actor, specs: Sequence[EpisodeSpec]) -> Rollout:
        """Play every spec. Raises TooManyFailuresError, StopRequested."""
        start = time.perf_counter()
        failures_before = self.pool.failures
        waiting = deque(specs)
        playing: list[dict[int, EpisodeSpec]] = [{} for _ in range(self.pool.n_workers)]
        needs_actor = [True] * self.pool.n_workers
        pickled_actor = cloudpickle.dumps(actor)
        done: list[Trajectory] = []
        busy_seconds = 0.0
        while len(done) < len(specs):
            for index, held in enumerate(playing):
                if waiting and not held:
                    block = [waiting.popleft() for _ in range(self._block_size(len(waiting)))]
                    held.update((spec.number, spec) for spec in block)
                    try:
                        if needs_actor[index]:
                            self.pool.send(index, Command.LOAD_ACTOR, pickled_actor)
                            needs_actor[index] = False
                        self.pool.send(index, Command.PLAY, block)
                    except WorkerError as error:
                        self._replace(index, error, held, waiting, needs_actor)
            busy = [index for index, held in enumerate(playing) if held]
            for index in self.pool.ready(busy):
                try:
                    finished, seconds = self.pool.receive(index)
                except WorkerError as error:
                    self._replace(index, error, playing[index], waiting, needs_actor)
                else:
                    for trajectory in finished:
                        del playing[index][trajectory.episode]
                    done += finished
                    busy_seconds += seconds
        return Rollout(
            trajectories=sorted(done, key=lambda trajectory: trajectory.episode),
            collect_seconds=time.perf_counter() - start,
            busy_seconds=busy_seconds,
            n_workers=self.pool.n_workers,
            workers_restarted=self.pool.failures - failures_before,
        )

    def _block_size(self, n_waiting: int) -> int:
        # Guided self-scheduling (Polychronopoulos and Kuck 1987): large blocks while there is much
        # to do, small ones at the end, so that all workers finish at about the same time. But never
        # fewer episodes than a worker plays at once.
        share = math.ceil(n_waiting / (2 * self.pool.n_workers))
        block = max(self.pool.envs_per_worker, min(share, self.episodes_per_request))
        return min(block, n_waiting)

    def _replace(
        self,
        index: int,
        error: WorkerError,
        held: dict[int, EpisodeSpec],
        waiting: deque[EpisodeSpec],
        needs_actor: list[bool],
    ) -> None:
        waiting.extendleft(reversed(held.values()))
        held.clear()
        needs_actor[index] = True
        self.pool.replace(index, error)

    def free_run(
        self, actor: Actor, specs: Sequence[EpisodeSpec], seconds: float
    ) -> list[FreeRunCount]:
        """What each worker alone can play in that time, sending nothing back: the ceiling."""
        pickled_actor = cloudpickle.dumps(actor)
        for index in range(self.pool.n_workers):
            self.pool.send(index, Command.LOAD_ACTOR, pickled_actor)
            self.pool.send(index, Command.FREE_RUN, FreeRun(specs, seconds))
        return [self.pool.receive(index).result for index in range(self.pool.n_workers)]
