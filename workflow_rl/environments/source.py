"""Makes the environment of a name: a guest, or a `gymnasium_env`.

A name is a guest's id, a Gymnasium id, or "module:name" of a class or function that makes the
environment. A guest is imported only when its environment is asked for.
"""

from __future__ import annotations

import dataclasses
import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, cast

from workflow_rl.environments.environment import Environment
from workflow_rl.environments.named_by_file import Gated, foreign_in, refused, require_named
from workflow_rl.errors import ConfigError, UserError
from workflow_rl.plug_ins import plug_ins

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

    from workflow_rl.agents.settings import Settings
    from workflow_rl.environments.challenge import Guest


class Guests(Mapping[str, "Guest"]):
    """The guests by the ids of their environments. This package's guests come first.

    A look-up imports the guest. Raises UserError if it cannot be imported, or is not a Guest.
    """

    def __init__(self) -> None:
        self._imported: dict[str, Guest] = {}

    def __getitem__(self, env_id: str) -> Guest:
        if env_id not in self._imported:
            point = plug_ins("guests")[env_id]
            guest = _imported(point)()
            if guest.env_id != env_id:
                raise UserError(f"the guest {env_id} ({point.value}) calls itself {guest.env_id}")
            self._imported[env_id] = guest
        return self._imported[env_id]

    def __contains__(self, env_id: object) -> bool:
        return isinstance(env_id, str) and env_id in plug_ins("guests")

    def __iter__(self) -> Iterator[str]:
        return iter(plug_ins("guests"))

    def __len__(self) -> int:
        return len(plug_ins("guests"))

    def importable(self) -> Iterator[Guest]:
        for env_id in self:
            with suppress(UserError):
                yield self[env_id]

    def bringing(self, group: str, name: str) -> Guest | None:
        """Return the guest that brings a preset of this name, if the group is "presets", or an
        agent, if it is "released". Only this guest is imported. None if there is no such guest."""
        point = plug_ins(group).get(name)
        return None if point is None else self[_imported(point).env_id]


def _imported(point: EntryPoint) -> type[Guest]:
    from workflow_rl.environments.challenge import Guest  # Only runs on guests need this import.

    try:
        found = point.load()
    except Exception as error:
        raise UserError(f"the guest {point.value} cannot be imported: {error}") from error
    if not (isinstance(found, type) and issubclass(found, Guest)):
        raise UserError(f"the guest {point.value} is no class of a Guest")
    return found


guests = Guests()


def default_env() -> str:
    """Return the id of the environment that is trained on if the user names none."""
    # A wheel sorts its entry points, so the first guest may not be the first declared guest.
    return next(iter(plug_ins("default_env")))


def interpreter(python: str) -> str:
    """Return the absolute path of a Python interpreter that the user names. A name that is not on
    the search path stays as it is. Links are kept, because a virtual environment's interpreter is a
    link. "" means this process's interpreter."""
    python = os.path.expanduser(python)
    found = shutil.which(python) or python
    # A name that is not on the path must not mean a stranger's file in the current folder.
    return os.path.abspath(found) if os.sep in found else found


def make_environment(
    env_id: str,
    args: Mapping[str, Any],
    named_by_file: bool = False,
    masks: bool = True,
    ignore_unknown: bool = False,
    python: str = "",
    factory: Callable[..., Any] | None = None,
) -> Environment:
    """Return the environment of this name with these arguments. Nothing that the name or the
    arguments name is imported or called, except a guest.

    Args:
        env_id: a guest's id, or a name that `GymnasiumEnvironment` takes.
        args: the arguments. Missing arguments have defaults.
        named_by_file: whether only a stranger's file mentions the environment and its arguments:
            see `GymnasiumEnvironment` and `Gated`.
        masks: whether agents see the environment's masks of actions, if it offers masks.
        ignore_unknown: see `GymnasiumEnvironment`.
        python: the interpreter that plays the environment, see `GymnasiumEnvironment`.
        factory: the user's function that makes the environment, see `GymnasiumEnvironment`.

    Raises ConfigError if an argument is wrong.
    """
    if env_id in guests and factory is None:
        if python:
            raise ConfigError(
                "env_python", f"{python} does not go with {env_id}, which plays in this interpreter"
            )
        guest = guests[env_id].make(_checked(guests[env_id], args, named_by_file))
        if not masks and guest.spaces().masked:
            raise ConfigError(
                "action_mask", f"{env_id} was asked for masks of actions by its own arguments"
            )
        if not named_by_file or not (foreign := foreign_in(guest)):
            return guest
        if not isinstance(guest, Gated):  # Only a Gated environment refuses to make envs.
            raise ConfigError("env", refused(foreign[0]))
        flagged: Any = guest
        return cast(Environment, dataclasses.replace(flagged, named_by_file=True))
    from workflow_rl.environments.gymnasium_env import GymnasiumEnvironment

    return GymnasiumEnvironment(
        env_id, dict(args), factory, masks, named_by_file, ignore_unknown, python
    )


def environment_of(fields: Mapping[str, Any]) -> Environment:
    """Return the environment that a config's fields name. No env is made. Raises ConfigError."""
    names = "env", "env_args", "named_by_file", "action_mask", "ignore_unknown", "env_python"
    return make_environment(*(fields[name] for name in (*names, "make_env")))


def fields_of(environment: Environment) -> dict[str, Any]:
    """Return the fields of a TrainConfig that name an environment. Raises ConfigError if only a
    stranger's file names the environment."""
    require_named(environment)
    return {
        "env": environment.env_id,
        "env_args": dict(environment.args),
        "action_mask": getattr(environment, "masks", True),
        "ignore_unknown": getattr(environment, "ignore_unknown", False),
        "env_python": getattr(environment, "python", ""),
    }


def played_by(environment: Environment, python: str | None) -> Environment:
    """Return the environment with the user's interpreter. None keeps the file's interpreter, and ""
    is this process's. Raises ConfigError for an environment that takes no interpreter."""
    from workflow_rl.environments.gymnasium_env import GymnasiumEnvironment

    if not isinstance(environment, GymnasiumEnvironment):
        if python:
            raise ConfigError(
                "env_python", f"{environment.env_id} plays in this interpreter: leave it out"
            )
        return environment
    if python is None:
        return environment
    here = dataclasses.replace(environment, python="")
    with suppress(ConfigError):
        require_named(here)
        here = dataclasses.replace(here, named_by_file=False)
    return dataclasses.replace(here, python=python)


def _checked(guest: Guest, args: Mapping[str, Any], named_by_file: bool) -> Settings:
    # Workers do not call this, and do not import pydantic.
    from workflow_rl.agents.settings import ContentOf

    arguments = guest.arguments()
    names = arguments.model_fields
    for name in args:
        if name not in names:
            raise ConfigError(
                "env_arg", f"{name!r} is no argument of {guest.env_id}: it has {', '.join(names)}"
            )
    for name, value in args.items() if named_by_file else ():
        marks = (mark for mark in names[name].metadata if isinstance(mark, ContentOf))
        if any(value not in mark.names and "\n" not in str(value) for mark in marks):
            raise ConfigError(
                name, f"{value!r:.100} is named by a file: only what the user names is read"
            )
    return arguments(**args)


def register_envs() -> None:
    """Register the environments of the entry points `workflow_rl.gymnasium` and `.gymnasium_vector`
    with Gymnasium, unless they are registered. Imports Gymnasium, but no guest."""
    import gymnasium

    vectors = plug_ins("gymnasium_vector")
    for env_id, point in plug_ins("gymnasium").items():
        if env_id not in gymnasium.registry:
            vector = vectors[env_id].value if env_id in vectors else None
            gymnasium.register(env_id, entry_point=point.value, vector_entry_point=vector)
