"""How a worker makes a user's environment, reads what the environment declares, and tries it.

Only a process that the environment may end calls this: see `collection.try_in_worker`.
"""

from __future__ import annotations

import dataclasses
import math
import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import gymnasium
import numpy as np
from gymnasium import spaces

from workflow_rl.agents.policies.convolutional import SIDE, WIDEST, Image, ImageLayout
from workflow_rl.agents.policies.entity_layout import EntityLayout, are_tables, declared
from workflow_rl.agents.policies.network import MOST
from workflow_rl.agents.spaces import Spaces
from workflow_rl.agents.user_modules import in_one_line, name_meant, where_to_call
from workflow_rl.environments.action_mask import (
    MaskingEnv,
    begun,
    mask_in,
    mask_source,
    privileged_space,
    tells_masks,
    without_mask,
    without_privileged,
)
from workflow_rl.environments.answers import names_in
from workflow_rl.environments.batched_env import COMPANY, BatchedEnv, BatchedEnvs, OneOfBatch
from workflow_rl.environments.env_batch import Env, EnvBatch, SerialEnvs
from workflow_rl.environments.environment import ENV, Facts
from workflow_rl.environments.flat_env import (
    FlatEnv,
    distribution_over,
    flat_space,
    is_old,
    sampled,
    stepped,
    with_known_entries,
)
from workflow_rl.environments.gymnasium_versions import attribute_of, space_from
from workflow_rl.environments.joint_batch import BatchedTeamEnv, JointBatch
from workflow_rl.environments.joint_env import JointEnv
from workflow_rl.environments.simulator_process import RandomState, as_plain
from workflow_rl.errors import ConfigError, ObservationError
from workflow_rl.output_files import require_no_links

if TYPE_CHECKING:
    from workflow_rl.environments.gymnasium_env import GymnasiumEnvironment


def is_batched(factory: object) -> bool:
    return isinstance(factory, type) and issubclass(factory, BatchedEnv | BatchedTeamEnv)


def single_env(environment: GymnasiumEnvironment, options: Mapping[str, Any]) -> Env:
    """Return one environment, without wrappers for policies. options: further arguments."""
    if environment.private_random and not environment.python:
        shared = dataclasses.replace(environment, private_random=False)
        return PrivateRandom(lambda: single_env(shared, options))
    require_no_links(Path("MUJOCO_LOG.TXT"))  # MuJoCo would append its warnings to another file.
    make = None if environment.python else environment.made_by()
    args = {**environment.args, **options}
    if environment.python:
        from workflow_rl.environments.simulator import made_there

        env: Any = made_there(environment, options)
    elif make is None:
        env = gymnasium.make(environment.env_id, disable_env_checker=True, **args)
    elif is_batched(make):
        return OneOfBatch(_batch(make, COMPANY, args))
    else:
        env = make(**args)
        if hasattr(env, "possible_agents"):  # A PettingZoo environment.
            env = JointEnv(env, environment.masks)
    if isinstance(env, JointEnv):
        return env
    env = with_known_entries(env) if environment.ignore_unknown else env
    return MaskingEnv(env) if environment.masks and tells_masks(env) else env


def several_envs(environment: GymnasiumEnvironment, n_envs: int) -> EnvBatch:
    if environment.steps_together:
        make = environment.made_by()
        assert make is not None
        return BatchedEnvs(_batch(make, n_envs, environment.args), n_envs, environment.masks)

    def make_env() -> FlatEnv:
        return FlatEnv(environment.make_env(), environment.masks, environment.costs)

    has_costs = bool(environment.costs)
    if environment.python:
        from workflow_rl.environments.simulator import SimulatorEnvs

        return SimulatorEnvs(make_env, n_envs, has_costs=has_costs)
    return SerialEnvs(make_env, n_envs, has_costs=has_costs)


def _batch(factory: Callable[..., Any], n_envs: int, args: Mapping[str, Any]) -> BatchedEnv:
    envs = factory(n_envs, **args)
    return JointBatch(envs, n_envs) if isinstance(envs, BatchedTeamEnv) else envs


def declared_facts(environment: GymnasiumEnvironment) -> Facts:
    # PrivateRandom would hide a team's or a batch's declarations.
    env = required_env(dataclasses.replace(environment, private_random=False))
    with naming(environment, env), closing(env):
        masks_from = mask_source(env) if environment.masks else ""
        masked = bool(masks_from)
        shown = without_mask(env.observation_space) if masked else env.observation_space
        observed, hidden = flat_space(without_privileged(shown)), privileged_space(shown)
        privileged = 0 if hidden is None else math.prod(flat_space(hidden).shape)
        distribution = distribution_over(env.action_space)
        bits = observed.dtype == np.uint8 and bool(observed.high.max() <= 1)
        obs_dim = math.prod(observed.shape)
        joint = env.envs if isinstance(env, OneOfBatch) else env
        team = joint.layout if isinstance(joint, JointEnv | JointBatch) else None
        team = team and dataclasses.replace(team, masked=masked)
        bounds = None
        if isinstance(acts := env.action_space, spaces.Box):
            bounds = tuple(acts.low.ravel().tolist()), tuple(acts.high.ravel().tolist())
        entities = None if team else _entities_of(env, obs_dim, distribution.n_outputs)
        images = None if team else images_of(without_privileged(shown))
        declared = team, entities, privileged, images, _costs_of(env, masked)
        by_agent = None
        if isinstance(env, JointEnv):
            of_agent = env.env.observation_space
            by_agent = {name: plain_facts(of_agent(name)) for name in env.env.possible_agents}
        return Facts(
            Spaces(obs_dim, distribution, bounds, bits, masked, *declared),
            plain_facts(env.observation_space),
            plain_facts(env.action_space),
            by_agent,
            masks_from,
            attribute_of(env, "left_out", ()),
        )


def _costs_of(env: Env, masked: bool) -> tuple[str, ...]:
    """Return the names of the costs that a batch declares, or that the first step of another
    environment has. The environment is reset and stepped once for this."""
    if isinstance(env, OneOfBatch):
        return tuple(env.envs.costs)
    # Errors are ignored here, because the checks that follow report them.
    with suppress(Exception):
        env.action_space.seed(0)
        shown = begun(env, seed=0)
        mask = mask_in(*shown) if masked else None
        return names_in(stepped(env.step(sampled(env.action_space, mask)), "step 1")[-1])
    return ()


@contextmanager
def naming(environment: GymnasiumEnvironment, env: Env | None = None) -> Iterator[None]:
    """Turn any exception of an environment into a ConfigError that names the environment."""
    try:
        yield
    except ConfigError:
        raise
    except Exception as error:
        fault = f"cannot be played: {in_one_line(error)}"
        lacking = [name for name in ("observation_space", "action_space") if not hasattr(env, name)]
        if isinstance(error, ObservationError):
            fault = f"gives a wrong answer: {error}"
        elif env is not None and lacking:
            fault = f"has no {lacking[0]}"
        raise ConfigError(ENV, f"{environment.env_id} {fault}") from error


def required_env(environment: GymnasiumEnvironment) -> Env:
    """Return one environment. Raise ConfigError instead of any other exception."""
    env_id = environment.env_id
    try:
        env = environment.make_env()
    except ConfigError:
        raise
    except Exception as error:
        local = re.search(r"__main__|<", env_id)
        hint = ". From Python, give the function that makes it as env" if local else ""
        if environment.factory is None:
            hint = hint or _where_it_may_be(env_id, error)
        problem = in_one_line(error)
        if hint:  # The hint replaces Gymnasium's guess.
            problem = problem.partition(" Did you mean")[0].rstrip(".")
        raise ConfigError(ENV, f"{env_id} cannot be made: {problem}{hint}") from error
    if isinstance(env, BatchedEnv | BatchedTeamEnv):
        raise ConfigError(
            ENV, f"{env_id} made many environments: name the class, {type(env).__name__}"
        )
    if is_old(env):
        raise ConfigError(
            ENV,
            f"{env_id} made an environment of gym, which gymnasium replaces: convert it, such as "
            "with the package shimmy (GymV26CompatibilityV0, or GymV21CompatibilityV0)",
        )
    if not isinstance(env, gymnasium.Env):
        raise ConfigError(
            ENV, f"{env_id} made a {type(env).__name__}, which is not a gymnasium.Env"
        )
    return env


def _entities_of(env: Env, obs_dim: int, n_outputs: int) -> EntityLayout | None:
    """Return the entities that the environment, or a wrapped environment, declares."""
    if isinstance(env, OneOfBatch):
        tables = getattr(env.envs, "entities", None)
    else:
        tables = attribute_of(env, "entities")
    # Other environments use this attribute for objects on their map.
    if not are_tables(tables):
        return None
    try:
        return declared(tables, obs_dim, n_outputs)
    except (ValueError, TypeError) as error:
        raise ConfigError(ENV, str(error)) from None


def _where_it_may_be(env_id: str, error: Exception) -> str:
    """Return a hint for an id that Gymnasium does not know, or whose module is missing, or ""."""
    module, colon, name = env_id.partition(":")
    if hint := where_to_call(module, error):
        return hint
    if not colon and (os.path.isfile(env_id) or os.path.isfile(f"{env_id}.py")):
        return f". Name your own environment by its module: {Path(env_id).stem}:MyEnv"
    if not colon or not isinstance(error, gymnasium.error.NameNotFound):
        return ""
    if hasattr(sys.modules[module], name):
        return ""  # The name exists. The error is about another name.
    return f". Nor does {module} define {name}{name_meant(sys.modules[module], name) or '.'}"


def plain_facts(space: spaces.Space[Any]) -> spaces.Space[Any]:
    """Return an equal space of Gymnasium's own classes, for a supported space.

    Raises ConfigError if a Dict's keys are objects.
    """
    try:
        return space_from(as_plain(space))
    except TypeError as error:
        raise ConfigError(ENV, f"its space names entries: {error}") from None


_LEAST_GREY = 8
_WHITEST = 65_535


def images_of(space: spaces.Space[Any]) -> ImageLayout | None:
    """Return the images in flat observations of a space; None if there are none.

    An image is a Box with three axes: height, width and channels. If two axes are equal, they are
    height and width, otherwise the two larger axes are. If this is ambiguous, channels are last. A
    Box with two axes is an image without channels if it holds bytes from 0 to 255.
    """
    size = spaces.flatdim(space)
    images = list(_within(space, 0)) if size <= MOST else []
    return ImageLayout(size, images) if images else None


def _within(space: spaces.Space[Any], first: int) -> Iterator[Image]:
    if isinstance(space, spaces.Dict | spaces.Tuple):
        parts = space.spaces.values() if isinstance(space, spaces.Dict) else space.spaces
        for part in parts:
            yield from _within(part, first)
            first += spaces.flatdim(part)
    elif isinstance(space, spaces.Box) and (image := _image(space, first)) is not None:
        yield image


def _image(space: spaces.Box, first: int) -> Image | None:
    is_byte = space.dtype.kind in "iu" and space.low.min() == 0 and space.high.max() == 255
    if len(space.shape) == 3:
        a, b, c = space.shape
        channels_first = (b == c != a) if a == b or b == c else a < min(b, c)
        sizes = (b, c, a) if channels_first else (a, b, c)
    elif len(space.shape) == 2 and is_byte and min(space.shape) >= _LEAST_GREY:
        channels_first, sizes = False, (*space.shape, 1)
    else:
        return None
    if min(sizes[:2]) < SIDE or max(sizes) > WIDEST or not sizes[2]:
        return None
    whitest = float(space.high.max())
    return Image(first, *sizes, channels_first, whitest if 1 < whitest <= _WHITEST else 1.0)


class PrivateRandom(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Gives an env its own RandomState, which the seed of each episode determines.

    Some environments draw from Python's `random` or NumPy's `np.random` instead of their own
    `np_random`. Then their episodes depend on the other envs of the process.

    make_env: makes the env. It draws equal numbers for every env.
    """

    def __init__(self, make_env: Callable[[], Env]) -> None:
        self._random = RandomState()
        super().__init__(make_env())

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        self._random.enter()
        if seed is not None:
            self._random.seed(seed)
        return self.env.reset(seed=seed, options=options)

    def step(self, action: Any) -> Any:
        self._random.enter()
        return self.env.step(action)
