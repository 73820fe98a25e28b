"""Synchronous collection: all envs step together, and one forward pass acts for all of them."""

import functools
import itertools
import logging
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from workflow_rl.agents.policies.distributions import Actions
from workflow_rl.agents.policies.numpy_policy import Actor, burn_in_of
from workflow_rl.agents.trajectory import Trajectory
from workflow_rl.collection.assignments import EnvPosition, advance_positions, skip
from workflow_rl.collection.messages import Command, WorkerError
from workflow_rl.collection.player import Player, play_episodes, player_at, replay_episodes
from workflow_rl.collection.pool import AnyPool
from workflow_rl.collection.rollout import Following, Gathering, Rollout, require_any
from workflow_rl.collection.trace import COLLECTOR, Activity
from workflow_rl.environments.env_batch import EpisodeError, Obs, StepAnswers, joined
from workflow_rl.environments.episode import EpisodeSpec


class SyncCollector:
    """Plays episodes in `n_envs` envs of a pool's workers, which wait for each other at every step.

    The rollouts equal the rollouts of AsyncCollector bit for bit.
    """

    def __init__(self, pool: AnyPool, n_envs: int) -> None:
        self.pool = pool
        self.envs = PooledEnvs(pool, n_envs)
        self._player: Player | None = None
        self._positions: list[EnvPosition] = []
        self._n_steps = 0

    def collect(
        self, actor: Actor, specs: Sequence[EpisodeSpec], following: Following = lambda: None
    ) -> Rollout:
        """Play every spec. `following` is ignored, because all envs step together."""
        skipped: set[int] = set()

        def play() -> Iterable[Trajectory]:
            self._player = None  # The envs leave their positions.
            self.envs.forget()
            playable = (spec for spec in specs if spec.number not in skipped)
            return itertools.chain(*play_episodes(self.envs, actor, playable))

        return require_any(self._rollout(play, skipped.add))

    def start_unrolls(self, positions: Sequence[EnvPosition], n_steps: int) -> None:
        self._positions, self._n_steps = list(positions), n_steps

    def unroll(self, actor: Actor, times: int = 1) -> Rollout:
        def play() -> Iterable[Trajectory]:
            if self._player is None:
                self.envs.forget()
                self._player = player_at(self.envs, self._positions, burn_in_of(actor))
            player = self._player
            return itertools.chain(*(player.unroll(actor, self._n_steps) for _ in range(times)))

        def leave_out(number: int) -> None:
            skip(self._positions, number)
            self._player = None

        rollout = self._rollout(play, leave_out)
        advance_positions(self._positions, rollout.trajectories)
        return rollout._replace(positions=tuple(self._positions))

    def _rollout(
        self, play: Callable[[], Iterable[Trajectory]], leave_out: Callable[[int], None]
    ) -> Rollout:
        """Play. If an episode is unplayable, leave it out, and play again from the beginning."""
        gathering, busy_before = Gathering(self.pool), self.envs.busy_seconds
        skipped: list[int] = []
        while True:
            try:
                trajectories = list(play())
                break
            except EpisodeError as error:
                leave_out(error.spec.number)
                skipped.append(error.spec.number)
        self.pool.trace.mark(COLLECTOR, Activity.IDLE)
        gathering.add(trajectories, self.envs.busy_seconds - busy_before)
        return gathering.rollout(skipped)


# The multiplier of Knuth's MMIX. Any large odd number could replace it.
_MULTIPLIER = np.uint64(6364136223846793005)

_log = logging.getLogger(__name__)


class PooledEnvs:
    """`n_envs` envs, an EnvBatch. Env `i` belongs to worker `i % n_workers`.

    Every call waits for all workers of its envs. If a worker fails, a new worker plays the envs'
    episodes again up to the current step. Calls raise TooManyFailuresError, StopRequested, and
    EpisodeError if an episode raises the same exception every time.

    busy_seconds: the sum of the wall time that workers spent on steps and resets.
    """

    def __init__(self, pool: AnyPool, n_envs: int) -> None:
        assert pool.n_workers * pool.envs_per_worker >= n_envs
        self.n_envs = n_envs
        self.busy_seconds = 0.0
        self._pool = pool
        # By env: the spec and the actions, which decide an episode.
        self._specs: dict[int, EpisodeSpec] = {}
        self._actions: dict[int, list[Any]] = {}
        # By env: the number of its episode's answers so far, and a digest of these answers.
        self._n_answers = np.zeros(n_envs, np.int64)
        self._digests = np.zeros(n_envs, np.uint64)

    def reset(self, envs: Sequence[int], specs: Sequence[EpisodeSpec]) -> Obs:
        self._specs.update(zip(envs, specs, strict=True))
        self._actions.update((env, []) for env in envs)
        self._n_answers[envs] = self._digests[envs] = 0

        def payload_for(group: Sequence[int]) -> Any:
            return self._local(group), [self._specs[env] for env in group]

        return self._ask_all(envs, Command.RESET, payload_for).obs

    def step(self, envs: Sequence[int], actions: Actions) -> StepAnswers:
        row_of = {env: row for row, env in enumerate(envs)}
        for env, action in zip(envs, actions, strict=True):
            self._actions[env].append(action)

        def payload_for(group: Sequence[int]) -> Any:
            return self._local(group), actions[[row_of[env] for env in group]]

        return self._ask_all(envs, Command.STEP, payload_for)

    def forget(self) -> None:
        """Forget the unfinished episodes, which no call will continue."""
        self._specs.clear()

    def close(self) -> None:
        self._pool.close()

    def _local(self, envs: Sequence[int]) -> list[int]:
        return [env // self._pool.n_workers for env in envs]

    def _ask_all(
        self, envs: Sequence[int], command: Command, payload_for: Callable[[Sequence[int]], Any]
    ) -> StepAnswers:
        """Ask every worker of these envs, and wait for all answers."""
        groups: dict[int, list[int]] = {}
        for env in envs:
            groups.setdefault(env % self._pool.n_workers, []).append(env)
        failed: dict[int, WorkerError] = {}
        unplayable: EpisodeError | None = None
        self._pool.trace.mark(COLLECTOR, Activity.SENDING)
        for worker, group in groups.items():
            try:
                self._pool.send(worker, command, payload_for(group))
            except WorkerError as error:
                failed[worker] = error
        answers: list[StepAnswers] = []
        self._pool.trace.mark(COLLECTOR, Activity.WAITING)
        for worker, group in groups.items():
            if worker not in failed:
                try:
                    answers.append(self._receive(worker))
                except WorkerError as error:
                    failed[worker] = error
            if worker in failed:
                try:
                    answers.append(self._recover(worker, failed[worker], group))
                except EpisodeError as error:
                    unplayable = error  # The other workers' answers must still be received.
        self._pool.trace.mark(COLLECTOR, Activity.ACTING)
        if unplayable is not None:
            raise unplayable
        # The answers are in the order of the workers, and are sorted into the order of `envs`.
        row_of = {env: row for row, env in enumerate(itertools.chain(*groups.values()))}
        rows = [row_of[env] for env in envs]
        transitions = joined(answers).at(rows)
        self._n_answers[envs] += 1
        self._digests[envs] = digests_after(self._digests[envs], transitions)
        return transitions

    def _receive(self, worker: int) -> StepAnswers:
        transitions, busy_seconds = self._pool.receive(worker)
        self.busy_seconds += busy_seconds
        assert isinstance(transitions, StepAnswers)
        return transitions

    def _recover(self, worker: int, error: WorkerError, group: Sequence[int]) -> StepAnswers:
        """Replace a worker, and play its envs' episodes again. Return the group's transitions."""
        envs = [env for env in self._specs if env % self._pool.n_workers == worker]
        while True:
            self._pool.replace(worker, error)
            if (spec := self._pool.unplayable_episode(error)) is not None:
                raise EpisodeError(spec)
            try:
                last = self._replayed(worker, envs)
            except WorkerError as next_error:
                error = next_error
            else:
                return last.at([envs.index(env) for env in group])

    def _replayed(self, worker: int, envs: Sequence[int]) -> StepAnswers:
        """Play a new worker's episodes again. Return the envs' last transitions.

        Every step has its own deadline. So in long episodes, too, a sound worker is not late.
        """

        def ask(command: Command, asked: Sequence[int], what: Any) -> StepAnswers:
            self._pool.send(worker, command, (self._local(asked), what))
            return self._receive(worker)

        steps = replay_episodes(
            lambda *asked: ask(Command.RESET, *asked).obs,
            functools.partial(ask, Command.STEP),
            {env: self._specs[env] for env in envs},
            {env: self._actions[env] for env in envs},
        )
        digests = np.zeros(len(envs), np.uint64)
        last: StepAnswers | None = None
        for n_answers, (rows, transitions) in enumerate(steps):
            last = last or transitions
            if last.costs is None and transitions.costs is not None:  # A reset has no costs.
                last = last._replace(costs=np.zeros((len(envs), transitions.costs.shape[1])))
            for column, answer in zip(last.columns, transitions.columns, strict=True):
                column[rows] = answer
            was_given = n_answers < self._n_answers[envs]
            digests = np.where(was_given, digests_after(digests, last), digests)
        for env in np.array(envs)[digests != self._digests[envs]]:
            _log.warning(
                "episode %d went otherwise when it was played again after its worker had failed. "
                "The episode does not follow from its seed and its actions: what is learned from "
                "it mixes two histories",
                self._specs[env].number,
            )
        assert last is not None
        return last


def digests_after(digests: NDArray[np.uint64], answers: StepAnswers) -> NDArray[np.uint64]:
    """Add answers of M envs to the digests [M] of their earlier answers.

    The digests are polynomials modulo 2**64 (Knuth 1998, section 6.4), for all envs at once.
    """
    for column in answers.columns:
        rows = np.ascontiguousarray(column).view(np.uint8).reshape(len(digests), -1)
        powers = _powers(rows.shape[1])
        digests = digests * powers[-1] + rows @ powers[:-1]
    return digests


@functools.cache
def _powers(n: int) -> NDArray[np.uint64]:
    """Return the powers 0 to n of the multiplier, [n + 1]."""
    powers = np.full(n + 1, _MULTIPLIER)
    powers[0] = 1
    return np.multiply.accumulate(powers)
