"""A rollout as one flat batch on the learner's device, and its minibatches."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from workflow_rl.agents.trajectory import Trajectory

if TYPE_CHECKING:
    from workflow_rl.agents.policies.torch_memory import Packed


MOST_NUMBERS = 2**26
"""The most numbers of observations in one forward pass outside minibatches."""


class TensorBatch(NamedTuple):
    """The `B` steps of several trajectories, in the trajectories' order, or of a minibatch, on the
    learner's device.

    obs_index: int64 [B], each step's row of RolloutObs. action: [B] or [B, K]. log_prob, value,
    advantage, return_: float32 [B]. log_prob belongs to the policy in the middle of the clip range.
    return_ is the critic's target.
    weight: float32 [B], a factor on the advantage in the policy's loss. The factor is at most 1,
    and smaller if the action has become less likely since it was taken (Hilton et al. 2021, "Batch
    size-invariance for policy optimization", equation 2). taught: float32 [B, n_outputs], the
    outputs of a teacher's copy, or [B, 0] without a copy. cost_return: float32 [B, K], the targets
    of K costs' critics.
    """

    obs_index: Tensor
    action: Tensor
    log_prob: Tensor
    value: Tensor
    advantage: Tensor
    return_: Tensor
    weight: Tensor
    taught: Tensor
    cost_return: Tensor

    def on_device(self, rows: NDArray[np.int64]) -> Tensor:
        return torch.from_numpy(rows).to(self.obs_index.device)

    def at(self, rows: NDArray[np.int64]) -> TensorBatch:
        index = self.on_device(rows)
        return TensorBatch._make(column[index] for column in self)


def stack_obs(trajectories: Sequence[Trajectory]) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return observations acted on [B, D] and last observations [N, D], in the env's dtype."""
    obs = np.concatenate([trajectory.obs for trajectory in trajectories])
    return obs, np.stack([trajectory.last_obs for trajectory in trajectories])


def distinct_rows(rows: NDArray[Any]) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """Return the distinct rows [U, D] of `rows` [B, D], and an index [B] so that
    `distinct[index] == rows`.

    Rows are compared bit for bit. The order of the distinct rows depends only on their content.
    """
    rows = np.ascontiguousarray(rows)
    keys = rows.view(np.dtype((np.void, rows.itemsize * rows.shape[1])))[:, 0].tolist()
    # A dict hashes each row once. np.unique would compare each row with a dozen other rows.
    where = {key: n for n, key in enumerate(keys)}
    place = {key: n for n, key in enumerate(sorted(where))}
    index = np.fromiter(map(place.__getitem__, keys), np.int64, len(keys))
    return rows[[where[key] for key in place]], index


def in_parts(
    sizes: NDArray[np.int64], n_parts: int, shuffle: np.random.Generator
) -> list[NDArray[np.int64]]:
    """Divide N objects of these sizes at random into at most `n_parts` parts of nearly equal total
    size. Return the indices of each part's objects."""
    order = shuffle.permutation(len(sizes))
    middles = np.cumsum(sizes[order]) - sizes[order] / 2
    targets = sizes.sum() * np.arange(1, n_parts) / n_parts
    return [part for part in np.split(order, np.searchsorted(middles, targets)) if len(part)]


def whole_observations(
    obs_index: NDArray[np.int64], n_parts: int, shuffle: np.random.Generator
) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]]:
    """Divide steps at random into parts of nearly equal size. No observation is divided.

    obs_index: [B], the observation of each step. Yields for each part its steps [M], the steps'
    distinct observations [U], and the index [M] of each step's observation in these [U].
    """
    by_obs = np.argsort(obs_index, kind="stable")
    distinct, first, count = np.unique(obs_index[by_obs], return_index=True, return_counts=True)
    for part in in_parts(count, n_parts, shuffle):
        row = np.repeat(np.arange(len(part)), count[part])
        within = np.arange(len(row)) - np.repeat(np.cumsum(count[part]) - count[part], count[part])
        yield by_obs[first[part][row] + within], distinct[part], row


Compute: TypeAlias = "Callable[[Tensor | Packed], Tensor]"
"""A function of observations that returns a row of a network's outputs for each observation."""


class RolloutObs(NamedTuple):
    """A rollout's observations as inputs of the networks, on the learner's device.

    rows: float32 [U, D], or uint8 for networks that take bytes. repeat: whether the rows are
    distinct, and many steps share a row. For example, 2400 steps of CAGE-2 against B_line have some
    250 distinct observations. The networks see each of them once in a minibatch, which gives the
    same gradients with a third of the work.
    """

    rows: Tensor
    repeat: bool

    def of(self, obs_index: Tensor) -> tuple[Tensor, Tensor | None]:
        """Return observations for steps of these indices [B], and each step's row in these
        observations, or None if each step has its own row, in order."""
        if not self.repeat:
            return self.rows[obs_index], None
        distinct, row = torch.unique(obs_index, return_inverse=True)
        return self.rows[distinct], row

    def computed(self, compute: Compute) -> Tensor:
        # In one pass over all images, the network's intermediate results would take gigabytes.
        parts = self.rows.split(max(1, MOST_NUMBERS // self.rows.shape[1]))
        return torch.cat([compute(part) for part in parts])

    def minibatches(
        self, batch: TensorBatch, n_minibatches: int, whole: bool, shuffle: np.random.Generator
    ) -> Iterator[Minibatch]:
        """Yield minibatches of nearly equal size, in one pass over the batch in random order.

        whole: whether all steps of a repeated observation are in one minibatch.
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
    """The steps for one gradient step.

    obs: float32 or uint8 [U, D], or sequences of U rows. row: int64 [B], each step's row of `obs`,
    or None if each step has its own row, in order.
    """

    steps: TensorBatch
    obs: Tensor | Packed
    row: Tensor | None
