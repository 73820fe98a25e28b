"""A rollout's batch on the learner's device, and its minibatches."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from agents.ppo.batch import whole_observations


class TensorBatch(NamedTuple):
    """A Batch, or a minibatch of it, on the learner's device.

    obs_index: int64 [B], the row of RolloutObs that each step saw. action: [B] or [B, K]; log_prob,
    value, advantage, return_: float32 [B]. log_prob is of the policy that the clip range is around.
    weight: float32 [B], a factor on the advantage in the policy's loss: how much less likely the
    action has become since it was taken, at most 1 (Hilton et al. 2021, "Batch size-invariance for
    policy optimization", equation 2).
    """

    obs_index: Tensor
    action: Tensor
    log_prob: Tensor
    value: Tensor
    advantage: Tensor
    return_: Tensor
    weight: Tensor


class RolloutObs(NamedTuple):
    """A rollout's observations as the networks see them, on the learner's device.

    rows: float32 [U, D]. repeat: whether the rows are distinct and many steps share each. CAGE-2's
    52 bits repeat: of 2400 steps against B_line, some 250 observations differ. The networks see
    each of them once a minibatch, which gives the same gradients for a third of the work.
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


class Minibatch(NamedTuple):
    """Steps to learn from at once.

    obs: float32 [U, D]. row: int64 [B], the row of `obs` that each step saw; None if every step has
    a row of its own, in order.
    """

    steps: TensorBatch
    obs: Tensor
    row: Tensor | None


def minibatches(
    obs: RolloutObs, batch: TensorBatch, size: int, whole: bool, shuffle: np.random.Generator
) -> Iterator[Minibatch]:
    """Yield one pass over the batch in random order, as minibatches of about `size` steps.

    whole: whether all steps of an observation that repeats are in one minibatch.
    """

    def on_device(rows: np.ndarray) -> Tensor:
        return torch.from_numpy(rows).to(batch.obs_index.device)

    # Minibatches of nearly equal size: a last one of few steps would be a noisy step.
    n_minibatches = math.ceil(len(batch.action) / size)
    if obs.repeat and whole:
        for chosen, distinct, row in whole_observations(
            batch.obs_index.cpu().numpy(), n_minibatches, shuffle
        ):
            steps = TensorBatch._make(column[on_device(chosen)] for column in batch)
            yield Minibatch(steps, obs.rows[on_device(distinct)], on_device(row))
        return
    order = on_device(shuffle.permutation(len(batch.action)))
    columns = (column[order].tensor_split(n_minibatches) for column in batch)
    for steps in map(TensorBatch._make, zip(*columns, strict=True)):
        yield Minibatch(steps, *obs.of(steps.obs_index))
