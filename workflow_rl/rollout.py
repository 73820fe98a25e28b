"""What one collection returns, and the one definition of utilisation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeAlias

from agents.numpy_policy import NumpyPolicy
from agents.trajectory import Trajectory
from workflow_rl.episode import EpisodeSpec


class Rollout(NamedTuple):
    """Complete trajectories in the order of their episode numbers, and how long they took.

    collect_seconds: wall time of the collection. busy_seconds: wall time that the workers spent
    stepping or acting (resets included), added up over all workers.
    """

    trajectories: list[Trajectory]
    collect_seconds: float
    busy_seconds: float
    n_workers: int
    workers_restarted: int

    @property
    def env_steps(self) -> int:
        """Env transitions in all."""
        return sum(trajectory.length for trajectory in self.trajectories)

    @property
    def worker_seconds(self) -> float:
        """Wall time of the collection, added up over all workers."""
        return self.n_workers * self.collect_seconds

    @property
    def utilisation(self) -> float:
        """The workers' utilisation over the collection."""
        return utilisation(self.busy_seconds, self.worker_seconds)


def utilisation(busy_seconds: float, worker_seconds: float) -> float:
    """Share of the workers' wall time spent stepping or acting, resets included, from 0 to 1.

    Both are sums over all workers: over a collection, or over a whole run, learning included. Where
    workers outnumber the cores, waiting for a core in the middle of a step counts as busy.
    """
    return busy_seconds / worker_seconds


Collect: TypeAlias = Callable[[NumpyPolicy, Sequence[EpisodeSpec]], Rollout]
"""Synchronous and asynchronous training differ in this function alone."""
