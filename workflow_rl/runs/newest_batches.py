"""Batches that are collected with the newest weights: whole, or of what comes first."""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Generator

from workflow_rl.agents.trajectory import Trajectory
from workflow_rl.collection.assignments import EpisodeAssignments, UnrollAssignments
from workflow_rl.collection.async_collector import AsyncCollector
from workflow_rl.collection.free_running import Batches, Newest
from workflow_rl.collection.rollout import Rollout, finite, in_order
from workflow_rl.collection.schedule import NextShare, PlayBatch
from workflow_rl.environments.episode import episode_spec
from workflow_rl.runs.config import TrainConfig
from workflow_rl.runs.training_state import TrainingState


def whole_batches(play_batch: PlayBatch, next_share: NextShare, first_episode: int) -> Batches:
    """Return what plays one share after another, each with the newest weights."""

    def batches(newest: Newest) -> Generator[Rollout, None, None]:
        nonlocal first_episode
        start = time.perf_counter()
        while (policy := newest()) is not None:
            share = next_share(0)._replace(first_episode=first_episode)
            first_episode = share.end
            rollout = play_batch(policy, share, lambda: None)
            now = time.perf_counter()
            yield rollout._replace(collect_seconds=now - start)
            start = now

    return batches


class FirstCome:
    """Batches of what the workers send first. state: where the run begins."""

    def __init__(
        self, config: TrainConfig, collector: AsyncCollector, state: TrainingState
    ) -> None:
        self._config = config
        self._collector = collector
        self._work = self._endless_work(state)
        self._n_skipped = 0
        self._trajectories: list[Trajectory] = []
        self._seconds = self._busy_seconds = 0.0
        self._failures_before = 0

    def _endless_work(self, state: TrainingState) -> EpisodeAssignments | UnrollAssignments:
        config = self._config
        if config.num_steps_per_env is not None:
            unrolls = self._collector.unroll_assignments()
            unrolls.add_rounds(math.inf)
            return unrolls
        variants = config.environment.variants
        # Each number is of an episode that is finished, unfinished, or still to begin.
        following = itertools.count(state.episodes + len(state.unfinished))
        numbers = itertools.chain(state.unfinished, following)
        total = config.total_of_curriculum
        specs = (episode_spec(config.seed, number, variants, total=total) for number in numbers)
        return self._collector.episode_assignments(specs, math.inf)

    def batches(self, newest: Newest) -> Generator[Rollout, None, None]:
        """Yield one batch after another. What is left at a pause is the beginning of the next."""
        start = time.perf_counter()
        for trajectories, busy_seconds in self._collector.play(self._work, newest):
            self._trajectories += trajectories
            self._busy_seconds += busy_seconds
            if self._is_enough():
                now = time.perf_counter()
                self._seconds += now - start
                start = now
                yield self._take()
        self._seconds += time.perf_counter() - start

    def _is_enough(self) -> bool:
        if self._config.episodes_per_update is not None:
            return len(self._trajectories) >= self._config.episodes_per_update
        assert self._config.steps_per_update is not None
        return sum(t.length for t in self._trajectories) >= self._config.steps_per_update

    def _take(self) -> Rollout:
        pool, work = self._collector.pool, self._work
        rollout = finite(
            Rollout(
                trajectories=in_order(self._trajectories),
                collect_seconds=self._seconds,
                busy_seconds=self._busy_seconds,
                n_workers=pool.n_workers,
                workers_restarted=pool.failures - self._failures_before,
                positions=tuple(work.positions) if isinstance(work, UnrollAssignments) else (),
                skipped=tuple(work.skipped[self._n_skipped :]),
                unfinished=tuple(work.unfinished) if isinstance(work, EpisodeAssignments) else (),
            )
        )
        self._trajectories = []
        self._seconds = self._busy_seconds = 0.0
        self._failures_before = pool.failures
        self._n_skipped = len(work.skipped)
        return rollout
