"""The options that an environment brings, and what they ask for."""

from __future__ import annotations

import functools
import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from workflow_rl.commands.options import (
    PATH,
    given_options,
    setting_options,
    spelling,
    under,
)
from workflow_rl.commands.options_by_env import named_here
from workflow_rl.environments.source import guests
from workflow_rl.plug_ins import plug_ins

if TYPE_CHECKING:
    from workflow_rl.environments.challenge import Guest


def guest_options(env_id: str) -> list[click.Option]:
    """Return the options that stand for arguments of an environment, if it is a guest's."""
    if env_id not in guests:
        return []
    guest = guests[env_id]
    options = [*setting_options(guest.arguments()), *place_options(guest)]
    for option in options:
        under("Most used" if option.name in guest.most_used else name_of(guest), option)
    return options


def place_options(guest: Guest) -> list[click.Option]:
    """Return the options that say where something of a guest's lies: see `Guest.places`."""
    return [
        under(
            name_of(guest),
            click.Option(
                [spelling(place)],
                type=PATH,
                metavar="FOLDER",
                expose_value=False,
                callback=functools.partial(_name_place, variable),
                help=f"{text}  [default: the environment variable {variable}]",
            ),
        )[0]
        for place, (variable, text) in guest.places.items()
    ]


def _name_place(variable: str, context: Any, parameter: Any, place: Path | None) -> None:
    if place is not None:
        os.environ[variable] = str(place.absolute())  # Workers inherit the variable.


def scripted_agents(env_id: str) -> list[str]:
    scoring = guests[env_id].scoring() if env_id in guests else None
    options = [] if scoring is None else setting_options(scoring.settings, ["agent"])
    kinds = [option.type for option in options if isinstance(option.type, click.Choice)]
    return [name for kind in kinds for name in kind.choices]


def require_agent(agent: Path, env_id: str, hint: str) -> None:
    """Raise click.BadParameter, blaming `hint`, if an agent is neither a path nor one's name."""
    names = [*plug_ins("released"), *scripted_agents(env_id)]
    if agent.exists() or str(agent) in names:
        return
    from workflow_rl.suggestions import question, word_meant  # Only an error needs it.

    told = f"there is no checkpoint at {agent}"
    if ":" in str(agent):
        told = f"{agent} is no checkpoint. record scores a function."
    elif agent.name == str(agent):  # It has no folder: it may be meant as a name.
        told += f", nor an agent of this name on {env_id}: choose one of "
        told += f"{', '.join(dict.fromkeys(names))}.{question(word_meant(str(agent), names))}"
    raise click.BadParameter(told, param_hint=hint)


def name_of(guest: Guest) -> str:
    """Return what headings call a guest."""
    return guest.title or guest.env_id


def chosen_env(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields env and env_args that the command line asks for.

    Raises click.UsageError for an argument that is given twice.
    """
    env, args, given = named_here().env, dict(options["env_arg"]), given_options()
    if env not in guests:
        return {"env": env, "env_args": args}
    if twice := given.intersection(args):
        raise click.UsageError(f"--env-arg {min(twice)} is given twice")
    fields = guests[env].arguments().model_fields
    of_options = {name: options[name] for name in fields if name in given}
    return {"env": env, "env_args": {**of_options, **args}}
