"""What a run needs of an environment, and the registry in which it finds one by name.

Guests, such as CAGE-2, register themselves. Every other name is Gymnasium's, or a function's that
makes an environment: see `gymnasium_env`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any, Protocol

from agents.policies.numpy_policy import Actor
from agents.spaces import Spaces as Spaces
from workflow_rl.environments.env_batch import EnvBatch
from workflow_rl.environments.guest import Guest

if TYPE_CHECKING:
    from agents.settings import Settings

ENV = "env"
"""The argument that is to blame where no single argument of an environment is."""


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
    """An environment that cannot be made or used as asked. `argument` says which is to blame."""

    def __init__(self, argument: str, message: str) -> None:
        self.argument = argument
        super().__init__(message)


class Environment(Protocol):
    """An environment with its arguments. Workers get a pickled copy; making one imports nothing
    heavy.

    env_id: what --env calls it. args: all its arguments, the defaults too. label: names it in
    folders and progress bars. variants: those that every episode draws one from, such as red
    agents; none, where all episodes are of one kind. episode_steps: how many steps every episode
    has, if that is known. steps_together: whether one call steps all envs of a worker, so that many
    of them cost little more than one. plays_together: whether a worker is to play several episodes
    at once, so that it acts for all of them in one pass. preload: module that holds what workers
    can share. settings: defaults of a run's config (PPO's among them) where they are not the
    config's own.
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
        """Raises InvalidEnvironmentError, naming a space that is not supported."""

    def check(self) -> str | None:
        """Make one and try it. Returns why its results will vary from run to run, if they will.

        Raises InvalidEnvironmentError.
        """

    def make_envs(self, n_envs: int) -> EnvBatch:
        """So many of them, in a worker."""

    def bare_actor(self, actor: Actor) -> Actor:
        """An actor of these envs as one of the environment that everybody knows, if the envs show
        or take something else."""


guests: dict[str, Guest] = {}
"""By their ids. The first to be registered is the default environment."""


def register(guest: Guest) -> None:
    """Make a guest known by its id."""
    guests[guest.env_id] = guest


def default_env() -> str:
    """Return the id of the environment that is trained on unless another one is named."""
    return next(iter(guests))


def make_environment(
    env_id: str, args: Mapping[str, Any], named_by_file: bool = False
) -> Environment:
    """The environment of this name and these arguments. Imports and calls nothing that they name.

    named_by_file: whether only a file names them, see `gymnasium_env.GymnasiumEnvironment`. Raises
    InvalidEnvironmentError.
    """
    if isinstance(env_id, str) and env_id in guests:
        return guests[env_id].make(_checked(guests[env_id], args))
    from workflow_rl.environments.gymnasium_env import GymnasiumEnvironment

    return GymnasiumEnvironment(env_id, dict(args), named_by_file=named_by_file)


def _checked(guest: Guest, args: Mapping[str, Any]) -> Settings:
    from agents.settings import ConfigError  # No worker comes here, or imports pydantic.

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
    """The id, and the arguments but for some."""
    args = [f"{name}={arg}" for name, arg in environment.args.items() if name not in without]
    return f"{environment.env_id} ({', '.join(args)})" if args else environment.env_id
