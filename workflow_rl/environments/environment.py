"""What a run needs of an environment. `source` makes one.

A process learns the facts of a user's environment from the worker that has made it: plain data.
"""

from __future__ import annotations

import math
import os
import shutil
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
"""The `argument` of errors for which no single argument is to blame."""
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
"""Defaults of runs on environments of which nothing is known."""


def interpreter(python: str) -> str:
    """Return the absolute path of a Python interpreter that the user names, links unresolved: a
    virtual environment's is a link. "" is this process's own."""
    python = os.path.expanduser(python)
    return python and os.path.abspath(shutil.which(python) or python)


def weights_of(text: str, argument: str = OPPONENTS) -> dict[str, float]:
    """Return the agents of "agent=weight,agent=weight", whose weights are 1 by default. The path of
    a file or folder is one agent, whatever its name.

    Raises ConfigError, with the argument to blame, for a weight that is no positive
    number, and for an agent without a name or named twice.
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
    """An environment with its arguments. Making one imports nothing heavy. Workers get a pickled
    copy.

    env_id: the name that `--env` takes.
    args: all arguments, with their defaults.
    label: a name for folders and progress bars.
    variants: each episode draws one of these, such as a red agent. Empty: all episodes are alike.
    episode_steps: the length of all episodes; None if the length varies or is not known.
    steps_together: whether one call steps all envs of a worker.
    plays_together: whether a worker plays several episodes at once, with one forward pass for all.
    preload: the module that workers share in memory; "" for the default.
    settings: defaults of a run's config, of its algorithm too, that differ from the config's own.
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
        """Make an env and try it. Return why results will vary from run to run, if they will.

        Raise ConfigError if the env cannot be used.
        """

    def make_envs(self, n_envs: int) -> EnvBatch:
        """Return `n_envs` envs, in a worker."""

    def actor_on_observations(self, actor: Actor) -> Actor:
        """Wrap an actor that was trained on transformed observations or actions, so that it plays
        the raw environment."""


Tell: TypeAlias = "Callable[..., object]"
"""Sends what it is called with, one answer after another."""


class Facts(NamedTuple):
    """What an environment declares. observation, action: its spaces, without classes of the user's.
    team: of a ParallelEnv, the spaces of observations by agent. masks_from: what masks of actions
    are read from, in words; "" without. left_out: entries of observations that are not shown, since
    their spaces are not supported."""

    spaces: Spaces
    observation: spaces.Space[Any]
    action: spaces.Space[Any]
    team: Mapping[str, spaces.Space[Any]] | None
    masks_from: str = ""
    left_out: tuple[str, ...] = ()


class Separate(NamedTuple):
    """Each env needs a random state of its own: see `PrivateRandom`."""


def described(environment: Environment, without: Collection[str] = ()) -> str:
    args = [
        f"{name}={in_short(arg)}" for name, arg in environment.args.items() if name not in without
    ]
    return f"{environment.env_id} ({', '.join(args)})" if args else environment.env_id
