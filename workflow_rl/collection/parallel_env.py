"""Synchronous collection: all environments step together, with a barrier at every step."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from agents.distributions import Actions
from agents.numpy_policy import Actor
from agents.trajectory import Trajectory
from workflow_rl.collection.env_batch import Obs, Transitions
from workflow_rl.collection.episode import EpisodeSpec
from workflow_rl.collection.play import Player, play_episodes
from workflow_rl.collection.rollout import Following, Rollout, in_order
from workflow_rl.collection.slots import Slot, advance, player_in
from workflow_rl.collection.trace import COLLECTOR, Activity
from workflow_rl.collection.worker import Command, Replay
from workflow_rl.collection.worker_pool import WorkerError, WorkerPool


class ParallelEnv:
    """`n_envs` environments on a pool's workers: env `i` is worker `i % n_workers`'s.

    Every call waits for all the workers it involves: the per-step barrier.
    """

    def __init__(self, pool: WorkerPool, n_envs: int) -> None:
        assert pool.n_workers * pool.envs_per_worker >= n_envs
        self.pool = pool
        self.n_envs = n_envs
        self.busy_seconds = 0.0
        # What brings an env back to where it is: an episode follows from its spec and its actions.
        self._episodes: dict[int, Replay] = {}
        self._player: Player | None = None
        self._slots: list[Slot] = []
        self._n_steps = 0

    def reset(self, envs: Sequence[int], specs: Sequence[EpisodeSpec]) -> Obs:
        """Begin an episode in each of M envs. Returns obs [M, D]."""
        for env, spec in zip(envs, specs, strict=True):
            self._episodes[env] = Replay(env // self.pool.n_workers, spec, [])
        return self._barrier(envs, Command.REPLAY, self._replays).obs

    def step(self, envs: Sequence[int], actions: Actions) -> Transitions:
        """Step each of M envs once."""
        row_of = {env: row for row, env in enumerate(envs)}
        taken = actions.tolist() if actions.ndim == 1 else actions
        for env, action in zip(envs, taken, strict=True):
            self._episodes[env].actions.append(action)
        return self._barrier(
            envs,
            Command.STEP,
            lambda group: (
                [env // self.pool.n_workers for env in group],
                actions[[row_of[env] for env in group]],
            ),
        )

    def close(self) -> None:
        """Close the pool."""
        self.pool.close()

    def _replays(self, envs: Sequence[int]) -> list[Replay]:
        return [self._episodes[env] for env in envs]

    def _barrier(
        self, envs: Sequence[int], command: Command, payload_for: Callable[[Sequence[int]], Any]
    ) -> Transitions:
        """Ask every worker that has some of the envs, and wait for all answers."""
        groups: dict[int, list[int]] = {}
        for env in envs:
            groups.setdefault(env % self.pool.n_workers, []).append(env)
        failed: dict[int, WorkerError] = {}
        self.pool.trace.mark(COLLECTOR, Activity.SENDING)
        for worker, group in groups.items():
            try:
                self.pool.send(worker, command, payload_for(group))
            except WorkerError as error:
                failed[worker] = error
        answers: list[Transitions] = []
        self.pool.trace.mark(COLLECTOR, Activity.WAITING)
        for worker, group in groups.items():
            if worker not in failed:
                try:
                    answers.append(self._receive(worker))
                except WorkerError as error:
                    failed[worker] = error
            if worker in failed:
                answers.append(self._recover(worker, failed[worker], group))
        self.pool.trace.mark(COLLECTOR, Activity.ACTING)
        # From the order of the workers to that of `envs`.
        asked = [env for group in groups.values() for env in group]
        row_of = {env: row for row, env in enumerate(asked)}
        rows = [row_of[env] for env in envs]
        return Transitions._make(np.concatenate(part)[rows] for part in zip(*answers, strict=True))

    def _receive(self, worker: int) -> Transitions:
        transitions, busy_seconds = self.pool.receive(worker)
        self.busy_seconds += busy_seconds
        assert isinstance(transitions, Transitions)
        return transitions

    def _recover(self, worker: int, error: WorkerError, group: Sequence[int]) -> Transitions:
        """Replace a worker and bring all its envs back. Returns the group's last transitions."""
        envs = [env for env in self._episodes if env % self.pool.n_workers == worker]
        while True:
            self.pool.replace(worker, error)
            try:
                self.pool.send(worker, Command.REPLAY, self._replays(envs))
                last = self._receive(worker)
            except WorkerError as next_error:
                error = next_error
            else:
                rows = [envs.index(env) for env in group]
                return Transitions._make(column[rows] for column in last)

    def collect(
        self,
        actor: Actor,
        specs: Sequence[EpisodeSpec],
        following: Following = lambda: None,
    ) -> Rollout:
        """Play every spec, with one batched forward pass for all envs at each step. What follows
        waits.

        Gives bit for bit what asynchronous collection gives.
        Raises TooManyFailuresError, StopRequested.
        """
        self._player = None  # Its envs are not where it left them.
        self._episodes.clear()
        return self._rollout(lambda: itertools.chain(*play_episodes(self, actor, specs)))

    def start_slots(self, slots: list[Slot], n_steps: int) -> None:
        """Say what `unroll` unrolls, and how many steps at a time."""
        self._slots, self._n_steps = list(slots), n_steps

    def unroll(self, actor: Actor, times: int = 1) -> Rollout:
        """Unroll every slot so many times. Raises TooManyFailuresError, StopRequested."""
        player = self._player = self._player or player_in(self, self._slots)
        rollout = self._rollout(
            lambda: itertools.chain(*(player.unroll(actor, self._n_steps) for _ in range(times)))
        )
        advance(self._slots, rollout.trajectories)
        return rollout._replace(slots=tuple(self._slots))

    def _rollout(self, play: Callable[[], Iterable[Trajectory]]) -> Rollout:
        start = time.perf_counter()
        failures_before, busy_before = self.pool.failures, self.busy_seconds
        trajectories = in_order(play())
        self.pool.trace.mark(COLLECTOR, Activity.IDLE)
        return Rollout(
            trajectories=trajectories,
            collect_seconds=time.perf_counter() - start,
            busy_seconds=self.busy_seconds - busy_before,
            n_workers=self.pool.n_workers,
            workers_restarted=self.pool.failures - failures_before,
        )
