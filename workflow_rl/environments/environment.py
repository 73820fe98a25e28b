"""What a run needs of an environment, and the registry in which it finds one by name.

Guests, such as CAGE-2, register themselves. Every other name is Gymnasium's, or a function's that
makes an environment: see `gymnasium_env`.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from agents.policies.numpy_policy import Actor
from agents.spaces import Spaces as Spaces
from workflow_rl.environments.env_batch import EnvBatch

ENV = "env"
"""The argument that is to blame where no single argument of an environment is."""


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


@dataclass(frozen=True)
class Guest:
    """An environment that this package brings along, with options of its own.

    make: the environment of these arguments; the others have defaults.
    options: its own options of the trainers, as decorators; "module:name" of a function of the
    class of options. option_names: of all of them, without dashes. chosen_args: the arguments that
    follow from their values.
    evaluate: the command that scores an agent on it, "module:name"; evaluation_arguments: what it
    is told for a run of these arguments.
    measured: the arguments that `benchmark` measures it with, by the name of each way.
    fastest: those that comparisons of many runs use unless told otherwise. target_return: what such
    runs are to reach.
    choose_best: function that makes best.pt of a run's folder the best of its candidates, and says
    which, "module:name".
    exports: functions that write an agent in a format of this environment's, "module:name", by the
    format's name. released: files of agents that come with the package, by name.
    known_returns: function of the arguments that gives mean returns of other agents in such
    episodes, by name, "module:name".
    hint: function of the arguments and a run's env steps that says what would make a long run
    faster, or None, "module:name".
    report: what a report adds about runs on it, "module:name" of `reporting.report.SectionsOf`.
    """

    env_id: str
    make: Callable[[Mapping[str, Any]], Environment]
    argument_names: tuple[str, ...]
    option_names: tuple[str, ...]
    options: str
    chosen_args: Callable[[Mapping[str, Any]], dict[str, Any]]
    evaluate: str
    evaluation_arguments: Callable[[Mapping[str, Any]], list[str]]
    measured: Mapping[str, Mapping[str, Any]]
    fastest: Mapping[str, Any]
    target_return: float
    choose_best: str
    exports: Mapping[str, str]
    released: Mapping[str, Path]
    known_returns: str
    hint: str
    report: str


guests: dict[str, Guest] = {}
"""By their ids."""

DEFAULT_ENV = "workflow_rl/CAGE2-v0"


def register(guest: Guest) -> None:
    """Make a guest known by its id."""
    guests[guest.env_id] = guest


def make_environment(
    env_id: str, args: Mapping[str, Any], named_by_file: bool = False
) -> Environment:
    """The environment of this name and these arguments. Imports and calls nothing that they name.

    named_by_file: whether only a file names them, see `gymnasium_env.GymnasiumEnvironment`. Raises
    InvalidEnvironmentError.
    """
    if isinstance(env_id, str) and env_id in guests:
        return guests[env_id].make(args)
    from workflow_rl.environments.gymnasium_env import GymnasiumEnvironment

    return GymnasiumEnvironment(env_id, dict(args), named_by_file=named_by_file)


def described(environment: Environment, without: Collection[str] = ()) -> str:
    """The id, and the arguments but for some."""
    args = [f"{name}={arg}" for name, arg in environment.args.items() if name not in without]
    return f"{environment.env_id} ({', '.join(args)})" if args else environment.env_id


def attribute(path: str) -> Any:
    """What "module:name" names."""
    module, _, name = path.partition(":")
    return getattr(importlib.import_module(module), name)
