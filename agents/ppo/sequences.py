"""Rollouts as whole sequences, for networks with a memory."""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from workflow_rl.agents.policies.torch_memory import Packed
from workflow_rl.agents.ppo.minibatches import Compute, Minibatch, TensorBatch, in_parts
from workflow_rl.agents.trajectory import Trajectory


def stack_sequences(
    trajectories: Sequence[Trajectory],
) -> tuple[NDArray[Any], NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Return the observations of trajectories as consecutive sequences.

    The results are the rows [R, D], the number of rows of each sequence [N], the rows acted on [B],
    and the last rows [N]. The rows of a trajectory are observations before its first step that are
    seen again, observations acted on, and the last observation.
    """
    before = [
        trajectory.obs[:0] if trajectory.seen_before is None else trajectory.seen_before
        for trajectory in trajectories
    ]
    rows = np.concatenate(
        [
            part
            for early, trajectory in zip(before, trajectories, strict=True)
            for part in (early, trajectory.obs, trajectory.last_obs[None])
        ]
    )
    n_steps = np.array([trajectory.length for trajectory in trajectories])
    lengths = np.array([len(early) for early in before]) + n_steps + 1
    last = np.cumsum(lengths) - 1
    acted = np.concatenate([np.arange(end - n, end) for end, n in zip(last, n_steps, strict=True)])
    return rows, lengths, acted, last


def in_time_order(
    lengths: NDArray[np.int64], chosen: NDArray[np.int64], without_last: int = 0
) -> tuple[NDArray[np.int64], tuple[int, ...]]:
    """Return the rows of some sequences in the order of time, and the number of rows at each time:
    see `torch_memory.Packed`.

    lengths: [N], of all consecutive sequences. without_last: the number of rows that are left out
    at the end of each sequence.
    """
    first = (np.cumsum(lengths) - lengths)[chosen]
    length = lengths[chosen] - without_last
    order = np.argsort(-length, kind="stable")
    first, length = first[order], length[order]
    counts = (length[:, None] > np.arange(length[0])).sum(axis=0)
    rows = [first[:n] + t for t, n in enumerate(counts.tolist())]
    return np.concatenate(rows), tuple(counts.tolist())


class RolloutSequences(NamedTuple):
    """A rollout's observations as whole sequences, for networks with a memory.

    rows: float32 [R, D], consecutive sequences. lengths: [N], the number of rows of each sequence.
    The last row of a sequence is not acted on.
    """

    rows: Tensor
    lengths: NDArray[np.int64]

    def computed(self, compute: Compute) -> Tensor:
        packed, place = self._packed(np.arange(len(self.lengths)))
        return compute(packed)[place]

    def minibatches(
        self, batch: TensorBatch, n_minibatches: int, whole: bool, shuffle: np.random.Generator
    ) -> Iterator[Minibatch]:
        """Yield minibatches in one pass over the batch. A sequence's steps stay together."""
        sequence = np.repeat(np.arange(len(self.lengths)), self.lengths)
        of_step = sequence[batch.obs_index.cpu().numpy()]
        n_steps = np.bincount(of_step, minlength=len(self.lengths))
        for part in in_parts(n_steps, n_minibatches, shuffle):
            steps = batch.at(np.flatnonzero(np.isin(of_step, part)))
            packed, place = self._packed(np.sort(part), without_last=1)
            yield Minibatch(steps, packed, place[steps.obs_index])

    def _packed(self, chosen: NDArray[np.int64], without_last: int = 0) -> tuple[Packed, Tensor]:
        """Return some sequences, and the index of each row in the packed rows, [R]."""
        rows, counts = in_time_order(self.lengths, chosen, without_last)
        at = torch.from_numpy(rows).to(self.rows.device)
        place = torch.zeros(len(self.rows), dtype=torch.int64, device=at.device)
        place[at] = torch.arange(len(at), device=at.device)
        return Packed(self.rows[at], counts), place
