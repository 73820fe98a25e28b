"""Batches of simulated networks that compiled code steps together."""

import copy
from collections.abc import Sequence
from typing import Any, Generic, TypeAlias, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from workflow_rl.agents.policies.distributions import Actions
from workflow_rl.environments.env_batch import EpisodeError, Obs, StepAnswers
from workflow_rl.environments.episode import EpisodeSpec

Numbers: TypeAlias = NDArray[np.int64]
Snapshot: TypeAlias = tuple[NDArray[Any], ...]
"""`NetworkBatch.save` returns this: the networks' bytes, then the arrays that they show."""


class SimulationError(RuntimeError):
    """A network cannot go on: its record has no room for an event, or CybORG fails there, too.

    The message names the cause. env: the network's index in its batch, or None without a batch."""

    def __init__(self, why: str, env: int | None = None) -> None:
        super().__init__(why if env is None else f"env {env}: {why}")
        self.why = why
        self.env = env


class NetworkBatch:
    """N networks and their observations. A copy or a pickle plays on exactly as the original would.

    states: record array `[N]`, the networks."""

    def __init__(self, n_envs: int, record: np.dtype[Any]) -> None:
        self.states = np.zeros(n_envs, record)
        self._all = np.ones(n_envs, np.bool_)

    @property
    def _shown(self) -> tuple[NDArray[Any], ...]:
        """The arrays `[N, ...]` that a snapshot has beside the states."""
        raise NotImplementedError

    @property
    def _kept(self) -> tuple[NDArray[Any], ...]:
        return bytes_of(self.states), *self._shown

    __copy__ = copy.deepcopy
    """A shallow copy would share the networks: a step of the copy would change the original."""

    def save(self) -> Snapshot:
        """Return a snapshot of everything that the next steps depend on."""
        return tuple(array.copy() for array in self._kept)

    def load(self, snapshot: Snapshot) -> None:
        """Go on from a snapshot. If its shapes differ, change nothing and raise ValueError."""
        shapes = [getattr(saved, "shape", None) for saved in snapshot]
        if shapes != [array.shape for array in self._kept]:
            raise ValueError(
                "the snapshot is of another number of envs, of longer episodes or of other red "
                "agents"
            )
        for array, saved in zip(self._kept, snapshot, strict=True):
            array[:] = saved

    def _mask(self, chosen: ArrayLike | None) -> NDArray[np.bool_]:
        if chosen is None:
            return self._all
        mask = of_shape("chosen", chosen, (len(self.states),))
        if mask.dtype != np.bool_:
            raise ValueError(f"chosen: booleans are needed, not {mask.dtype}")
        return mask.copy()


Batch = TypeVar("Batch", bound=NetworkBatch)


class OneNetwork(Generic[Batch]):
    """A batch with one network. A copy or a pickle plays on exactly as the original would.

    chosen: the mask of the network, bool `[1]`."""

    def __init__(self, batch: Batch) -> None:
        self.batch = batch
        self.chosen = np.ones(1, np.bool_)

    __copy__ = copy.deepcopy

    @property
    def state(self) -> Any:
        """The network itself, a record."""
        return self.batch.states[0]

    def save(self) -> Snapshot:
        return self.batch.save()

    def load(self, snapshot: Snapshot) -> None:
        self.batch.load(snapshot)


def bytes_of(records: NDArray[Any]) -> NDArray[np.uint8]:
    """Return a view of records `[N]` as bytes `[N, bytes]`, which NumPy copies much faster."""
    return records.view(np.uint8).reshape(len(records), records.dtype.itemsize)


def of_shape(name: str, values: ArrayLike, shape: tuple[int, ...]) -> NDArray[Any]:
    """Return the values broadcast to a shape. Raises ValueError, which calls the values `name`."""
    try:
        return np.broadcast_to(values, shape)
    except ValueError:
        raise ValueError(
            f"{name}: an array of {shape} is needed, not of {np.shape(values)}"
        ) from None


def mask_of(envs: Sequence[int] | NDArray[np.int64], n_envs: int) -> NDArray[np.bool_]:
    """Return booleans `[n_envs]`: True for these envs."""
    chosen = np.zeros(n_envs, np.bool_)
    chosen[envs] = True
    return chosen


class NetworkEnvs:
    """An EnvBatch of `n_envs` networks, whose episodes are truncated after `n_steps` steps.

    A subclass says how the networks begin and play."""

    def __init__(self, n_envs: int, n_steps: int) -> None:
        self.n_envs = n_envs
        self._n_steps = n_steps
        self._steps_left = np.zeros(n_envs, np.int64)
        self._specs: dict[int, EpisodeSpec] = {}

    def reset(self, envs: Sequence[int], specs: Sequence[EpisodeSpec]) -> Obs:
        """Begin an episode in each of M envs. Return obs [M, D]."""
        self._specs.update(zip(envs, specs, strict=True))
        chosen = np.asarray(envs)
        seeds = np.zeros(self.n_envs, np.int64)
        seeds[chosen] = [spec.env_seed for spec in specs]
        self._steps_left[chosen] = self._n_steps
        return self._begin(chosen, specs, seeds, mask_of(chosen, self.n_envs))

    def step(self, envs: Sequence[int], actions: Actions) -> StepAnswers:
        chosen = np.asarray(envs)
        self._steps_left[chosen] -= 1
        truncated = self._steps_left[chosen] == 0
        try:
            obs, rewards = self._play(chosen, actions, mask_of(chosen, self.n_envs))
        except Exception as error:
            # A SimulationError has `env`. `OneByOne` adds `env` to an error of a user's attacker.
            env = getattr(error, "env", None)
            if env not in self._specs:
                raise
            raise EpisodeError(self._specs[env]) from error
        reward = np.asarray(rewards, np.float64)
        return StepAnswers(obs, reward, np.zeros_like(truncated), truncated, self._costs(chosen))

    def close(self) -> None:
        """Do nothing: there is nothing to close."""

    def _costs(self, envs: Numbers) -> NDArray[np.float64] | None:
        """Return the costs [M, C] of the last step in each of M envs, or None without costs."""
        return None

    def _begin(
        self, envs: Numbers, specs: Sequence[EpisodeSpec], seeds: Numbers, mask: NDArray[np.bool_]
    ) -> Obs:
        """Begin an episode in each of M envs. Return obs [M, D].

        seeds: [n_envs], zero for all other envs. mask: [n_envs], True for the M envs."""
        raise NotImplementedError

    def _play(
        self, envs: Numbers, actions: Actions, mask: NDArray[np.bool_]
    ) -> tuple[Obs, NDArray[Any]]:
        """Play a step in each of M envs. Return obs [M, D] and rewards [M].

        `_steps_left` already counts this step. A SimulationError has to name its env."""
        raise NotImplementedError
