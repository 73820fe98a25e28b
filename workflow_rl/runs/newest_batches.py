"""Batches that are collected without pause, with the newest weights: whole, or first-come."""

import itertools
import math
import threading
import time
from collections import deque
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import TypeAlias

from workflow_rl.agents.policies.numpy_policy import Policy
from workflow_rl.agents.trajectory import Trajectory
from workflow_rl.collection.assignments import EpisodeAssignments, UnrollAssignments
from workflow_rl.collection.async_collector import AsyncCollector
from workflow_rl.collection.pool import POLL_SECONDS
from workflow_rl.collection.rollout import Following, Rollout, finite, in_order, joined_rollouts
from workflow_rl.collection.schedule import BegunBatch, NextShare, PlayBatch, Schedule
from workflow_rl.collection.trace import Activity
from workflow_rl.environments.episode import EpisodeSpec, episode_spec
from workflow_rl.runs.config import TrainConfig
from workflow_rl.runs.training_state import TrainingState

Newest: TypeAlias = Callable[[], Policy | None]
"""Returns the current policy to collect with; None if collecting must pause."""

Batches: TypeAlias = Callable[[Newest], Generator[Rollout, None, None]]
"""Collects one batch after another until a pause. A further call continues after the pause."""


@dataclass(eq=False)
class FreeRunning(Schedule):
    """Collects batches without pause with the newest weights. The batches wait for the learner.

    The weights of a batch depend on the speeds of workers and learner, so runs differ.

    capacity: the most batches that may wait. At this number, collecting is held until the learner
    takes a batch, or, with `drop`, the oldest batch is dropped. Without `drop`, the agent learns
    from every step, and the ratio of gradient steps to collected steps does not change. This is a
    rate limiter, as in Cassirer et al. 2021, "Reverb: A Framework for Experience Replay".
    take_all: the learner takes all waiting batches at once.
    """

    batches: Batches
    capacity: int
    drop: bool = False
    take_all: bool = False

    def __post_init__(self) -> None:
        self._collecting: Future[Rollout | None] | None = None
        self._changed = threading.Condition()  # Guards all below.
        self._waiting: deque[Rollout] = deque()
        self._to_put: deque[Rollout] = deque()
        self._dropped: list[Rollout] = []
        self._held_seconds = 0.0
        self._policy: Policy | None = None

    def begin(self, policy: Policy) -> None:
        with self._changed:
            self._policy = policy
            if self._collecting is None:
                self._collecting = self.thread.submit(self._collect)

    def next_rollout(self, policy: Policy) -> Rollout:
        """Wait for a batch. Return the batch that waited longest, or all waiting batches."""
        self.begin(policy)
        with self._changed:
            assert self._collecting is not None
            while not self._waiting and not self._collecting.done():
                self._changed.wait(POLL_SECONDS)  # Wakes up for signals: see result_of.
            if not self._waiting:
                self._collecting.result()
            taken = [self._waiting.popleft()]
            while self.take_all and self._waiting:
                taken.append(self._waiting.popleft())
            dropped, self._dropped = self._dropped, []
            held_seconds, self._held_seconds = self._held_seconds, 0.0
            queue_length = len(self._waiting)
            self._changed.notify_all()
        return joined_rollouts(dropped + taken)._replace(
            queue_length=queue_length, held_seconds=held_seconds
        )

    def evaluate(self, policy: Policy, specs: Sequence[EpisodeSpec]) -> Rollout:
        """Play these episodes after the workers have finished their requests. No step is lost."""
        self._pause()
        self._collecting = None
        return super().evaluate(policy, specs)

    def begun(self) -> list[BegunBatch]:
        """Return no batches, because a resumed run begins new batches."""
        return []

    def __exit__(self, *error: object) -> None:
        self._pause()
        super().__exit__(*error)

    def _pause(self) -> None:
        """Let collecting end soon. The next call of `next_rollout` continues collecting."""
        with self._changed:
            self._policy = None
            self._changed.notify_all()

    def _collect(self, following: Following) -> None:
        self._put()
        for rollout in self.batches(lambda: self._policy):
            self._to_put.append(rollout)
            self._put()

    def _put(self) -> None:
        """Move collected batches to the waiting batches, until a pause."""
        with self._changed:
            while self._to_put:
                if self.drop and len(self._waiting) == self.capacity:
                    self._dropped = [
                        joined_rollouts([*self._dropped, self._waiting.popleft().dropped()])
                    ]
                if len(self._waiting) == self.capacity:
                    self._hold()
                if len(self._waiting) == self.capacity:
                    return
                self._waiting.append(self._to_put.popleft())
                self._changed.notify_all()

    def _hold(self) -> None:
        """Wait until the learner takes a batch, or until a pause."""
        start = time.perf_counter()
        self.thread.mark(Activity.HELD)
        self._changed.wait_for(lambda: len(self._waiting) < self.capacity or self._policy is None)
        self.thread.mark(Activity.IDLE)
        self._held_seconds += time.perf_counter() - start


def whole_batches(play_batch: PlayBatch, next_share: NextShare, first_episode: int) -> Batches:
    """Return a function that plays one share after another, each with the newest weights."""

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
    """Batches of the trajectories that arrive first. state: the run's counters at its start."""

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
        # Unfinished episodes come first, then the episodes that have not begun.
        following = itertools.count(state.episodes + len(state.unfinished))
        numbers = itertools.chain(state.unfinished, following)
        total = config.total_of_curriculum
        specs = (episode_spec(config.seed, number, variants, total=total) for number in numbers)
        return self._collector.episode_assignments(specs, math.inf)

    def batches(self, newest: Newest) -> Generator[Rollout, None, None]:
        """Yield one batch after another. Trajectories left at a pause go into the next batch."""
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
