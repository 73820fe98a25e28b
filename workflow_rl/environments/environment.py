"""What a run needs of an environment, and the function that finds one by name.

A name is a guest's, see `guests`, or an id of Gymnasium's, or "module:name" of a class or function
that makes the environment: see `gymnasium_env`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any, Protocol

from workflow_rl.agents.policies.numpy_policy import Actor
from workflow_rl.agents.spaces import Spaces as Spaces
from workflow_rl.environments.env_batch import EnvBatch
from workflow_rl.environments.guests import guests

if TYPE_CHECKING:
    from workflow_rl.agents.settings import Settings
    from workflow_rl.environments.guest import Guest

ENV = "env"
"""The `argument` of errors for which no single argument is to blame."""

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


class InvalidEnvironmentError(ValueError):
    """An environment cannot be made or used as asked. `argument` names the argument to blame."""

    def __init__(self, argument: str, message: str) -> None:
        self.argument = argument
        super().__init__(message)


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
        """Return the spaces. Raise InvalidEnvironmentError for a space that is not supported."""

    def check(self) -> str | None:
        """Make an env and try it. Return why results will vary from run to run, if they will.

        Raise InvalidEnvironmentError if the env cannot be used.
        """

    def make_envs(self, n_envs: int) -> EnvBatch:
        """Return `n_envs` envs, in a worker."""

    def bare_actor(self, actor: Actor) -> Actor:
        """Wrap an actor that was trained on transformed observations or actions, so that it plays
        the raw environment."""


def make_environment(
    env_id: str, args: Mapping[str, Any], named_by_file: bool = False, masks: bool = True
) -> Environment:
    """Return the environment of this name with these arguments, without importing or calling what
    they name.

    Args:
        env_id: a guest's id, or a name that `GymnasiumEnvironment` takes.
        args: the arguments. Those that are left out have defaults.
        named_by_file: whether only a file names the environment, see `GymnasiumEnvironment`.
        masks: whether agents see the masks of actions that the environment offers, if it does.

    Raises:
        InvalidEnvironmentError: an argument is wrong.
    """
    if env_id in guests:
        guest = guests[env_id].make(_checked(guests[env_id], args))
        if not masks and guest.spaces().masked:
            raise InvalidEnvironmentError(
                "action_mask", f"{env_id} was asked for masks of actions by its own arguments"
            )
        return guest
    from workflow_rl.environments.gymnasium_env import GymnasiumEnvironment

    return GymnasiumEnvironment(env_id, dict(args), masks=masks, named_by_file=named_by_file)


def _checked(guest: Guest, args: Mapping[str, Any]) -> Settings:
    from workflow_rl.agents.settings import (
        ConfigError,  # Workers do not come here, and import no pydantic.
    )

    arguments = guest.arguments()
    names = arguments.model_fields
    for name in args:
        if name not in names:
            raise InvalidEnvironmentError(
                "env_arg", f"{name!r} is no argument of {guest.env_id}: it has {', '.join(names)}"
            )
    try:
        return arguments(**args)
    except ConfigError as error:
        raise InvalidEnvironmentError(error.field_name, error.message) from None


def described(environment: Environment, without: Collection[str] = ()) -> str:
    """Return the id and the arguments, without some of them, as text."""
    args = [f"{name}={arg}" for name, arg in environment.args.items() if name not in without]
    return f"{environment.env_id} ({', '.join(args)})" if args else environment.env_id
