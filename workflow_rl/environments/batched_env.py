"""Base classes for a user's simulator that steps many environments in one call, and its envs."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeAlias

import gymnasium
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from workflow_rl.agents.policies.distributions import Actions
from workflow_rl.environments.action_mask import (
    MASK,
    METHOD,
    checked_masks,
    choices_of,
    require_choices,
)
from workflow_rl.environments.answers import COSTS, finite_costs
from workflow_rl.environments.env_batch import EpisodeError, Obs, StepAnswers, is_the_envs
from workflow_rl.environments.environment import ENV
from workflow_rl.environments.episode import EpisodeSpec
from workflow_rl.environments.flat_env import flat_space, unflattener
from workflow_rl.errors import ConfigError, ObservationError

Indices: TypeAlias = NDArray[np.int64]
COMPANY = 3
Step: TypeAlias = tuple[NDArray[Any], ...]


class SteppedTogether(ABC):
    """The common base of BatchedEnv and BatchedTeamEnv."""

    costs: tuple[str, ...] = ()
    """The names of the costs that each step has beside its reward, for `--budget`."""

    @abstractmethod
    def __init__(self, n_envs: int) -> None:
        """Make `n_envs` environments. Set the spaces here, or in the class. A subclass can have
        further arguments with defaults: `--env-arg key=value`."""

    def action_masks(self, indices: Indices) -> NDArray[Any]:
        """Return which actions are possible now in each of M environments.

        A class that overrides this method offers masks. The method is called after every reset and
        step, for the environments whose episodes go on.

        Returns:
            Numbers [M, A], 1 for a possible action and 0 for an impossible action. A is the number
            of actions of a Discrete. A MultiDiscrete's choices follow one another, and so do a
            team's agents. At least one action of each choice is possible. The masks of agents that
            do not decide are not read.
        """
        raise NotImplementedError

    @property
    def offers_masks(self) -> bool:
        return type(self).action_masks is not SteppedTogether.action_masks

    def close(self) -> None:  # noqa: B027 (most simulators hold nothing)
        """Free what the environments hold."""


class BatchedEnv(SteppedTogether):
    """N environments of one kind, numbered from 0. One call steps many environments.

    A subclass is trained on by its name, `--env module:Class`, or from Python by
    `train(config, env=Class)`. Each worker makes one instance, `Class(n_envs, **env_args)`. Other
    classes, and all functions, make single Gymnasium environments.

    In the shapes below, M is the number of environments that a call names, and D the length of an
    observation. A call must not change the environments that it does not name.

    Only its seed and its actions may decide an episode: not the number of the environment, the
    environments beside it, earlier episodes, or global random numbers. Then results are equal for
    any number of workers. `check-env` tests this.

    An exception ends the worker. A new worker replaces it, and plays the episodes again.
    """

    observation_space: spaces.Box
    """The observations of one environment, of shape (D,)."""

    action_space: spaces.Space[Any]
    """The actions of one environment: Discrete, MultiDiscrete, MultiBinary, or a Box of floats."""

    @abstractmethod
    def reset(self, indices: Indices, seeds: Indices) -> NDArray[Any]:
        """Begin an episode in each of M environments.

        Args:
            indices: the environments, int64 [M], different numbers from 0 to n_envs - 1.
            seeds: the seeds of the episodes, int64 [M], from 0 to 2**32 - 1.

        Returns:
            The first observations [M, D], of the dtype of `observation_space`.
        """

    @abstractmethod
    def step(self, indices: Indices, actions: NDArray[Any]) -> Step:
        """Step each of M environments, whose episodes have not ended, once.

        Args:
            indices: the environments, int64 [M], different numbers.
            actions: actions of `action_space`: int64 [M] for Discrete, otherwise [M, *shape] of the
                dtype of the space. Numbers of a Box are within its bounds.

        Returns:
            obs: observations [M, D], of the dtype of `observation_space`, before any reset.
            reward: numbers [M].
            terminated: bool [M], whether the episode has reached a terminal state.
            truncated: bool [M], whether the episode was cut off, such as by a limit of steps.
            costs: numbers [M, C] in the order of `costs`, only if the class names costs.
            The next call may overwrite all arrays.
        """


class BatchedEnvs:
    """A BatchedEnv as an `env_batch.EnvBatch`, which workers step.

    masks: whether observations end with the mask of actions, if the environment offers masks: see
    `agents.policies.distributions`.
    """

    def __init__(self, envs: BatchedEnv, n_envs: int, masks: bool = False) -> None:
        self.n_envs = n_envs
        self._envs = envs
        self._masked = masks and envs.offers_masks
        if self._masked:
            require_choices(envs.action_space)
        self._space = _flat_box(envs)
        self._dtype: Any = flat_space(self._space).dtype
        self._unflatten = unflattener(envs.action_space, is_batch=True)
        self._specs: dict[int, EpisodeSpec] = {}

    def reset(self, envs: Sequence[int], specs: Sequence[EpisodeSpec]) -> Obs:
        self._specs.update(zip(envs, specs, strict=True))
        if any(spec.progress is not None for spec in specs):
            raise ObservationError("its reset takes no options: train it without a curriculum")
        seeds = np.array([spec.env_seed for spec in specs], np.int64)
        indices = np.array(envs, np.int64)
        with self._told(envs):
            obs = self._flat(_begun(self._envs, indices, seeds))
            return self._with_masks(obs, indices, np.zeros(len(envs), np.bool_))

    def step(self, envs: Sequence[int], actions: Actions) -> StepAnswers:
        indices = np.array(envs, np.int64)
        with self._told(envs):
            answer = _stepped(self._envs, indices, self._unflatten(actions))
            ended = answer.terminated | answer.truncated
            return answer._replace(obs=self._with_masks(self._flat(answer.obs), indices, ended))

    def close(self) -> None:
        self._envs.close()

    def _with_masks(self, obs: Obs, indices: Indices, ended: NDArray[np.bool_]) -> Obs:
        """Return the observations with their masks. After the end of an episode, all is allowed."""
        if not self._masked:
            return obs
        masks = np.ones((len(obs), sum(choices_of(self._envs.action_space))), obs.dtype)
        if not ended.all():
            masks[~ended] = _masks(self._envs, indices[~ended])
        return np.concatenate([obs, masks], axis=1)

    @contextmanager
    def _told(self, envs: Sequence[int]) -> Iterator[None]:
        """Raise EpisodeError for an exception of the envs, if only one episode can have caused it,
        or if it is a breach of contract, which would be repeated."""
        try:
            yield
        except BaseException as error:
            if is_the_envs(error) and (len(envs) == 1 or isinstance(error, ObservationError)):
                raise EpisodeError(self._specs[envs[0]]) from error
            raise

    def _flat(self, obs: NDArray[Any]) -> Obs:
        flat = obs.astype(self._dtype)
        if flat.dtype.kind != "f" and np.count_nonzero(flat != obs):
            wrong = obs[flat != obs][0]
            raise ObservationError(f"an observation holds {wrong}; its space is {self._space}")
        return flat


class OneOfBatch(gymnasium.Env[NDArray[Any], Any]):
    """One environment of a BatchedEnv of COMPANY environments, as a Gymnasium environment.

    envs: the BatchedEnv. Each episode draws this environment's number and the other environments'
    seeds again, because the episodes that a check compares must not depend on them.
    """

    mask_method = METHOD

    def __init__(self, envs: BatchedEnv) -> None:
        self.observation_space = _flat_box(envs)
        self.action_space = envs.action_space
        self.envs = envs

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[NDArray[Any], dict[str, Any]]:
        """Begin an episode, and episodes of the other environments."""
        super().reset(seed=seed)
        chance = np.random.default_rng()
        self._own = int(chance.integers(COMPANY))
        self._playing = np.arange(COMPANY)
        seeds = chance.integers(2**32, size=COMPANY)
        seeds[self._own] = self.np_random.integers(2**32) if seed is None else seed
        return _begun(self.envs, self._playing, seeds)[self._own].copy(), self._info()

    def step(self, action: Any) -> tuple[NDArray[Any], float, bool, bool, dict[str, Any]]:
        """Step this environment, and the other environments whose episodes go on."""
        actions = np.stack([np.asarray(action, self.action_space.dtype)] * len(self._playing))
        row = int(np.searchsorted(self._playing, self._own))
        obs, reward, terminated, truncated, costs = _stepped(self.envs, self._playing, actions)
        self._playing = self._playing[~(terminated | truncated)]
        ended = bool(terminated[row]), bool(truncated[row])
        info = {} if any(ended) else self._info()
        if costs is not None:
            info[COSTS] = dict(zip(self.envs.costs, costs[row].tolist(), strict=True))
        return obs[row].copy(), float(reward[row]), *ended, info

    def _info(self) -> dict[str, Any]:
        if not self.envs.offers_masks:
            return {}
        return {MASK: _masks(self.envs, np.array([self._own]))[0]}

    def close(self) -> None:
        self.envs.close()


def _flat_box(envs: BatchedEnv) -> spaces.Box:
    space = envs.observation_space
    if not isinstance(space, spaces.Box) or len(space.shape) != 1:
        raise ConfigError(
            ENV, f"the observation space of a BatchedEnv is a Box of shape (D,), not {space}"
        )
    if isinstance(envs.action_space, spaces.Tuple | spaces.Dict):
        raise ConfigError(
            ENV,
            "the action space of a BatchedEnv is no Tuple or Dict: a MultiDiscrete has the same "
            "choices",
        )
    return space


def _begun(envs: BatchedEnv, indices: Indices, seeds: Indices) -> NDArray[Any]:
    """Reset, and return the observations. Raise ObservationError for a breach of contract."""
    return _observed(envs, envs.reset(indices.copy(), seeds), len(indices))


def _stepped(envs: BatchedEnv, indices: Indices, actions: NDArray[Any]) -> StepAnswers:
    """Step, and return the answers. Raise ObservationError for a breach of contract."""
    answer, names = envs.step(indices.copy(), actions), envs.costs
    m, n_wanted = len(indices), 4 + bool(names)
    if len(answer) != n_wanted:
        with_costs = f", the last of them the costs {', '.join(names)}" if names else ""
        raise ObservationError(f"step gave {len(answer)} arrays, not {n_wanted}{with_costs}")
    obs, reward, terminated, truncated, *costs = answer
    return StepAnswers(
        _observed(envs, obs, m),
        column("reward", reward, "biuf", (m,)).astype(np.float64),
        column("terminated", terminated, "b", (m,)),
        column("truncated", truncated, "b", (m,)),
        *(finite_costs(column("costs", of, "biuf", (m, len(names))), names) for of in costs),
    )


def _masks(envs: BatchedEnv, indices: Indices) -> NDArray[np.bool_]:
    """Return the masks. Raise ObservationError for a breach of contract."""
    sizes = choices_of(envs.action_space)
    masks = envs.action_masks(indices)
    if not sizes:  # A FlatEnv refuses masks of such actions, unless the run takes no masks.
        return masks
    masks = column("the array of action masks", masks, "biuf", (len(indices), sum(sizes)))
    return checked_masks(masks, sizes, "an action mask")


def _observed(envs: BatchedEnv, obs: Any, m: int) -> NDArray[Any]:
    shown, space = np.asarray(obs), envs.observation_space
    wanted = (m, *space.shape)
    if shown.shape != wanted or shown.dtype != space.dtype:
        raise ObservationError(
            f"the observations have shape {shown.shape} and dtype {shown.dtype}, not {wanted} and "
            f"{space.dtype}"
        )
    return shown


def column(name: str, values: Any, kinds: str, shape: tuple[int, ...]) -> NDArray[Any]:
    """Return values as an array. Raise ObservationError for another shape or kind of dtype."""
    column = np.asarray(values)
    if column.shape != shape or column.dtype.kind not in kinds:
        wanted = "bool" if kinds == "b" else "numbers"
        raise ObservationError(
            f"{name} has shape {column.shape} and dtype {column.dtype}, not {shape} and {wanted}"
        )
    return column
