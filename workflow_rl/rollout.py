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

    def utilisation(self, wall_seconds: float) -> float:
        """Share of the workers' wall time spent stepping or acting, from 0 to 1.

        `busy_seconds / (n_workers * wall_seconds)`: over the collection if `wall_seconds` is
        `collect_seconds`; over the whole run if it is the run's wall time (and the rollout's
        busy_seconds the run's sum).
        """
        return self.busy_seconds / (self.n_workers * wall_seconds)


Collect: TypeAlias = Callable[[NumpyPolicy, Sequence[EpisodeSpec]], Rollout]
"""Synchronous and asynchronous training differ in this function alone."""
