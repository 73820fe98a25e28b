"""Synchronous collection: all environments step together, with a barrier at every step."""

from __future__ import annotations

import functools
import itertools
import logging
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from agents.policies.distributions import Actions
from agents.policies.numpy_policy import Actor
from agents.trajectory import Trajectory
from workflow_rl.collection.env_positions import EnvPosition, advance, player_at, skip
from workflow_rl.collection.failures import WorkerError, Workers, unplayable
from workflow_rl.collection.player import Player, play_episodes
from workflow_rl.collection.rollout import Following, Rollout, in_order, require_any
from workflow_rl.collection.trace import COLLECTOR, Activity
from workflow_rl.collection.worker import Command
from workflow_rl.environments.env_batch import Obs, Transitions
from workflow_rl.environments.episode import EpisodeSpec

# Of Knuth's MMIX: any large odd number does.
_MULTIPLIER = np.uint64(6364136223846793005)

_log = logging.getLogger(__name__)


def digests_after(digests: NDArray[np.uint64], answers: Transitions) -> NDArray[np.uint64]:
    """Digests [M] of what M envs have answered, with these answers added to them.

    Polynomials modulo 2**64 (Knuth 1998, section 6.4), for all envs at once.
    """
    for column in answers:
        rows = np.ascontiguousarray(column).view(np.uint8).reshape(len(digests), -1)
        powers = _powers(rows.shape[1])
        digests = digests * powers[-1] + rows @ powers[:-1]
    return digests


@functools.cache
def _powers(n: int) -> NDArray[np.uint64]:
    """Of the multiplier, from the 0th to the nth [n + 1]."""
    powers = np.full(n + 1, _MULTIPLIER)
    powers[0] = 1
    return np.multiply.accumulate(powers)


class UnplayableEpisode(Exception):
    """It raises the same exception however often it is played."""

    def __init__(self, number: int) -> None:
        self.number = number
        super().__init__(f"episode {number}")


class _Episode(NamedTuple):
    """What brings an env back to where it is: an episode follows from its spec and its actions."""

    spec: EpisodeSpec
    actions: list[Any]


class SyncCollector:
    """`n_envs` environments on a pool's workers: env `i` is worker `i % n_workers`'s.

    Every call waits for all the workers it involves: the per-step barrier.
    """

    def __init__(self, pool: Workers, n_envs: int) -> None:
        assert pool.n_workers * pool.envs_per_worker >= n_envs
        self.pool = pool
        self.n_envs = n_envs
        self.busy_seconds = 0.0
        self._episodes: dict[int, _Episode] = {}
        # By env: how many answers its episode has given, and a digest of them.
        self._n_answers = np.zeros(n_envs, np.int64)
        self._digests = np.zeros(n_envs, np.uint64)
        self._player: Player | None = None
        self._slots: list[EnvPosition] = []
        self._n_steps = 0

    def reset(self, envs: Sequence[int], specs: Sequence[EpisodeSpec]) -> Obs:
        """Begin an episode in each of M envs. Returns obs [M, D]."""
        for env, spec in zip(envs, specs, strict=True):
            self._episodes[env] = _Episode(spec, [])
        self._n_answers[envs] = self._digests[envs] = 0
        return self._barrier(envs, Command.RESET, self._resets).obs

    def step(self, envs: Sequence[int], actions: Actions) -> Transitions:
        """Step each of M envs once."""
        row_of = {env: row for row, env in enumerate(envs)}
        for env, action in zip(envs, actions, strict=True):
            self._episodes[env].actions.append(action)
        return self._barrier(
            envs,
            Command.STEP,
            lambda group: (self._own(group), actions[[row_of[env] for env in group]]),
        )

    def close(self) -> None:
        """Close the pool."""
        self.pool.close()

    def _own(self, envs: Sequence[int]) -> list[int]:
        """Their numbers among their worker's own."""
        return [env // self.pool.n_workers for env in envs]

    def _resets(self, envs: Sequence[int]) -> tuple[list[int], list[EpisodeSpec]]:
        return self._own(envs), [self._episodes[env].spec for env in envs]

    def _barrier(
        self, envs: Sequence[int], command: Command, payload_for: Callable[[Sequence[int]], Any]
    ) -> Transitions:
        """Ask every worker that has some of the envs, and wait for all answers."""
        groups: dict[int, list[int]] = {}
        for env in envs:
            groups.setdefault(env % self.pool.n_workers, []).append(env)
        failed: dict[int, WorkerError] = {}
        left_out: UnplayableEpisode | None = None
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
                try:
                    answers.append(self._recover(worker, failed[worker], group))
                except UnplayableEpisode as error:
                    left_out = error  # The others' answers are waited for all the same.
        self.pool.trace.mark(COLLECTOR, Activity.ACTING)
        if left_out is not None:
            raise left_out
        # From the order of the workers to that of `envs`.
        asked = [env for group in groups.values() for env in group]
        row_of = {env: row for row, env in enumerate(asked)}
        rows = [row_of[env] for env in envs]
        transitions = Transitions._make(
            np.concatenate(part)[rows] for part in zip(*answers, strict=True)
        )
        self._n_answers[envs] += 1
        self._digests[envs] = digests_after(self._digests[envs], transitions)
        return transitions

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
            if (number := unplayable(self.pool, error)) is not None:
                raise UnplayableEpisode(number)
            try:
                last = self._replayed(worker, envs)
            except WorkerError as next_error:
                error = next_error
            else:
                rows = [envs.index(env) for env in group]
                return Transitions._make(column[rows] for column in last)

    def _replayed(self, worker: int, envs: Sequence[int]) -> Transitions:
        """All episodes of a new worker once more, side by side. Returns the envs' last transitions.

        Every step has a deadline of its own: however long the episodes are, a worker that is slow
        but sound is not taken for one that hangs.
        """
        episodes = [self._episodes[env] for env in envs]
        self.pool.send(worker, Command.RESET, self._resets(envs))
        last = self._receive(worker)
        digests = np.zeros(len(envs), np.uint64)
        for n_answers in range(max(len(episode.actions) for episode in episodes) + 1):
            if n_answers:
                rows = [row for row, its in enumerate(episodes) if n_answers <= len(its.actions)]
                own = self._own([envs[row] for row in rows])
                actions = np.stack([episodes[row].actions[n_answers - 1] for row in rows])
                self.pool.send(worker, Command.STEP, (own, actions))
                for column, answer in zip(last, self._receive(worker), strict=True):
                    column[rows] = answer
            was_given = n_answers < self._n_answers[envs]
            digests = np.where(was_given, digests_after(digests, last), digests)
        for env in np.array(envs)[digests != self._digests[envs]]:
            _log.warning(
                "episode %d went otherwise when it was played again after its worker had failed: "
                "it does not follow from its seed and its actions, and what is learned from it is "
                "of two histories",
                self._episodes[env].spec.number,
            )
        return last

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
        skipped: set[int] = set()

        def play() -> Iterable[Trajectory]:
            self._player = None  # Its envs are not where it left them.
            self._episodes.clear()
            playable = (spec for spec in specs if spec.number not in skipped)
            return itertools.chain(*play_episodes(self, actor, playable))

        return require_any(self._rollout(play, skipped.add))

    def start_unrolls(self, slots: list[EnvPosition], n_steps: int) -> None:
        """Say what `unroll` unrolls, and how many steps at a time."""
        self._slots, self._n_steps = list(slots), n_steps

    def unroll(self, actor: Actor, times: int = 1) -> Rollout:
        """Unroll every slot so many times. Raises TooManyFailuresError, StopRequested."""

        def play() -> Iterable[Trajectory]:
            player = self._player = self._player or player_at(self, self._slots)
            return itertools.chain(*(player.unroll(actor, self._n_steps) for _ in range(times)))

        def leave_out(number: int) -> None:
            skip(self._slots, number)
            self._player = None

        rollout = self._rollout(play, leave_out)
        advance(self._slots, rollout.trajectories)
        return rollout._replace(slots=tuple(self._slots))

    def _rollout(
        self, play: Callable[[], Iterable[Trajectory]], leave_out: Callable[[int], None]
    ) -> Rollout:
        """What is played, from the beginning again without each episode that has to be left out."""
        start = time.perf_counter()
        failures_before, busy_before = self.pool.failures, self.busy_seconds
        skipped: list[int] = []
        trajectories: list[Trajectory] | None = None
        while trajectories is None:
            try:
                trajectories = in_order(play())
            except UnplayableEpisode as error:
                leave_out(error.number)
                skipped.append(error.number)
        self.pool.trace.mark(COLLECTOR, Activity.IDLE)
        return Rollout(
            trajectories=trajectories,
            collect_seconds=time.perf_counter() - start,
            busy_seconds=self.busy_seconds - busy_before,
            n_workers=self.pool.n_workers,
            workers_restarted=self.pool.failures - failures_before,
            skipped=tuple(skipped),
        )
