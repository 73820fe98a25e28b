"""The interface of environments for runs. `source` makes an environment.

The main process receives the facts of a user's environment as plain data from a worker.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeAlias

from workflow_rl.errors import ConfigError
from workflow_rl.terminal import in_short

if TYPE_CHECKING:
    from gymnasium import spaces

    from workflow_rl.agents.policies.numpy_policy import Actor
    from workflow_rl.agents.spaces import Spaces
    from workflow_rl.environments.env_batch import EnvBatch

ENV = "env"
"""The `argument` of errors that no single argument causes."""
OPPONENTS = "opponents"

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
"""Defaults of runs on unknown environments."""


def weights_of(text: str, argument: str = OPPONENTS) -> dict[str, float]:
    """Return the weights of "agent=weight,agent=weight", by agent. A weight's default is 1. The
    path of an existing file or folder is always one agent.

    Raises ConfigError, with `argument`, for a weight that is not a positive number, and for an
    agent that is nameless or named twice.
    """
    if os.path.exists(text):
        return {text: 1.0}
    found: dict[str, float] = {}
    for part in text.split(","):
        agent, _, weight = part.rpartition("=") if "=" in part else (part, "", "1")
        try:
            share = float(weight)
        except ValueError:
            share = 0.0
        if not (0 < share < math.inf and agent and agent == agent.strip()):
            told = f"{part!r:.200} is not agent=weight, with a positive number and no spaces"
            raise ConfigError(argument, told)
        if agent in found:
            raise ConfigError(argument, f"{agent!r:.200} is named twice")
        found[agent] = share
    return found


class Environment(Protocol):
    """An environment with its arguments. To make one imports nothing heavy. Workers get a pickled
    copy.

    env_id: the name that `--env` takes.
    args: all arguments, with their defaults.
    label: a name for folders and progress bars.
    variants: each episode draws a variant, such as a red agent. Empty: there are no variants.
    episode_steps: the length of all episodes; None if the length varies or is not known.
    steps_together: whether one call steps all envs of a worker.
    plays_together: whether a worker plays several episodes at once, with one forward pass for all.
    preload: the module that workers share in memory; "" for the default.
    settings: defaults of a run's config and algorithm that differ from the general defaults.
    """

    @property
    def env_id(self) -> str: ...

    @property
    def args(self) -> Mapping[str, Any]: ...

    @property
    def label(self) -> str: ...

    @property
    def variants(self) -> tuple[str, ...]: ...

    @property
    def episode_steps(self) -> int | None: ...

    @property
    def steps_together(self) -> bool: ...

    @property
    def plays_together(self) -> bool: ...

    @property
    def preload(self) -> str: ...

    @property
    def settings(self) -> Mapping[str, Any]: ...

    def spaces(self) -> Spaces:
        """Return the spaces. Raise ConfigError for a space that is not supported."""

    def check(self) -> str | None:
        """Make an env and play it. Return why results will vary from run to run, or None.

        Raise ConfigError if the env cannot be used.
        """

    def make_envs(self, n_envs: int) -> EnvBatch:
        """Return `n_envs` envs, in a worker."""

    def actor_on_observations(self, actor: Actor) -> Actor:
        """Wrap an actor that was trained on transformed observations or actions, so that it plays
        the raw environment."""


Tell: TypeAlias = "Callable[..., object]"
"""A function that sends its arguments as answers."""


class Facts(NamedTuple):
    """What an environment declares. observation, action: its spaces, without the user's classes.
    team: the spaces of observations by agent, for a ParallelEnv. masks_from: the place of action
    masks, in words; "" without masks. left_out: entries of observations that are not shown, because
    their spaces are not supported."""

    spaces: Spaces
    observation: spaces.Space[Any]
    action: spaces.Space[Any]
    team: Mapping[str, spaces.Space[Any]] | None
    masks_from: str = ""
    left_out: tuple[str, ...] = ()


class Separate(NamedTuple):
    """The message that each env needs its own random state: see `PrivateRandom`."""


def described(environment: Environment, without: Collection[str] = ()) -> str:
    args = [
        f"{name}={in_short(arg)}" for name, arg in environment.args.items() if name not in without
    ]
    return f"{environment.env_id} ({', '.join(args)})" if args else environment.env_id
