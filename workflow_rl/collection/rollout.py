"""What one collection returns, and the one definition of utilisation."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple, Protocol, TypeAlias

import numpy as np

from agents.policies.numpy_policy import Actor
from agents.trajectory import Trajectory
from workflow_rl.collection.env_positions import EnvPosition
from workflow_rl.collection.failures import UnplayableError
from workflow_rl.environments.episode import EpisodeSpec


class NotFiniteError(ValueError):
    """An environment gave an observation or a reward that is NaN or infinite, in the batch of these
    trajectories."""

    def __init__(self, message: str, trajectories: Sequence[Trajectory]) -> None:
        self.trajectories = trajectories
        super().__init__(message)


class Rollout(NamedTuple):
    """Trajectories in the order of their episodes and steps, and how long they took.

    collect_seconds: wall time of the collection; if it never stops, since the rollout before.
    busy_seconds: wall time that the workers spent stepping or acting (resets included), added up
    over all workers.
    slots: where the envs are after it, if they go on.
    dropped_steps: env transitions that were collected since the rollout before, but dropped for
    lack of room. dropped_episodes: how many episodes ended among them.
    queue_length: how many further batches were waiting when this one was taken. skipped: the
    numbers of episodes that cannot be played. unfinished: those of episodes begun before it was
    complete that are in no rollout yet, where workers begin one after another without end.
    """

    trajectories: list[Trajectory]
    collect_seconds: float
    busy_seconds: float
    n_workers: int
    workers_restarted: int
    slots: tuple[EnvPosition, ...] = ()
    dropped_steps: int = 0
    dropped_episodes: int = 0
    queue_length: int = 0
    skipped: tuple[int, ...] = ()
    unfinished: tuple[int, ...] = ()

    @property
    def steps_to_learn(self) -> int:
        """Env transitions in the trajectories."""
        return sum(trajectory.length for trajectory in self.trajectories)

    @property
    def env_steps(self) -> int:
        """Env transitions in all, those dropped included."""
        return self.steps_to_learn + self.dropped_steps

    @property
    def episodes(self) -> int:
        """Episodes that ended or were skipped, in what was dropped included."""
        return len(self.returns) + self.dropped_episodes + len(self.skipped)

    @property
    def returns(self) -> list[float]:
        """Of the episodes that ended."""
        return [t.episode_return for t in self.trajectories if t.ended]

    @property
    def variants(self) -> list[str]:
        """Those of the episodes that ended, in the order of `returns`."""
        return [t.variant for t in self.trajectories if t.ended]

    @property
    def episode_lengths(self) -> list[int]:
        """Of the episodes that ended, in steps."""
        return [t.steps_before + t.length for t in self.trajectories if t.ended]

    def n_unrolls(self, num_steps_per_env: int | None) -> float:
        """Of how many envs' unrolls, or complete episodes, it consists: ALF's K."""
        if num_steps_per_env is None:
            return len(self.trajectories)
        return self.steps_to_learn / num_steps_per_env

    def dropped(self) -> Rollout:
        """What is left of it once its trajectories are dropped."""
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
        """The workers' utilisation over the collection."""
        return utilisation(self.busy_seconds, self.worker_seconds)


def utilisation(busy_seconds: float, worker_seconds: float) -> float:
    """Share of the workers' wall time spent stepping or acting, resets included, from 0 to 1.

    Both are sums over all workers: over a collection, or over a whole run, learning included. Where
    workers run freely, or begin with the next batch, a batch may have been played in part before
    the one before it arrived: that of a single update can be above 1, not that of the run. Where
    workers outnumber the cores, waiting for a core in the middle of a step counts as busy.
    """
    return busy_seconds / worker_seconds


class NothingPlayableError(UnplayableError):
    """All episodes of a collection had to be left out. The workers are ready for others."""

    def __init__(self, rollout: Rollout) -> None:
        self.rollout = rollout
        super().__init__(
            f"all {len(rollout.skipped)} episodes of a batch raise exceptions, the first of them "
            f"episode {min(rollout.skipped)}"
        )


def require_any(rollout: Rollout) -> Rollout:
    """The same. Raises NothingPlayableError if all of its episodes had to be left out."""
    if not rollout.trajectories and rollout.skipped:
        raise NothingPlayableError(rollout)
    return rollout


def what_is_not_finite(trajectories: Iterable[Trajectory]) -> str | None:
    """Which number of the environment's is NaN or infinite, and where; None if none is."""
    for trajectory in trajectories:
        rows = {"reward": trajectory.reward[:, None]}
        if trajectory.obs.dtype.kind == "f":
            rows["observation"] = np.concatenate([trajectory.obs, trajectory.last_obs[None]])
        for name, numbers in rows.items():
            if not np.isfinite(numbers).all():
                row = int(np.argmin(np.isfinite(numbers).all(axis=1)))
                return (
                    f"the environment's {name} is not finite at step "
                    f"{trajectory.steps_before + row} of episode {trajectory.episode}"
                )
    return None


def in_order(trajectories: Iterable[Trajectory]) -> list[Trajectory]:
    """Sorted by episode, and within one by steps: in whatever order they came."""
    return sorted(trajectories, key=lambda t: (t.episode, t.steps_before))


def joined(rollouts: Sequence[Rollout]) -> Rollout:
    """One rollout of several, oldest first, of the same workers."""
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
"""The actor and the specs of the collection after this one; None while they are not known."""


class Collector(Protocol):
    """Synchronous and asynchronous training differ in their collector alone.

    Both calls raise TooManyFailuresError and StopRequested.
    """

    def collect(
        self,
        actor: Actor,
        specs: Sequence[EpisodeSpec],
        following: Following = lambda: None,
    ) -> Rollout:
        """Play every spec. following: the next collection's, once it is known."""

    def start_unrolls(self, slots: list[EnvPosition], n_steps: int) -> None:
        """Say what `unroll` unrolls, and how many steps at a time."""

    def unroll(self, actor: Actor, times: int = 1) -> Rollout:
        """Unroll every slot so many times, from where it is."""
