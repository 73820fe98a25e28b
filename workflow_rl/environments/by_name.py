"""Make an environment by its name.

A name is a guest's, or an id of Gymnasium's, or "module:name" of a class or function that makes the
environment: see `gymnasium_env`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, cast

from workflow_rl.environments.environment import Environment, InvalidEnvironmentError
from workflow_rl.environments.guests import guests

if TYPE_CHECKING:
    from workflow_rl.agents.settings import Settings
    from workflow_rl.environments.guest import Guest


def make_environment(
    env_id: str,
    args: Mapping[str, Any],
    named_by_file: bool = False,
    masks: bool = True,
    ignore_unknown: bool = False,
    python: str = "",
) -> Environment:
    """Return the environment of this name with these arguments, without importing or calling what
    they name.

    Args:
        env_id: a guest's id, or a name that `GymnasiumEnvironment` takes.
        args: the arguments. Those that are left out have defaults.
        named_by_file: whether only a file names the environment and its arguments, see
            `GymnasiumEnvironment` and `Guest.foreign`.
        masks: whether agents see the masks of actions that the environment offers, if it does.
        ignore_unknown: see `GymnasiumEnvironment`.
        python: the interpreter that plays it, see `GymnasiumEnvironment`. "" is this one.

    Raises:
        InvalidEnvironmentError: an argument is wrong.
    """
    if env_id in guests:
        if python:
            raise InvalidEnvironmentError(
                "env_python", f"{python} does not go with {env_id}, which plays in this interpreter"
            )
        guest = guests[env_id].make(_checked(guests[env_id], args, named_by_file))
        if not masks and guest.spaces().masked:
            raise InvalidEnvironmentError(
                "action_mask", f"{env_id} was asked for masks of actions by its own arguments"
            )
        if named_by_file and guests[env_id].foreign(guest):
            flagged: Any = guest
            return cast(Environment, dataclasses.replace(flagged, named_by_file=True))
        return guest
    from workflow_rl.environments.gymnasium_env import GymnasiumEnvironment

    return GymnasiumEnvironment(
        env_id,
        dict(args),
        masks=masks,
        named_by_file=named_by_file,
        ignore_unknown=ignore_unknown,
        python=python,
    )


def _checked(guest: Guest, args: Mapping[str, Any], named_by_file: bool) -> Settings:
    # Workers do not come here, and import no pydantic.
    from workflow_rl.agents.settings import ConfigError, ContentOf

    arguments = guest.arguments()
    names = arguments.model_fields
    for name in args:
        if name not in names:
            raise InvalidEnvironmentError(
                "env_arg", f"{name!r} is no argument of {guest.env_id}: it has {', '.join(names)}"
            )
    for name, value in args.items() if named_by_file else ():
        marks = (mark for mark in names[name].metadata if isinstance(mark, ContentOf))
        if any(value not in mark.names and "\n" not in str(value) for mark in marks):
            raise InvalidEnvironmentError(
                name, f"{value!r:.100} is named by a file: only what the user names is read"
            )
    try:
        return arguments(**args)
    except ConfigError as error:
        raise InvalidEnvironmentError(error.field_name, error.message) from None
