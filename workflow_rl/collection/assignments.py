"""The positions of envs in their episodes, and the episodes or unrolls that workers play."""

import itertools
import math
import time
from collections import deque
from collections.abc import Iterable, Sequence
from typing import NamedTuple, Protocol, Self

import numpy as np

from workflow_rl.agents.policies.distributions import Actions
from workflow_rl.agents.trajectory import Trajectory
from workflow_rl.collection.messages import Command, Request, Unroll
from workflow_rl.environments.episode import EpisodeSpec, episode_spec


class EnvPosition(NamedTuple):
    """The position of one env: its episode, and the actions taken in it.

    actions: [T] or [T, K]; None if the episode has not begun. stride: the difference between the
    numbers of the env's successive episodes, so that only the env's number decides its episodes.
    skipped: numbers of episodes that are left out. total: see `episode_spec`. begun_with: the total
    with which the episode began, if a resumed run has another total.
    """

    run_seed: int
    variants: tuple[str, ...]
    stride: int
    episode: int
    actions: Actions | None = None
    skipped: tuple[int, ...] = ()
    total: int | None = None
    begun_with: int | None = None

    @property
    def spec(self) -> EpisodeSpec:
        total = self.begun_with or self.total
        return episode_spec(self.run_seed, self.episode, self.variants, total=total)

    @property
    def next(self) -> Self:
        numbers = itertools.count(self.episode + self.stride, self.stride)
        episode = next(number for number in numbers if number not in self.skipped)
        return self._replace(episode=episode, actions=None, begun_with=None)

    def after(self, trajectory: Trajectory) -> Self:
        assert trajectory.episode == self.episode
        if trajectory.ended:
            return self.next
        if trajectory.steps_before == 0:  # A restored env, too, may begin its episode again.
            return self._replace(actions=trajectory.action)
        assert self.actions is not None
        return self._replace(actions=np.concatenate([self.actions, trajectory.action]))


def first_positions(
    run_seed: int,
    variants: Sequence[str],
    n_envs: int,
    first_episode: int = 0,
    total: int | None = None,
) -> list[EnvPosition]:
    """Return the positions of `n_envs` envs that share the episodes from `first_episode` on."""
    first = EnvPosition(run_seed, tuple(variants), n_envs, first_episode, total=total)
    return [first._replace(episode=first_episode + env) for env in range(n_envs)]


def advance_positions(positions: list[EnvPosition], trajectories: Iterable[Trajectory]) -> None:
    """Move the positions past these trajectories. An env's trajectories must come in order."""
    env_of = {position.episode: env for env, position in enumerate(positions)}
    for trajectory in trajectories:
        env = env_of.pop(trajectory.episode)
        positions[env] = positions[env].after(trajectory)
        env_of[positions[env].episode] = env


def skip(positions: list[EnvPosition], episode: int) -> None:
    """Make an env leave out this episode, even if the env is in the middle of the episode."""
    for env, position in enumerate(positions):
        if (episode - position.episode) % position.stride == 0:
            position = position._replace(skipped=(*position.skipped, episode))
            positions[env] = position.next if position.episode == episode else position


class Assignments(Protocol):
    """Requests for idle workers. The unsent work of a failed worker is assigned again.

    skipped: the numbers of the unplayable episodes that were left out.
    """

    skipped: list[int]

    def request(self, worker: int) -> Request | None:
        """Return the next request for an idle worker; None if there is nothing to do now."""

    def answered(self, worker: int, trajectories: Sequence[Trajectory]) -> bool:
        """Note the trajectories that a worker has sent. Return whether the worker is idle again."""

    def lost(self, worker: int, unplayable: int | None = None) -> None:
        """Take back the unsent work of a failed worker, except an unplayable episode."""


class EpisodeAssignments:
    """Episodes, each assigned to any idle worker. A slow worker gets none of the last episodes.

    specs: at least `n_specs`, which may be infinity. largest_block: the most episodes that a worker
    gets at a time. smallest_block: the number of episodes that a worker plays at once.
    """

    def __init__(
        self,
        specs: Iterable[EpisodeSpec],
        n_specs: float,
        n_workers: int,
        largest_block: int = 1,
        smallest_block: int = 1,
    ) -> None:
        self._specs = iter(specs)
        self._n_waiting = n_specs
        self._n_workers = n_workers
        # If there are few episodes, each worker gets an equal share.
        fair_share = max(1, math.ceil(min(n_specs, smallest_block * n_workers) / n_workers))
        self._smallest, self._largest = min(smallest_block, fair_share), largest_block
        self.skipped: list[int] = []
        self._again: deque[EpisodeSpec] = deque()
        self._playing: list[dict[int, EpisodeSpec]] = [{} for _ in range(n_workers)]
        self._asked: list[tuple[float, int]] = [(0.0, 0)] * n_workers
        # By worker: the seconds per episode in the worker's last block.
        self._pace: list[float | None] = [None] * n_workers

    def request(self, worker: int) -> Request | None:
        if not self._n_waiting or self._is_done_sooner_without(worker):
            return None
        block = [
            self._again.popleft() if self._again else next(self._specs)
            for _ in range(self._block_size())
        ]
        self._n_waiting -= len(block)
        self._playing[worker] = {spec.number: spec for spec in block}
        self._asked[worker] = (time.perf_counter(), len(block))
        return Request(Command.PLAY, block)

    def _block_size(self) -> int:
        # Guided self-scheduling (Polychronopoulos and Kuck 1987): large blocks while many episodes
        # wait, small blocks at the end, so that all workers finish at about the same time.
        share = self._n_waiting / (2 * self._n_workers)
        return math.ceil(min(self._n_waiting, max(self._smallest, min(share, self._largest))))

    def _is_done_sooner_without(self, worker: int) -> bool:
        """Return whether the other workers finish all waiting episodes before this worker finishes
        a block. For the fastest worker, the answer is False, so that a worker always goes on.
        """
        others = [other for index, other in enumerate(self._pace) if index != worker]
        pace = self._pace[worker]
        known = [other for other in others if other is not None]
        if pace is None or not known or len(known) < len(others):
            return False
        block = self._block_size()
        seconds_without = self._n_waiting / sum(1 / other for other in known) + block * max(known)
        return block * pace > seconds_without

    def answered(self, worker: int, trajectories: Sequence[Trajectory]) -> bool:
        """Note played episodes. Return whether they were the last of the worker's block."""
        for trajectory in trajectories:
            del self._playing[worker][trajectory.episode]
        if self._playing[worker]:
            return False
        start, size = self._asked[worker]
        self._pace[worker] = (time.perf_counter() - start) / size
        return True

    @property
    def unfinished(self) -> list[int]:
        """The episodes that were assigned and neither answered nor left out, ascending."""
        playing = itertools.chain(*self._playing)
        return sorted([*playing, *(spec.number for spec in self._again)])

    def lost(self, worker: int, unplayable: int | None = None) -> None:
        """Assign the worker's unfinished episodes again, before all others."""
        if unplayable is not None:
            del self._playing[worker][unplayable]
            self.skipped.append(unplayable)
        self._again.extendleft(reversed(self._playing[worker].values()))
        self._n_waiting += len(self._playing[worker])
        self._pace[worker] = None
        self._playing[worker] = {}


class UnrollAssignments:
    """Unrolls of `n_steps`. Env `i` belongs to worker `i % n_workers`.

    positions: the position of every env, which advances when the env's unroll arrives.
    """

    def __init__(self, positions: list[EnvPosition], n_workers: int, n_steps: int) -> None:
        self.positions = positions
        self.skipped: list[int] = []
        self._n_workers = n_workers
        self._n_steps = n_steps
        self._rounds_left = [0.0] * n_workers
        self._is_placed = [False] * n_workers

    def add_rounds(self, rounds: float) -> None:
        """Let every worker play this many more unrolls. rounds: may be infinity."""
        self._rounds_left = [before + rounds for before in self._rounds_left]

    def forget(self) -> None:
        """Note that the workers' envs have played something else, and lost their positions."""
        self._is_placed = [False] * self._n_workers

    def request(self, worker: int) -> Request | None:
        if not self._rounds_left[worker]:
            return None
        self._rounds_left[worker] -= 1
        positions = None if self._is_placed[worker] else self.positions[worker :: self._n_workers]
        self._is_placed[worker] = True
        return Request(Command.UNROLL, Unroll(self._n_steps, positions))

    def answered(self, worker: int, trajectories: Sequence[Trajectory]) -> bool:
        """Advance the positions. Return whether the unroll arrived. It arrives as a whole."""
        advance_positions(self.positions, trajectories)
        return bool(trajectories)

    def lost(self, worker: int, unplayable: int | None = None) -> None:
        """Assign the unroll again, from the positions before the unroll."""
        self._rounds_left[worker] += 1
        self._is_placed[worker] = False
        if unplayable is not None:
            skip(self.positions, unplayable)
            self.skipped.append(unplayable)
