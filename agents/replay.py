"""The remembered steps of an off-policy learner, from which it draws batches."""

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from workflow_rl.agents.policies.distributions import Actions
from workflow_rl.agents.trajectory import Float64Array, Trajectory


class Transitions(NamedTuple):
    """`B` steps of any episodes.

    obs, next_obs: [B, D], the env's dtype. action: [B] or [B, K]. reward: float64 [B]. terminated:
    bool [B], whether the episode terminated with the step. An episode that was truncated, or that
    goes on in the next unroll, has not terminated. For a model's imagined steps, `terminated` is
    float32 [B], the probability that the episode terminated.
    """

    obs: NDArray[Any]
    action: Actions
    reward: Float64Array
    next_obs: NDArray[Any]
    terminated: NDArray[np.bool_] | NDArray[np.float32]

    def at(self, rows: Any) -> Self:
        obs, action, reward, next_obs, terminated = (column[rows] for column in self)
        return type(self)(obs, action, reward, next_obs, terminated)

    @property
    def n_steps(self) -> int:
        return len(self.reward)


def joined_transitions(parts: Sequence[Transitions]) -> Transitions:
    return Transitions._make(np.concatenate(columns) for columns in zip(*parts, strict=True))


def transitions_of(trajectories: Sequence[Trajectory]) -> Transitions:
    parts = []
    for trajectory in trajectories:
        terminated = np.zeros(trajectory.length, np.bool_)
        terminated[-1] = trajectory.terminated
        next_obs = np.concatenate([trajectory.obs[1:], trajectory.last_obs[None]])
        parts.append(
            Transitions(trajectory.obs, trajectory.action, trajectory.reward, next_obs, terminated)
        )
    return joined_transitions(parts)


class ReplayBuffer:
    """The last `capacity` steps. An empty buffer has no columns yet."""

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.n_added = 0
        self._columns: Transitions | None = None

    def add(self, steps: Transitions) -> None:
        """Add steps. In a full buffer, they replace the oldest steps."""
        self.n_added += max(0, steps.n_steps - self.capacity)
        steps = steps.at(slice(-self.capacity, None))
        if self._columns is None:
            self._columns = Transitions._make(_room_for(column, 0) for column in steps)
        rows = (self.n_added + np.arange(steps.n_steps)) % self.capacity
        end = int(rows.max()) + 1
        if end > self._columns.n_steps:
            size = min(self.capacity, 2 * end)
            self._columns = Transitions._make(
                np.concatenate([column, _room_for(column, size - len(column))])
                for column in self._columns
            )
        for column, values in zip(self._columns, steps, strict=True):
            column[rows] = values
        self.n_added += steps.n_steps

    def __len__(self) -> int:
        return min(self.n_added, self.capacity)

    @property
    def steps(self) -> Transitions:
        """All steps, in no order. The arrays are views and must not be written to."""
        assert self._columns is not None
        return self._columns.at(slice(len(self)))

    @property
    def oldest(self) -> int:
        """The number of the oldest step. The first step that was ever added is step 0."""
        return self.n_added - len(self)

    def numbered(self, first: int, end: int) -> Transitions:
        """Return a copy of the steps from number `first` to before `end`. first: >= `oldest`."""
        return self.steps.at(np.arange(first, end) % self.capacity)

    def load(self, n_added: int, parts: Iterable[Transitions]) -> None:
        """Replace the steps with the last of `n_added` steps, which are in `parts`, oldest first.

        Raises ValueError if the parts have more or fewer steps than the buffer should hold.
        """
        n_held = min(n_added, self.capacity)
        self.n_added, self._columns = n_added - n_held, None
        for steps in parts:
            if self._columns is None:
                self._columns = Transitions._make(_room_for(column, n_held) for column in steps)
            self.add(steps)
        if self.n_added != n_added:
            raise ValueError("its replay buffer is of another size")

    def newest(self, n_steps: int) -> NDArray[np.int64]:
        """Return the rows of the last added steps, at most `n_steps`, oldest first."""
        n_steps = min(n_steps, len(self))
        rows: NDArray[np.int64] = (self.n_added - n_steps + np.arange(n_steps)) % self.capacity
        return rows


def _room_for(column: NDArray[Any], size: int) -> NDArray[Any]:
    return np.empty((size, *column.shape[1:]), column.dtype)
