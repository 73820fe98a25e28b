"""Synchronous collection: all envs step together, and one forward pass acts for all of them."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence

from workflow_rl.agents.policies.numpy_policy import Actor, burn_in_of
from workflow_rl.agents.trajectory import Trajectory
from workflow_rl.collection.env_positions import EnvPosition, advance_positions, skip
from workflow_rl.collection.player import Player, play_episodes, player_at
from workflow_rl.collection.pool import AnyPool
from workflow_rl.collection.pooled_envs import PooledEnvs
from workflow_rl.collection.rollout import Following, Gathering, Rollout, require_any
from workflow_rl.collection.trace import COLLECTOR, Activity
from workflow_rl.environments.env_batch import EpisodeError
from workflow_rl.environments.episode import EpisodeSpec


class SyncCollector:
    """Plays episodes in `n_envs` envs of a pool's workers, which wait for each other at every step.

    Returns bit for bit what AsyncCollector returns.
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
        """Play every spec. What follows waits, since all envs step together."""
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
        """Play; after each unplayable episode leave it out and play again from the beginning."""
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
