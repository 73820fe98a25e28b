"""The rollout that a collection returns, the interface of collectors, and utilisation."""

import time
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple, Protocol, Self, TypeAlias

import numpy as np

from workflow_rl.agents.policies.numpy_policy import Actor
from workflow_rl.agents.trajectory import Trajectory
from workflow_rl.collection.assignments import EnvPosition
from workflow_rl.collection.messages import TooManyFailuresError
from workflow_rl.collection.pool import AnyPool
from workflow_rl.environments.episode import EpisodeSpec
from workflow_rl.errors import ObservationError


class Rollout(NamedTuple):
    """Trajectories in the order of their episodes and steps, and how they were collected.

    collect_seconds: wall time of the collection. If collecting never stops, this time and all
        counts begin at the rollout before.
    busy_seconds: wall time that workers spent stepping, acting or resetting, added up.
    workers_restarted: workers that failed and were replaced.
    positions: the envs' positions after unrolls.
    dropped_steps, dropped_episodes: env steps, and ends of episodes, that were collected but
        dropped because the queue was full.
    queue_length: the number of waiting batches when the learner took this batch.
    held_seconds: wall time for which collecting waited because the learner was behind.
    skipped: the numbers of unplayable episodes.
    unfinished: if collecting never stops, the numbers of the begun episodes that are in no rollout
        yet.
    """

    trajectories: list[Trajectory]
    collect_seconds: float
    busy_seconds: float
    n_workers: int
    workers_restarted: int
    positions: tuple[EnvPosition, ...] = ()
    dropped_steps: int = 0
    dropped_episodes: int = 0
    queue_length: int = 0
    held_seconds: float = 0.0
    skipped: tuple[int, ...] = ()
    unfinished: tuple[int, ...] = ()

    @property
    def steps_to_learn(self) -> int:
        return sum(trajectory.length for trajectory in self.trajectories)

    @property
    def env_steps(self) -> int:
        """Env steps, including dropped ones."""
        return self.steps_to_learn + self.dropped_steps

    @property
    def episodes(self) -> int:
        """Episodes that ended or were skipped, including dropped ones."""
        return len(self.returns) + self.dropped_episodes + len(self.skipped)

    @property
    def returns(self) -> list[float]:
        return [t.episode_return for t in self.trajectories if t.ended]

    @property
    def episode_costs(self) -> list[list[float]]:
        """The sums of the costs of the episodes that ended, in the order of `returns`."""
        return [t.episode_costs.tolist() for t in self.trajectories if t.ended]

    @property
    def variants(self) -> list[str]:
        """The variants of the episodes that ended, in the order of `returns`."""
        return [t.variant for t in self.trajectories if t.ended]

    @property
    def episode_lengths(self) -> list[int]:
        """The steps of each episode that ended, in the order of `returns`."""
        return [t.steps_before + t.length for t in self.trajectories if t.ended]

    @property
    def truncated_share(self) -> float:
        """The share of ended episodes that did not terminate; NaN if no episode ended."""
        ended = [t.terminated for t in self.trajectories if t.ended]
        return 1 - sum(ended) / len(ended) if ended else float("nan")

    def n_unrolls(self, num_steps_per_env: int | None) -> float:
        """Return the number of unrolls of single envs, or of complete episodes: ALF's K."""
        if num_steps_per_env is None:
            return len(self.trajectories)
        return self.steps_to_learn / num_steps_per_env

    def dropped(self) -> Self:
        """Return the rollout without its trajectories, which count as dropped."""
        return self._replace(
            trajectories=[],
            dropped_steps=self.env_steps,
            dropped_episodes=self.episodes - len(self.skipped),
        )

    @property
    def worker_seconds(self) -> float:
        """Wall time of the collection, added up over all workers."""
        return self.n_workers * self.collect_seconds

    @property
    def utilisation(self) -> float:
        return utilisation(self.busy_seconds, self.worker_seconds)


class Gathering:
    """The trajectories that workers sent for a rollout, and the time and failures since `start`."""

    def __init__(self, pool: AnyPool) -> None:
        self._pool = pool
        self.trajectories: list[Trajectory] = []
        self._busy_seconds = 0.0
        self.start()

    def start(self) -> None:
        """Count the time and the failures of workers from now on."""
        self._start, self._failures_before = time.perf_counter(), self._pool.failures

    def add(self, trajectories: Iterable[Trajectory], busy_seconds: float) -> None:
        self.trajectories += trajectories
        self._busy_seconds += busy_seconds

    def rollout(self, skipped: Iterable[int], positions: Iterable[EnvPosition] = ()) -> Rollout:
        return Rollout(
            trajectories=in_order(self.trajectories),
            collect_seconds=time.perf_counter() - self._start,
            busy_seconds=self._busy_seconds,
            n_workers=self._pool.n_workers,
            workers_restarted=self._pool.failures - self._failures_before,
            positions=tuple(positions),
            skipped=tuple(skipped),
        )


def utilisation(busy_seconds: float, worker_seconds: float) -> float:
    """Return the share of the workers' wall time spent stepping, acting or resetting.

    Both arguments are sums over all workers, of a collection or of a whole run with its learning.
    The share of a run is from 0 to 1. The share of one update can be above 1, because workers may
    have played parts of its batch earlier. If workers outnumber the cores, waiting for a core in
    the middle of a step counts as busy.
    """
    return busy_seconds / worker_seconds


def require_any(rollout: Rollout) -> Rollout:
    """Return the rollout. Raises TooManyFailuresError if all its episodes were left out."""
    if not rollout.trajectories and rollout.skipped:
        raise TooManyFailuresError(
            f"all {len(rollout.skipped)} episodes of a batch raise exceptions, the first of them "
            f"episode {min(rollout.skipped)}",
            is_of_episodes=True,
            rollout=rollout,
        )
    return rollout


def what_is_not_finite(trajectories: Iterable[Trajectory]) -> str | None:
    """Name the field, step and episode of the first NaN or infinite number. None without one."""
    for trajectory in trajectories:
        rows = {"reward": trajectory.reward[:, None]}
        if trajectory.obs.dtype.kind == "f":
            rows["observation"] = np.vstack([trajectory.obs, trajectory.last_obs])
        for name, numbers in rows.items():
            if not np.isfinite(numbers).all():
                row = int(np.argmin(np.isfinite(numbers).all(axis=1)))
                return (
                    f"the environment's {name} is not finite at step "
                    f"{trajectory.steps_before + row} of episode {trajectory.episode}"
                )
    return None


def outweighing(trajectories: Iterable[Trajectory]) -> str | None:
    """Return a warning that names the first reward above 1e12 or below -1e12, or None."""
    for played in trajectories:
        for t in np.flatnonzero(np.abs(played.reward) > 1e12):
            where = f"step {played.steps_before + t} of episode {played.episode}"
            paid = f"the reward of {played.reward[t]:g} at {where}"
            return f"{paid} outweighs all others: it decides means and the best agent"
    return None


def in_order(trajectories: Iterable[Trajectory]) -> list[Trajectory]:
    return sorted(trajectories, key=lambda t: (t.episode, t.steps_before))


def joined_rollouts(rollouts: Sequence[Rollout]) -> Rollout:
    return rollouts[-1]._replace(
        trajectories=in_order(t for rollout in rollouts for t in rollout.trajectories),
        collect_seconds=sum(rollout.collect_seconds for rollout in rollouts),
        busy_seconds=sum(rollout.busy_seconds for rollout in rollouts),
        workers_restarted=sum(rollout.workers_restarted for rollout in rollouts),
        dropped_steps=sum(rollout.dropped_steps for rollout in rollouts),
        dropped_episodes=sum(rollout.dropped_episodes for rollout in rollouts),
        skipped=tuple(number for rollout in rollouts for number in rollout.skipped),
    )


Following: TypeAlias = Callable[[], tuple[Actor, Sequence[EpisodeSpec]] | None]
"""Returns the actor and the specs of the next collection; None while they are not known."""


class Collector(Protocol):
    """Turns a policy into rollouts. Synchronous and asynchronous training differ only in this.

    Calls raise TooManyFailuresError and StopRequested.
    """

    def collect(
        self, actor: Actor, specs: Sequence[EpisodeSpec], following: Following = lambda: None
    ) -> Rollout:
        """Play every spec. following: returns the next collection, when it is known."""

    def start_unrolls(self, positions: Sequence[EnvPosition], n_steps: int) -> None:
        """Set the positions at which `unroll` begins, and the number of steps of an unroll."""

    def unroll(self, actor: Actor, times: int = 1) -> Rollout:
        """Unroll every env `times` times, from its current position."""


def finite(rollout: Rollout) -> Rollout:
    """Return the rollout. Raises ObservationError for a number that is not finite."""
    problem = what_is_not_finite(rollout.trajectories)
    if problem is not None:
        raise ObservationError(f"{problem}: nothing was learned from it", rollout.trajectories)
    return rollout
