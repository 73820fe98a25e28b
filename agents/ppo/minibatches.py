"""A rollout's batch on the learner's device, and its minibatches: rows, or for networks with a
memory whole sequences."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from workflow_rl.agents.policies.torch_memory import Packed
from workflow_rl.agents.ppo.batch import in_parts, whole_observations
from workflow_rl.agents.trajectory import Trajectory

if TYPE_CHECKING:
    from workflow_rl.agents.policies.torch_memory import Packed


MOST_NUMBERS = 2**26
"""Of observations that a network sees at once, minibatches apart."""


class TensorBatch(NamedTuple):
    """A Batch, or a minibatch of it, on the learner's device.

    obs_index: int64 [B], the row of RolloutObs that each step saw. action: [B] or [B, K]; log_prob,
    value, advantage, return_: float32 [B]. log_prob is of the policy that the clip range is around.
    weight: float32 [B], a factor on the advantage in the policy's loss: how much less likely the
    action has become since it was taken, at most 1 (Hilton et al. 2021, "Batch size-invariance for
    policy optimization", equation 2). taught: float32 [B, n_outputs], what the copy of a teacher
    computes of each step's observation; [B, 0] without one.
    """

    obs_index: Tensor
    action: Tensor
    log_prob: Tensor
    value: Tensor
    advantage: Tensor
    return_: Tensor
    weight: Tensor
    taught: Tensor

    def on_device(self, rows: NDArray[np.int64]) -> Tensor:
        """Return indices on the learner's device."""
        return torch.from_numpy(rows).to(self.obs_index.device)

    def at(self, rows: NDArray[np.int64]) -> TensorBatch:
        """Return these steps."""
        index = self.on_device(rows)
        return TensorBatch._make(column[index] for column in self)


Compute: TypeAlias = "Callable[[Tensor | Packed], Tensor]"
"""Returns what networks compute of observations, a row each."""


class RolloutObs(NamedTuple):
    """A rollout's observations as the networks see them, on the learner's device.

    rows: float32 [U, D], or uint8 for networks that take bytes. repeat: whether the rows are
    distinct and many steps share each. CAGE-2's 52 bits repeat: of 2400 steps against B_line, some
    250 observations differ. The networks see each of them once a minibatch, which gives the same
    gradients for a third of the work.
    """

    rows: Tensor
    repeat: bool

    def of(self, obs_index: Tensor) -> tuple[Tensor, Tensor | None]:
        """Return the observations to compute for steps of these indices [B], and each step's row
        of them; None if every step has a row of its own, in order."""
        if not self.repeat:
            return self.rows[obs_index], None
        distinct, row = torch.unique(obs_index, return_inverse=True)
        return self.rows[distinct], row

    def computed(self, compute: Compute) -> Tensor:
        """Return what a network computes of all rows."""
        # What a network on images keeps of all pictures at once would take gigabytes.
        parts = self.rows.split(max(1, MOST_NUMBERS // self.rows.shape[1]))
        return torch.cat([compute(part) for part in parts])

    def minibatches(
        self, batch: TensorBatch, n_minibatches: int, whole: bool, shuffle: np.random.Generator
    ) -> Iterator[Minibatch]:
        """Yield one pass over the batch in random order, in minibatches of nearly equal size.

        whole: whether all steps of an observation that repeats are in one minibatch.
        """
        if self.repeat and whole:
            for chosen, distinct, row in whole_observations(
                batch.obs_index.cpu().numpy(), n_minibatches, shuffle
            ):
                steps = batch.at(chosen)
                yield Minibatch(steps, self.rows[batch.on_device(distinct)], batch.on_device(row))
            return
        order = batch.on_device(shuffle.permutation(len(batch.action)))
        columns = (column[order].tensor_split(n_minibatches) for column in batch)
        for steps in map(TensorBatch._make, zip(*columns, strict=True)):
            yield Minibatch(steps, *self.of(steps.obs_index))


class Minibatch(NamedTuple):
    """Steps to learn from at once.

    obs: float32 or uint8 [U, D], or sequences of U rows. row: int64 [B], the row of `obs` that each
    step saw; None if every step has a row of its own, in order.
    """

    steps: TensorBatch
    obs: Tensor | Packed
    row: Tensor | None


def stack_sequences(
    trajectories: Sequence[Trajectory],
) -> tuple[NDArray[Any], NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Return the observations of trajectories as sequences, one after another.

    Returns the rows [R, D]: of each trajectory those seen again before its first step, those acted
    on, and the last one. Then the number of rows of each sequence [N], the rows acted on [B], and
    the last rows [N].
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
    """Return the rows of some sequences in the order of time, and how many there are at each time:
    see `torch_memory.Packed`.

    lengths: [N], of all sequences, which lie one after another. without_last: how many rows at the
    end of each sequence are left out.
    """
    first = (np.cumsum(lengths) - lengths)[chosen]
    length = lengths[chosen] - without_last
    order = np.argsort(-length, kind="stable")
    first, length = first[order], length[order]
    counts = (length[:, None] > np.arange(length[0])).sum(axis=0)
    rows = [first[:n] + t for t, n in enumerate(counts.tolist())]
    return np.concatenate(rows), tuple(counts.tolist())


class RolloutSequences(NamedTuple):
    """A rollout's observations for networks with a memory: they see whole sequences.

    rows: float32 [R, D], one sequence after another. lengths: [N], the rows of each. The last row
    of each is not acted on.
    """

    rows: Tensor
    lengths: NDArray[np.int64]

    def computed(self, compute: Compute) -> Tensor:
        """Return what a network computes of all rows."""
        packed, place = self._packed(np.arange(len(self.lengths)))
        return compute(packed)[place]

    def minibatches(
        self, batch: TensorBatch, n_minibatches: int, whole: bool, shuffle: np.random.Generator
    ) -> Iterator[Minibatch]:
        """Yield one pass over the batch, with all steps of a sequence in one minibatch."""
        sequence = np.repeat(np.arange(len(self.lengths)), self.lengths)
        of_step = sequence[batch.obs_index.cpu().numpy()]
        n_steps = np.bincount(of_step, minlength=len(self.lengths))
        for part in in_parts(n_steps, n_minibatches, shuffle):
            steps = batch.at(np.flatnonzero(np.isin(of_step, part)))
            packed, place = self._packed(np.sort(part), without_last=1)
            yield Minibatch(steps, packed, place[steps.obs_index])

    def _packed(self, chosen: NDArray[np.int64], without_last: int = 0) -> tuple[Packed, Tensor]:
        """Return some sequences, and the place of each row among theirs, [R]."""
        rows, counts = in_time_order(self.lengths, chosen, without_last)
        at = torch.from_numpy(rows).to(self.rows.device)
        place = torch.zeros(len(self.rows), dtype=torch.int64, device=at.device)
        place[at] = torch.arange(len(at), device=at.device)
        return Packed(self.rows[at], counts), place
