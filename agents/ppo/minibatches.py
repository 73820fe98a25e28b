"""A rollout's batch on the learner's device, and its minibatches."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from workflow_rl.agents.ppo.batch import whole_observations

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
