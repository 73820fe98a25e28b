"""What there is to do for workers that play by themselves: episodes, or unrolls of their envs."""

from __future__ import annotations

import itertools
import math
import time
from collections import deque
from collections.abc import Iterable, Sequence
from typing import Protocol

from agents.trajectory import Trajectory
from workflow_rl.collection.slots import Slot, advance, skip
from workflow_rl.collection.worker import Command, Request, Unroll
from workflow_rl.environments.episode import EpisodeSpec


class Work(Protocol):
    """Hands out requests to idle workers, and takes them back from workers that failed.

    skipped: the numbers of episodes that were left out because they cannot be played.
    """

    skipped: list[int]

    def request(self, worker: int) -> Request | None:
        """What this idle worker is to do; None if there is nothing for it now."""

    def answered(self, worker: int, trajectories: Sequence[Trajectory]) -> bool:
        """It has sent these. Returns whether it is idle again."""

    def lost(self, worker: int, unplayable: int | None = None) -> None:
        """What it has not sent yet has to be done again, but for an episode that is unplayable."""


class EpisodeWork:
    """Each episode once, by whichever worker is idle; the last ones not by a slow worker.

    n_specs: how many there are; infinity, if there is no end to them.
    largest_block: of episodes handed out at a time. smallest_block: what a worker plays at once.
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
        # Of few episodes every worker gets some.
        fair_share = max(1, math.ceil(min(n_specs, smallest_block * n_workers) / n_workers))
        self._blocks = (min(smallest_block, fair_share), largest_block)
        self.skipped: list[int] = []
        self._again: deque[EpisodeSpec] = deque()
        self._playing: list[dict[int, EpisodeSpec]] = [{} for _ in range(n_workers)]
        self._asked: list[tuple[float, int]] = [(0.0, 0)] * n_workers
        self._pace: list[float | None] = [None] * n_workers

    def request(self, worker: int) -> Request | None:
        """The next block of episodes."""
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
        # Guided self-scheduling (Polychronopoulos and Kuck 1987): large blocks while there is much
        # to do, small ones at the end, so that all workers finish at about the same time.
        share = self._n_waiting / (2 * self._n_workers)
        smallest, largest = self._blocks
        return math.ceil(min(self._n_waiting, max(smallest, min(share, largest))))

    def _is_done_sooner_without(self, worker: int) -> bool:
        """Whether the others finish what waits before this one has played a block of it.

        By the seconds an episode took each of them last. The fastest never answers yes.
        """
        others = [pace for index, pace in enumerate(self._pace) if index != worker]
        own = self._pace[worker]
        known = [pace for pace in others if pace is not None]
        if own is None or not known or len(known) < len(others):
            return False
        block = self._block_size()
        seconds_without = self._n_waiting / sum(1 / pace for pace in known) + block * max(known)
        return block * own > seconds_without

    def answered(self, worker: int, trajectories: Sequence[Trajectory]) -> bool:
        """True with the last episode of its block."""
        for trajectory in trajectories:
            del self._playing[worker][trajectory.episode]
        if self._playing[worker]:
            return False
        start, size = self._asked[worker]
        self._pace[worker] = (time.perf_counter() - start) / size
        return True

    @property
    def unfinished(self) -> list[int]:
        """The numbers of the episodes handed out and neither answered nor left out, ascending."""
        playing = itertools.chain(*self._playing)
        return sorted([*playing, *(spec.number for spec in self._again)])

    def lost(self, worker: int, unplayable: int | None = None) -> None:
        """Its unfinished episodes are handed out again, before all others."""
        if unplayable is not None:
            del self._playing[worker][unplayable]
            self.skipped.append(unplayable)
        self._again.extendleft(reversed(self._playing[worker].values()))
        self._n_waiting += len(self._playing[worker])
        self._pace[worker] = None
        self._playing[worker] = {}


class UnrollWork:
    """Unrolls of envs that belong to workers: env `i` to worker `i % n_workers`.

    slots: where every env is; moved on as unrolls come back.
    """

    def __init__(self, slots: list[Slot], n_workers: int, n_steps: int) -> None:
        self.slots = slots
        self.skipped: list[int] = []
        self._n_workers = n_workers
        self._n_steps = n_steps
        self._rounds_left = [0.0] * n_workers
        self._knows_slots = [False] * n_workers

    def add_rounds(self, rounds: float) -> None:
        """Let every worker unroll so many times more; infinity is without end."""
        self._rounds_left = [left + rounds for left in self._rounds_left]

    def forget(self) -> None:
        """The workers' envs have been used for something else."""
        self._knows_slots = [False] * self._n_workers

    def request(self, worker: int) -> Request | None:
        """One unroll of all envs of the worker."""
        if not self._rounds_left[worker]:
            return None
        self._rounds_left[worker] -= 1
        known = self._knows_slots[worker]
        slots = None if known else self.slots[worker :: self._n_workers]
        self._knows_slots[worker] = True
        return Request(Command.UNROLL, Unroll(self._n_steps, slots))

    def answered(self, worker: int, trajectories: Sequence[Trajectory]) -> bool:
        """True with the unroll, which comes as a whole; before it, signs of life may come."""
        advance(self.slots, trajectories)
        return bool(trajectories)

    def lost(self, worker: int, unplayable: int | None = None) -> None:
        """Its envs are brought back to where they were before the unroll."""
        self._rounds_left[worker] += 1
        self._knows_slots[worker] = False
        if unplayable is not None:
            skip(self.slots, unplayable)
            self.skipped.append(unplayable)
