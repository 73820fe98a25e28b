"""Any Gymnasium environment as what a run needs: flat observations, actions as they are sampled."""

from __future__ import annotations

import dataclasses
import functools
import importlib
import math
import os
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from importlib.machinery import PathFinder
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
MOST_LEVELS = 32
"""Of arguments within arguments: Python cannot copy those that have hundreds."""

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
        if _is_deeper(self.args, MOST_LEVELS):
            raise InvalidEnvironmentError(ENV, f"its arguments have more than {MOST_LEVELS} levels")

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
            return first_difference(lambda: CheckedEnv(self.made()), CHECK_STEPS, CHECK_SECONDS)
        except InvalidEnvironmentError:
            raise
        except ObservationError as error:
            raise InvalidEnvironmentError(
                ENV, f"{self.env_id} shows what its space does not hold: {error}"
            ) from error
        except Exception as error:
            raise InvalidEnvironmentError(
                ENV, f"{self.env_id} cannot be played: {_in_one_line(error)}"
            ) from error

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


def _is_deeper(value: Any, levels: int) -> bool:
    inner = value.values() if isinstance(value, Mapping) else value
    if not isinstance(value, Mapping | list | tuple):
        return False
    return levels < 0 or any(_is_deeper(one, levels - 1) for one in inner)


def _factory_named(env_id: str) -> Callable[..., Env] | None:
    """The function of the name "module:function"; None if it is an id of Gymnasium's."""
    module_name, colon, name = env_id.partition(":")
    if not colon:
        return None
    here = os.getcwd()
    if place_of(module_name, [here, *sys.path]) != place_of(module_name, sys.path):
        # A command that pip installed does not look where it was called. Only a module of the
        # current folder needs that: an installed one would import its own modules from here.
        sys.path.insert(0, here)
    factory: Callable[..., Env] | None = getattr(importlib.import_module(module_name), name, None)
    return factory


def place_of(module: str, path: Sequence[str]) -> str | None:
    """The file or folder that a module's outermost package would be imported from, or None.

    Imports nothing, and follows no link: what the place holds besides would be imported too.
    path: the folders to look in, as `sys.path`.
    """
    package = module.partition(".")[0]
    if package in sys.builtin_module_names:
        return "built-in"
    spec = PathFinder.find_spec(package, path)
    if spec is None:  # pip leaves finders of packages that are installed where they are developed.
        others = [one for one in sys.meta_path if one is not PathFinder]
        specs = (one.find_spec(package, None) for one in others if hasattr(one, "find_spec"))
        spec = next(filter(None, specs), None)
    if spec is None:
        return None
    return os.path.abspath(spec.origin or next(iter(spec.submodule_search_locations or ("",))))


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
    observation that cannot be one of its space, see `flattener`.
    """

    def __init__(self, env: Env) -> None:
        super().__init__(env)
        self._steps = 0
        self.observation_space = flat_space(env.observation_space)
        self._space = env.observation_space
        self._flatten = _part(env.observation_space, self.observation_space.dtype)
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
            return self._flatten(obs)
        except Exception as error:
            raise _wrong(
                f"the environment's observation of step {self._steps}", error, self._space
            ) from error


class CheckedEnv(FlatEnv):
    """The env as it is, whose observations are looked at as FlatEnv does; raises what that does."""

    def __init__(self, env: Env) -> None:
        super().__init__(env)
        self.observation_space = env.observation_space
        self._unflatten = lambda action: action

    def _flat(self, obs: Any) -> Any:
        with np.errstate(over="raise"):  # At what no float32 holds.
            super()._flat(obs)
        return obs


class _UnfitError(ValueError):
    """Says of an observation what keeps it from being one of its space."""


def _wrong(what: str, error: Exception, space: spaces.Space[Any]) -> ObservationError:
    how = str(error) if isinstance(error, _UnfitError) else f"cannot be used: {_in_one_line(error)}"
    return ObservationError(f"{what} {how}; its space is {space}")


def flat_space(space: spaces.Space[Any]) -> spaces.Box:
    """The space of flat observations [D], by Gymnasium's own `flatten`.

    Floats become float32, and small integers uint8. Raises InvalidEnvironmentError.
    """
    _require_supported(space, space)
    if not spaces.flatdim(space):
        raise InvalidEnvironmentError(ENV, f"its observation space {space} holds no numbers")
    flat = spaces.flatten_space(space)
    assert isinstance(flat, spaces.Box)
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
    """From an observation to one of `flat_space`, as Gymnasium's `flatten` does, but that it raises
    ObservationError where something else would be made of it: for another shape or kind, for an
    integer that would wrap around, and for a choice that a discrete space does not have.

    Raises InvalidEnvironmentError.
    """
    flatten = _part(space, flat_space(space).dtype)

    def flattened(obs: Any) -> NDArray[Any]:
        try:
            return flatten(obs)
        except Exception as error:
            raise _wrong("the observation", error, space) from error

    return flattened


def _part(space: spaces.Space[Any], dtype: Any) -> Flatten:
    """A flattener of a space that is part of one which is flattened to `dtype`, or that itself."""
    if isinstance(space, spaces.Discrete):
        return _one_hot(space, dtype)
    if isinstance(space, spaces.MultiDiscrete):
        return _one_hots(space, dtype)
    if isinstance(space, spaces.Dict):
        named = [(name, _part(one, dtype)) for name, one in space.spaces.items()]
        return lambda obs: np.concatenate([part(obs[name]) for name, part in named])
    if isinstance(space, spaces.Tuple):
        parts = [_part(one, dtype) for one in space.spaces]
        return lambda obs: np.concatenate([part(one) for part, one in zip(parts, obs, strict=True)])
    return _Numbers(space, dtype)


_UNKNOWN = object()


class _Numbers:
    """Flattens the numbers of a Box, or bits. dtype: float32 where they, or others beside them,
    are no integers."""

    def __init__(self, space: spaces.Space[Any], dtype: Any) -> None:
        assert space.shape is not None
        assert space.dtype is not None
        self._shape = space.shape
        self._size = math.prod(space.shape)
        self._dtype: Any = np.dtype(dtype)
        self._is_whole = space.dtype.kind != "f"
        is_asked = self._is_whole and self._dtype.kind == "f"
        self._named = space.dtype if is_asked else self._dtype
        # Of a list nobody knows before it is looked at.
        self._harmless: Any = _UNKNOWN if is_asked else self._dtype

    def __call__(self, obs: Any) -> NDArray[Any]:
        flat = np.asarray(obs, self._dtype).ravel()
        if flat.size != self._size:
            raise _UnfitError(f"has shape {np.shape(obs)}, not {self._shape}")
        # Asked once a dtype, which is mostly the same object from step to step.
        if getattr(obs, "dtype", None) is not self._harmless:
            self._require_kept(np.asarray(obs).ravel(), flat)
        return flat

    def _require_kept(self, seen: NDArray[Any], flat: NDArray[Any]) -> None:
        if seen.dtype.kind not in "biuf":
            raise _UnfitError(f"is of {seen.dtype}, not {self._named}")
        if self._is_whole and seen.dtype.kind == "f":  # Whole numbers may come as floats.
            changed = (seen != flat) | (seen != np.rint(seen))
        elif self._dtype.kind == "f" or np.can_cast(seen.dtype, self._dtype):
            self._harmless = seen.dtype
            return
        else:
            changed = seen != flat
        if np.count_nonzero(changed):  # In half the time of `any`.
            raise _UnfitError(f"holds {seen[changed][0]}, which is no {self._named}")


def _one_hot(space: spaces.Discrete, dtype: Any) -> Flatten:
    n, start = int(space.n), int(space.start)

    def flatten(obs: Any) -> NDArray[Any]:
        choice = np.asarray(obs).item()
        if not 0 <= choice - start < n or choice != int(choice):
            raise _UnfitError(f"holds {choice}, which is not in {space}")
        flat = np.zeros(n, dtype)
        flat[int(choice) - start] = 1
        return flat

    return flatten


def _one_hots(space: spaces.MultiDiscrete, dtype: Any) -> Flatten:
    n, start = (of.ravel().astype(np.int64) for of in (space.nvec, space.start))
    first, size = np.cumsum(n) - n, int(n.sum())
    numbers = _Numbers(space, np.int64)

    def flatten(obs: Any) -> NDArray[Any]:
        choices = numbers(obs) - start
        outside = (choices < 0) | (choices >= n)
        if outside.any():
            raise _UnfitError(f"holds {(choices + start)[outside][0]}, which is not in {space}")
        flat = np.zeros(size, dtype)
        flat[first + choices] = 1
        return flat

    return flatten


def distribution_over(space: spaces.Space[Any]) -> Distribution:
    """The distribution over an action space. Raises InvalidEnvironmentError."""
    if isinstance(space, spaces.Box | spaces.MultiDiscrete) and not spaces.flatdim(space):
        raise InvalidEnvironmentError(ENV, f"its action space {space} holds no numbers")
    if isinstance(space, spaces.Discrete):
        return Categorical(int(space.n))
    if isinstance(space, spaces.MultiDiscrete):
        return MultiCategorical(space.nvec.ravel().tolist())
    if isinstance(space, spaces.Box) and space.dtype.kind == "f":
        return DiagonalGaussian(spaces.flatdim(space))
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
