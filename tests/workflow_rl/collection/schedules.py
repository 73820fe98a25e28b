"""Schedules on workers that play nothing: batches of one episode each, numbered."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from concurrent.futures import CancelledError
from typing import Any

import numpy as np

from workflow_rl.agents.policies.numpy_policy import NumpyPolicy, PolicyParameters
from workflow_rl.agents.trajectory import Trajectory
from workflow_rl.collection.free_running import FreeRunning
from workflow_rl.collection.rollout import Following, Rollout
from workflow_rl.collection.schedule import (
    BegunBatch,
    CollectorThread,
    ExactLag,
    PlayBatch,
    Share,
)
from workflow_rl.collection.trace import Trace

STEPS = 3


def policy_of(version: int) -> NumpyPolicy:
    layer = np.zeros((52, 145), np.float32)
    return NumpyPolicy(PolicyParameters((layer,), (layer[0],), "tanh"), version)


def rollout_of(number: int, policy: NumpyPolicy) -> Rollout:
    """An episode of this number, of 3 steps."""
    steps = np.zeros(STEPS)
    trajectory = Trajectory(
        number, "", policy.policy_version, steps, steps, steps, steps, steps, False, True
    )
    return Rollout([trajectory], 1.0, 0.5, n_workers=2, workers_restarted=number % 2)


class Counting(ExactLag):
    """Batches of one episode each, numbered as in a run: from those that it has given on."""

    def __init__(
        self,
        workers: Any,
        play_batch: PlayBatch,
        lag: int,
        begun: Sequence[BegunBatch] = (),
        given: int = 0,
    ) -> None:
        thread = CollectorThread(workers)
        super().__init__(thread, workers, play_batch, self._numbered, None, lag, begun)
        self._given = given

    def _numbered(self, begun_episodes: int) -> Share:
        return Share(self._given + begun_episodes, 1)

    def next_rollout(self, policy: NumpyPolicy) -> Rollout:
        rollout = super().next_rollout(policy)
        self._given += 1
        return rollout


class Workers:
    """Stands in for the pool and its collector; plays batches at once, or when allowed to."""

    def __init__(self, at_once: bool = True) -> None:
        self.begun: list[int] = []
        self.collected: list[int] = []
        self.allowed = threading.Semaphore(0)
        self.at_once = at_once
        self.cancelled = threading.Event()
        self.closed = threading.Event()
        self.trace = Trace()

    def cancel(self) -> None:
        self.cancelled.set()

    def close(self) -> None:
        self.closed.set()

    def play_batch(
        self, policy: NumpyPolicy, share: Share, following: Following = lambda: None
    ) -> Rollout:
        self.begun.append(share.first_episode)
        while not self.at_once and not self.allowed.acquire(timeout=0.02):
            if self.cancelled.is_set():
                raise CancelledError
        assert share.n_episodes == 1
        self.collected.append(share.first_episode)
        return rollout_of(share.first_episode, policy)

    def collect(self, policy: NumpyPolicy, specs: Any) -> Rollout:
        self.collected.append(-1)
        return rollout_of(-1, policy)

    def batches(self, newest: Any) -> Any:
        while (policy := newest()) is not None:
            yield self.play_batch(policy, Share(len([n for n in self.collected if n >= 0]), 1))

    def exact(self, lag: int, *resumed: Any) -> ExactLag:
        return Counting(self, self.play_batch, lag, *resumed)

    def free(self, capacity: int, **options: bool) -> FreeRunning:
        thread = CollectorThread(self)  # type: ignore[arg-type]
        return FreeRunning(thread, self, self.batches, capacity, **options)  # type: ignore[arg-type]


def number_and_version(rollout: Rollout) -> tuple[int, int]:
    (trajectory,) = rollout.trajectories
    return trajectory.episode, trajectory.policy_version


def begun_by(schedule: ExactLag) -> list[tuple[int, int]]:
    """Number and policy version of each batch that the learner has not had."""
    begun = schedule.begun()
    assert all(batch.share is not None for batch in begun)
    return [(batch.share.first_episode, batch.policy.policy_version) for batch in begun]
