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
from typing import Any

import gymnasium
import numpy as np

from agents.policies.numpy_policy import Actor
from workflow_rl.environments.determinism import first_difference
from workflow_rl.environments.env_batch import Env, ObservationError, SerialEnvs
from workflow_rl.environments.environment import ENV, InvalidEnvironmentError, Spaces
from workflow_rl.environments.environment import SETTINGS as SETTINGS
from workflow_rl.environments.flat_env import (
    CheckedEnv,
    FlatEnv,
    bounds_of,
    distribution_over,
    flat_space,
    in_one_line,
)

CHECK_STEPS = 200
CHECK_SECONDS = 1.0
MOST_LEVELS = 32
"""Of arguments within arguments: Python cannot copy those that have hundreds."""


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
                ENV, f"{self.env_id} cannot be played: {in_one_line(error)}"
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
            problem = in_one_line(error).rstrip(".")
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
