"""Any Gymnasium environment, and any BatchedEnv, as the Environment of a run."""

from __future__ import annotations

import dataclasses
import functools
import math
import os
import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np

from workflow_rl.agents.modules import (
    imported,
    in_one_line,
    name_meant,
    refuse_a_file,
    where_to_call,
)
from workflow_rl.agents.policies.entity_layout import TABLES, EntityLayout, declared
from workflow_rl.agents.policies.numpy_policy import Actor
from workflow_rl.environments.action_mask import (
    MaskingEnv,
    offers_mask,
    privileged_space,
    tells_masks,
    without_mask,
    without_privileged,
)
from workflow_rl.environments.batched_env import (
    COMPANY,
    BatchedEnv,
    BatchedEnvs,
    OneOfBatch,
)
from workflow_rl.environments.env_batch import Env, EnvBatch, ObservationError, SerialEnvs
from workflow_rl.environments.environment import ENV, InvalidEnvironmentError, Spaces
from workflow_rl.environments.environment import SETTINGS as SETTINGS
from workflow_rl.environments.facts import Facts, Followed, Tell, facts_of
from workflow_rl.environments.flat_env import (
    CheckedEnv,
    FlatEnv,
    bounds_of,
    distribution_over,
    flat_space,
)
from workflow_rl.environments.joint_batch import BatchedTeamEnv, JointBatch
from workflow_rl.environments.joint_env import JointEnv, is_parallel

CHECK_STEPS = 200
CHECK_SECONDS = 1.0
MOST_LEVELS = 32
"""Levels of nested arguments. Python cannot copy hundreds of them."""


@dataclass(frozen=True)
class GymnasiumEnvironment:
    """An environment by its id.

    env_id: an id of Gymnasium's ("CartPole-v1", "module:ID"), or "module:name" of a function or
        class that makes a Gymnasium environment, or of a class that inherits BatchedEnv
        or BatchedTeamEnv.
    args: keyword arguments of `gymnasium.make`, of the function, or of the class.
    factory: the function or class itself. The id is then only a name.
    masks: whether agents see the mask of actions that the environment offers, if it does.
    named_by_file: whether only a file names the id and the arguments. Such an environment is never
        made: whoever may trust the file replaces this object.

    Raises InvalidEnvironmentError if the id or an argument's name is not text.
    """

    env_id: str
    args: Mapping[str, Any] = field(default_factory=dict)
    factory: Callable[..., Env] | None = None
    masks: bool = True
    named_by_file: bool = False

    variants = ()
    episode_steps = None
    plays_together = True
    preload = "workflow_rl.environments.gymnasium_env"
    settings = SETTINGS

    def __post_init__(self) -> None:
        names = [self.env_id, *self.args]
        if not all(isinstance(name, str) for name in names):
            raise InvalidEnvironmentError(ENV, f"{names!r:.200} are not all text")
        if self.factory is not None and not callable(self.factory):
            raise InvalidEnvironmentError(
                ENV, f"{self.factory!r:.200}: give the function or class that makes the environment"
            )
        if _is_deeper(self.args, MOST_LEVELS):
            raise InvalidEnvironmentError(ENV, f"its arguments have more than {MOST_LEVELS} levels")

    @property
    def imports_a_module(self) -> bool:
        """Whether the id names a module, which is imported before the environment is made."""
        return self.factory is None and ":" in self.env_id

    @property
    def steps_together(self) -> bool:
        """Whether one call steps all environments of a worker: see `BatchedEnv`.

        Imports the module that the id names, unless only a file names it.
        """
        try:
            return not self.named_by_file and _is_batched(self._factory())
        except Exception:  # `check` says what is wrong with the module.
            return False

    def _factory(self) -> Callable[..., Any] | None:
        return self.factory or _factory_named(self.env_id)

    @property
    def label(self) -> str:
        """The id without characters that file names must not have."""
        return re.sub(r"[^\w.-]+", "-", self.env_id)

    def make_env(self, **options: Any) -> Env:
        """Return one environment, as its author made it.

        Raise InvalidEnvironmentError if only a file names it, and whatever its author's code
        raises.
        """
        if self.named_by_file:
            raise InvalidEnvironmentError(ENV, f"{self.env_id} is named by a file: it is not made")
        make, args = self._factory(), {**self.args, **options}
        if make is not None:
            if _is_batched(make):
                return OneOfBatch(_batch(make, COMPANY, args))
            env: Env = make(**args)
            if is_parallel(env):
                return JointEnv(env)
        else:
            env = gymnasium.make(self.env_id, disable_env_checker=True, **args)
        return MaskingEnv(env) if self.masks and tells_masks(env) else env

    def make_flat_env(self) -> FlatEnv:
        """Return one environment, as workers step it."""
        return FlatEnv(self.make_env(), self.masks)

    def bare_actor(self, actor: Actor) -> Actor:
        """Return the actor: observations and actions are not transformed."""
        return actor

    def make_envs(self, n_envs: int) -> EnvBatch:
        """Return `n_envs` environments, in a worker."""
        if self.steps_together:
            make = self._factory()
            assert make is not None
            return BatchedEnvs(_batch(make, n_envs, self.args), n_envs, self.masks)
        return SerialEnvs(self.make_flat_env, n_envs)

    @property
    def is_known(self) -> bool:
        """Whether the facts are known, so that nothing is made to find them out."""
        return "facts" in vars(self)

    def learn(self, facts: Facts) -> None:
        """Take over the facts that another process found out."""
        vars(self)["facts"] = facts

    @functools.cached_property
    def facts(self) -> Facts:
        """What the environment declares. Raises InvalidEnvironmentError.

        Makes an environment in this process, unless the facts are known: see `collection.trial`.
        """
        env = self.made()
        try:
            masked = self.masks and offers_mask(env)
            shown = env.observation_space
            shown = without_mask(shown) if masked else shown
            observed, hidden = flat_space(without_privileged(shown)), privileged_space(shown)
            privileged = 0 if hidden is None else math.prod(flat_space(hidden).shape)
            distribution = distribution_over(env.action_space)
            bits = observed.dtype == np.uint8 and bool(observed.high.max() <= 1)
            obs_dim = math.prod(observed.shape)
            joint = env.envs if isinstance(env, OneOfBatch) else env
            team = joint.layout if isinstance(joint, JointEnv | JointBatch) else None
            team = team and dataclasses.replace(team, masked=masked)
            bounds = bounds_of(env.action_space)
            entities = None if team else _entities_of(env, obs_dim, distribution.n_outputs)
            own = Spaces(obs_dim, distribution, bounds, bits, masked, team, entities, privileged)
            return facts_of(env, own)
        except InvalidEnvironmentError:
            raise
        except Exception as error:
            raise InvalidEnvironmentError(
                ENV, f"{self.env_id} {self._fault_of(env, error)}"
            ) from error
        finally:
            env.close()

    @staticmethod
    def _fault_of(env: Env, error: Exception) -> str:
        """Return what is wrong with an environment whose spaces cannot be told."""
        if isinstance(error, ObservationError):
            return f"gives a wrong answer: {error}"
        for name in ("observation_space", "action_space"):
            if not hasattr(env, name):
                return f"has no {name}"
        return f"cannot be played: {in_one_line(error)}"

    def spaces(self) -> Spaces:
        """Return the spaces. Raise InvalidEnvironmentError."""
        return self.facts.spaces

    def check(self, tell: Tell = lambda: None) -> str | None:
        """Make an env and try it: see Environment. tell: takes signs of life."""
        from workflow_rl.environments.determinism import first_difference  # Workers alone need it.

        self.spaces()
        try:
            return first_difference(
                lambda: Followed(CheckedEnv(self.made(), self.masks), tell),
                *(CHECK_STEPS, CHECK_SECONDS),
            )
        except InvalidEnvironmentError:
            raise
        except ObservationError as error:
            raise InvalidEnvironmentError(
                ENV, f"{self.env_id} gives a wrong answer: {error}"
            ) from error
        except Exception as error:
            raise InvalidEnvironmentError(
                ENV, f"{self.env_id} cannot be played: {in_one_line(error)}"
            ) from error

    def made(self) -> Env:
        """Return one environment. Raise InvalidEnvironmentError, whatever went wrong."""
        try:
            env = self.make_env()
        except InvalidEnvironmentError:
            raise
        except Exception as error:
            local = re.search(r"__main__|<", self.env_id)
            hint = ". From Python, give the function that makes it as env" if local else ""
            if self.factory is None:
                hint = hint or _where_it_may_be(self.env_id, error)
            problem = in_one_line(error)
            if hint:  # It says more than Gymnasium's guess.
                problem = problem.partition(" Did you mean")[0].rstrip(".")
            raise InvalidEnvironmentError(
                ENV, f"{self.env_id} cannot be made: {problem}{hint}"
            ) from error
        if isinstance(env, BatchedEnv | BatchedTeamEnv):
            raise InvalidEnvironmentError(
                ENV, f"{self.env_id} made many environments: name the class, {type(env).__name__}"
            )
        if not isinstance(env, gymnasium.Env):
            raise InvalidEnvironmentError(
                ENV, f"{self.env_id} made a {type(env).__name__}, which is not a gymnasium.Env"
            )
        return env

    def __getstate__(self) -> dict[str, Any]:
        # Workers do not know the ids that the caller's own script registered.
        registered = gymnasium.registry.get(self.env_id)
        state = {one.name: getattr(self, one.name) for one in dataclasses.fields(self)}
        return {"environment": state, "registered": registered}

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        vars(self).update(state["environment"])
        if state["registered"] is not None:
            gymnasium.registry.setdefault(self.env_id, state["registered"])


def _entities_of(env: Env, obs_dim: int, n_outputs: int) -> EntityLayout | None:
    """Return what the environment, or one that it wraps, declares of its entities."""
    if isinstance(env, OneOfBatch):
        tables = getattr(env.envs, "entities", None)
    else:
        tables = env.get_wrapper_attr("entities") if env.has_wrapper_attr("entities") else None
    # Environments of others use this name for what is on their map.
    if not isinstance(tables, Mapping) or not tables.keys() & set(TABLES):
        return None
    try:
        return declared(tables, obs_dim, n_outputs)
    except (ValueError, TypeError) as error:
        raise InvalidEnvironmentError(ENV, str(error)) from None


def _is_batched(factory: object) -> bool:
    """Return whether a factory is a class that inherits BatchedEnv or BatchedTeamEnv."""
    return isinstance(factory, type) and issubclass(factory, BatchedEnv | BatchedTeamEnv)


def _batch(factory: Callable[..., Any], n_envs: int, args: Mapping[str, Any]) -> BatchedEnv:
    envs = factory(n_envs, **args)
    return JointBatch(envs, n_envs) if isinstance(envs, BatchedTeamEnv) else envs


def _is_deeper(value: Any, levels: int) -> bool:
    inner = value.values() if isinstance(value, Mapping) else value
    if not isinstance(value, Mapping | list | tuple):
        return False
    return levels < 0 or any(_is_deeper(one, levels - 1) for one in inner)


def _factory_named(env_id: str) -> Callable[..., Env] | None:
    """Return what "module:name" names; None if the id is one of Gymnasium's."""
    module_name, colon, name = env_id.partition(":")
    if not colon:
        return None
    try:
        refuse_a_file(env_id)
    except ValueError as error:
        raise InvalidEnvironmentError(ENV, str(error)) from None
    factory: Callable[..., Env] | None = getattr(imported(module_name), name, None)
    return factory


def _where_it_may_be(env_id: str, error: Exception) -> str:
    """Return a sentence about an id that Gymnasium does not know, or whose module is missing."""
    module, colon, name = env_id.partition(":")
    if hint := where_to_call(module, error):
        return hint
    if not colon and (os.path.isfile(env_id) or os.path.isfile(f"{env_id}.py")):
        return f". Name your own environment by its module: {Path(env_id).stem}:MyEnv"
    if not colon or not isinstance(error, gymnasium.error.NameNotFound):
        return ""
    if hasattr(sys.modules[module], name):
        return ""  # The name was found. The environment itself misses another one.
    return f". Nor does {module} define {name}{name_meant(sys.modules[module], name) or '.'}"
