"""Any Gymnasium environment as what a run needs: flat observations, actions as they are sampled."""

from __future__ import annotations

import dataclasses
import functools
import importlib
import math
import os
import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from typing import Any, TypeAlias

import gymnasium
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from agents.distributions import (
    Bounds,
    Categorical,
    DiagonalGaussian,
    Distribution,
    MultiCategorical,
)
from agents.numpy_policy import Actor
from workflow_rl.collection.determinism import first_difference
from workflow_rl.collection.env_batch import Env, ObservationError, SerialEnvs
from workflow_rl.collection.environment import InvalidEnvironmentError, Spaces

ENV = "env"
CHECK_STEPS = 200
CHECK_SECONDS = 1.0

SETTINGS: dict[str, Any] = {
    "total_steps": 100_000,
    "learning_rate": 1e-3,
    "gae_lambda": 0.95,
    "epochs": 10,
    "minibatch_size": 256,
    "entropy_coef": 0.0,
    "reward_scale": 1.0,
    "normalise_obs": True,
    "normalise_returns": True,
}
"""A run's defaults where nothing is known of the environment."""

Flatten: TypeAlias = Callable[[Any], NDArray[Any]]
Unflatten: TypeAlias = Callable[[Any], Any]


@dataclass(frozen=True)
class GymnasiumEnvironment:
    """An environment by its id: Gymnasium's ("CartPole-v1", "module:ID"), or "module:function".

    args: keyword arguments of `gymnasium.make`, or of the function, which returns an environment.
    factory: that function itself, where there is one; the id is then only a name.
    named_by_file: whether only a file names the id and the arguments. Such an environment is
    never made: `training.trust` says when it may be.

    Raises InvalidEnvironmentError for an id or arguments that are no names.
    """

    env_id: str
    args: Mapping[str, Any] = field(default_factory=dict)
    factory: Callable[..., Env] | None = None
    named_by_file: bool = False

    variants = ()
    episode_steps = None
    steps_together = False
    plays_together = True
    preload = "workflow_rl.collection.worker_preload"
    settings = SETTINGS

    def __post_init__(self) -> None:
        names = [self.env_id, *self.args]
        if not all(isinstance(name, str) for name in names):
            raise InvalidEnvironmentError(ENV, f"{names!r:.200} are no names")

    @property
    def imports_a_module(self) -> bool:
        """Whether the id names a module, which is imported before the environment is made."""
        return self.factory is None and ":" in self.env_id

    @property
    def label(self) -> str:
        """The id without what file names must not have."""
        return re.sub(r"[^\w.-]+", "-", self.env_id)

    def make_env(self, **options: Any) -> Env:
        """One of them, as its author made it. Raises InvalidEnvironmentError if only a file names
        it, and what its author's code raises."""
        if self.named_by_file:
            raise InvalidEnvironmentError(ENV, f"{self.env_id} is named by a file: it is not made")
        make = self.factory or _factory_named(self.env_id)
        if make is not None:
            env: Env = make(**{**self.args, **options})
            return env
        return gymnasium.make(self.env_id, disable_env_checker=True, **{**self.args, **options})

    def make_flat_env(self) -> FlatEnv:
        """One of them, as workers step it."""
        return FlatEnv(self.make_env())

    def bare_actor(self, actor: Actor) -> Actor:
        """The same."""
        return actor

    def make_envs(self, n_envs: int) -> SerialEnvs:
        """So many of them, in a worker."""
        return SerialEnvs(self.make_flat_env, n_envs)

    @functools.cached_property
    def _spaces(self) -> Spaces:
        env = self.made()
        try:
            observed = flat_space(env.observation_space)
            distribution = distribution_over(env.action_space)
            bits = observed.dtype == np.uint8 and bool(observed.high.max() <= 1)
            obs_dim = math.prod(observed.shape)
            return Spaces(obs_dim, distribution, bounds_of(env.action_space), bits)
        except AttributeError as error:
            raise InvalidEnvironmentError(
                ENV, f"{self.env_id} has no observation_space or no action_space: {error}"
            ) from error
        finally:
            env.close()

    def spaces(self) -> Spaces:
        """Raises InvalidEnvironmentError."""
        return self._spaces

    def check(self) -> str | None:
        """Make one and try it: see Environment."""
        self.spaces()
        try:
            self._require_true_space()
            return first_difference(self.made, CHECK_STEPS, CHECK_SECONDS)
        except InvalidEnvironmentError:
            raise
        except Exception as error:
            raise InvalidEnvironmentError(
                ENV, f"{self.env_id} cannot be played: {_in_one_line(error)}"
            ) from error

    def _require_true_space(self) -> None:
        """Raises InvalidEnvironmentError if the first observation is not as the space says."""
        env = self.made()
        try:
            seen, _ = env.reset(seed=0)
            declared = env.observation_space
            is_box = isinstance(declared, spaces.Box)  # Whose flatten casts as well.
            flat = np.asarray(seen if is_box else spaces.flatten(declared, seen)).ravel()
            as_seen = flattener(declared)(seen)
        finally:
            env.close()
        same = flat.shape == flat_space(declared).shape and np.allclose(
            flat.astype(np.float64), as_seen.astype(np.float64), rtol=1e-3, equal_nan=True
        )
        if not same:
            raise InvalidEnvironmentError(
                ENV, f"{self.env_id} shows {seen!r}, which its space {declared} does not hold"
            )

    def made(self) -> Env:
        """One of them. Raises InvalidEnvironmentError."""
        try:
            env = self.make_env()
        except InvalidEnvironmentError:
            raise
        except Exception as error:
            local = re.search(r"__main__|<", self.env_id)
            hint = ". From Python, give the function that makes it as env" if local else ""
            if isinstance(error, gymnasium.error.NameNotFound) and self.factory is None:
                hint = hint or _where_it_may_be(self.env_id)
            problem = _in_one_line(error).rstrip(".")
            raise InvalidEnvironmentError(
                ENV, f"{self.env_id} cannot be made: {problem}{hint}"
            ) from error
        if not isinstance(env, gymnasium.Env):
            raise InvalidEnvironmentError(
                ENV, f"{self.env_id} made a {type(env).__name__}, which is no gymnasium.Env"
            )
        return env

    def __getstate__(self) -> dict[str, Any]:
        # Ids that the caller's own script registered are not known in the workers.
        registered = gymnasium.registry.get(self.env_id)
        state = {one.name: getattr(self, one.name) for one in dataclasses.fields(self)}
        return {"environment": state, "registered": registered}

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        vars(self).update(state["environment"])
        if state["registered"] is not None:
            gymnasium.registry.setdefault(self.env_id, state["registered"])


def _factory_named(env_id: str) -> Callable[..., Env] | None:
    """The function of the name "module:function"; None if it is an id of Gymnasium's."""
    module_name, colon, name = env_id.partition(":")
    if not colon:
        return None
    if os.getcwd() not in sys.path:
        # A command that pip installed does not look where it was called.
        sys.path.insert(0, os.getcwd())
    factory: Callable[..., Env] | None = getattr(importlib.import_module(module_name), name, None)
    return factory


def _where_it_may_be(env_id: str) -> str:
    """A sentence, of an id that Gymnasium does not know; empty if there is nothing to say."""
    module, colon, name = env_id.partition(":")
    if not colon:
        if not (os.path.isfile(env_id) or os.path.isfile(f"{env_id}.py")):
            return ""
        return f". One of your own is named by its module: {Path(env_id).stem}:MyEnv"
    if hasattr(sys.modules[module], name):
        return ""  # It was found, and is in want of another itself.
    defined = [one for one, value in vars(sys.modules[module]).items() if callable(value)]
    return "".join(f". Did you mean {module}:{one}?" for one in get_close_matches(name, defined, 1))


def _in_one_line(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__


class FlatEnv(gymnasium.Wrapper[NDArray[Any], Any, Any, Any]):
    """Observations as vectors [D], actions as `distribution_over` the action space samples them.

    Raises InvalidEnvironmentError for a space that is not supported, and ObservationError for an
    observation that is not of its space's shape, or of no number that fits in.
    """

    def __init__(self, env: Env) -> None:
        super().__init__(env)
        self._steps = 0
        self.observation_space = flat_space(env.observation_space)
        self._space = env.observation_space
        self._is_box = isinstance(self._space, spaces.Box)
        self._shape = self.observation_space.shape
        self._dtype: Any = self.observation_space.dtype
        self._kinds = "biuf" if self.observation_space.dtype.kind == "f" else "biu"
        self._flatten = flattener(env.observation_space)
        self._unflatten = unflattener(env.action_space)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[NDArray[Any], dict[str, Any]]:
        """Begin an episode."""
        obs, info = self.env.reset(seed=seed, options=options)
        self._steps = 0
        return self._flat(obs), info

    def step(self, action: Any) -> tuple[NDArray[Any], float, bool, bool, dict[str, Any]]:
        """One step."""
        obs, reward, terminated, truncated, info = self.env.step(self._unflatten(action))
        self._steps += 1
        return self._flat(obs), float(reward), terminated, truncated, info

    def _flat(self, obs: Any) -> NDArray[Any]:
        try:
            flat = self._flatten(obs)
        except Exception as error:
            raise self._wrong(f"cannot be used: {_in_one_line(error)}") from error
        if flat.shape != self._shape:
            seen = (np.shape(obs), self._space.shape) if self._is_box else (flat.shape, self._shape)
            raise self._wrong(f"has shape {seen[0]}, not {seen[1]}")
        # Asked once a dtype, which is mostly the same object from step to step.
        if self._is_box and getattr(obs, "dtype", None) is not self._dtype:
            seen_dtype = np.asarray(obs).dtype
            if seen_dtype.kind in self._kinds:
                self._dtype = seen_dtype
            elif not np.array_equal(np.ravel(obs), flat):  # Whole numbers may come as floats.
                raise self._wrong(f"is of {seen_dtype}, not {flat.dtype}")
        return flat

    def _wrong(self, how: str) -> ObservationError:
        return ObservationError(
            f"the environment's observation of step {self._steps} {how}; its space is {self._space}"
        )


def flat_space(space: spaces.Space[Any]) -> spaces.Box:
    """The space of flat observations [D], by Gymnasium's own `flatten`.

    Floats become float32, and small integers uint8. Raises InvalidEnvironmentError.
    """
    _require_supported(space, space)
    flat = spaces.flatten_space(space)
    assert isinstance(flat, spaces.Box)
    if not math.prod(flat.shape):
        raise InvalidEnvironmentError(ENV, f"its observation space {space} holds no numbers")
    dtype: Any = np.float32 if flat.dtype.kind == "f" else flat.dtype
    if flat.dtype.kind in "biu" and flat.low.min() >= 0 and flat.high.max() <= 255:
        dtype = np.uint8
    with np.errstate(over="ignore"):  # The largest float64 stands for infinity.
        return spaces.Box(flat.low.astype(dtype), flat.high.astype(dtype), flat.shape, dtype)


def _require_supported(space: spaces.Space[Any], whole: spaces.Space[Any]) -> None:
    if isinstance(space, spaces.Dict | spaces.Tuple):
        parts = space.spaces.values() if isinstance(space, spaces.Dict) else space.spaces
        for part in parts:
            _require_supported(part, whole)
        return
    plain = (spaces.Box, spaces.Discrete, spaces.MultiBinary, spaces.MultiDiscrete)
    if not isinstance(space, plain):
        within = "" if space is whole else f", within {whole}"
        raise InvalidEnvironmentError(
            ENV,
            f"its observation space {space}{within} is not supported: Box, Discrete, MultiBinary, "
            "MultiDiscrete, and Tuple and Dict of these are",
        )


def flattener(space: spaces.Space[Any]) -> Flatten:
    """From an observation to one of `flat_space`. Raises InvalidEnvironmentError."""
    dtype: Any = flat_space(space).dtype
    if isinstance(space, spaces.Box):
        return lambda obs: np.asarray(obs, dtype).ravel()
    return lambda obs: np.asarray(spaces.flatten(space, obs)).astype(dtype)


def distribution_over(space: spaces.Space[Any]) -> Distribution:
    """The distribution over an action space. Raises InvalidEnvironmentError."""
    if isinstance(space, spaces.Discrete):
        return Categorical(int(space.n))
    if isinstance(space, spaces.MultiDiscrete):
        return MultiCategorical(space.nvec.ravel().tolist())
    if isinstance(space, spaces.Box) and space.dtype.kind == "f":
        return DiagonalGaussian(math.prod(space.shape))
    raise InvalidEnvironmentError(
        ENV,
        f"its action space {space} is not supported: Discrete, MultiDiscrete and Box of floats are",
    )


def bounds_of(space: spaces.Space[Any]) -> Bounds | None:
    """Of a Box's numbers; None for another space."""
    if not isinstance(space, spaces.Box):
        return None
    return tuple(space.low.ravel().tolist()), tuple(space.high.ravel().tolist())


def unflattener(space: spaces.Space[Any]) -> Unflatten:
    """From a sampled action to one of the space: shaped, shifted to its start, clipped to its
    bounds."""
    if isinstance(space, spaces.Discrete):
        start = int(space.start)
        return lambda action: start + int(action)
    if isinstance(space, spaces.MultiDiscrete):
        first, shape, dtype = space.start, space.shape, space.dtype
        return lambda action: (np.reshape(action, shape) + first).astype(dtype)
    assert isinstance(space, spaces.Box)
    low, high, shape, dtype = space.low, space.high, space.shape, space.dtype
    return lambda action: np.asarray(np.clip(np.reshape(action, shape), low, high), dtype)
