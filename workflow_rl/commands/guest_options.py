"""Options of the guests: those of one name are one option, which belongs to several guests."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from workflow_rl.commands.options import (
    PATH,
    given_options,
    plain_option,
    setting_options,
    spelling,
    under,
)
from workflow_rl.commands.outputs import errors_in_one_line
from workflow_rl.environments.environment import guests
from workflow_rl.environments.guest import Guest
from workflow_rl.runs.presets import preset_named
from workflow_rl.suggestions import question, word_meant

if TYPE_CHECKING:
    from workflow_rl.agents.settings import Settings

_NAMES = {
    "workflow_rl/CAGE2-v0": "CAGE-2",
    "workflow_rl/CAGE4-v0": "CAGE-4",
    "workflow_rl/OrderedCAGE2-v0": "CAGE-2 workflows",
}


def guest_options() -> list[click.Option]:
    """Return the options that stand for arguments of guests, under the guests' headings."""
    return [*joined_options(_options_of), *place_options()]


def place_options() -> list[click.Option]:
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
        for guest in guests.values()
        for place, (variable, text) in guest.places.items()
    ]


def _name_place(variable: str, context: Any, parameter: Any, place: Path | None) -> None:
    if place is not None:
        os.environ[variable] = str(place.absolute())  # Workers inherit the variable.


def scripted_agents(env_id: str) -> list[str]:
    """Return the names of the scripted agents of a guest."""
    scoring = guests[env_id].scoring()
    options = [] if scoring is None else setting_options(scoring.settings, plain_option, ["agent"])
    kinds = [one.type for one in options if isinstance(one.type, click.Choice)]
    return [name for kind in kinds for name in kind.choices]


def require_agent(agent: Path, env_id: str, hint: str) -> None:
    """Raise click.BadParameter, blaming `hint`, if an agent is neither a path nor one's name."""
    released = [name for guest in guests.values() for name in guest.released]
    names = [*released, *scripted_agents(env_id)]
    if not agent.exists() and str(agent) not in names:
        raise click.BadParameter(
            f"there is no checkpoint at {agent}, nor an agent of this name on {env_id}: choose one "
            f"of {', '.join(dict.fromkeys(names))}.{question(word_meant(str(agent), names))}",
            param_hint=hint,
        )


def name_of(guest: Guest) -> str:
    """Return what headings call a guest."""
    return _NAMES.get(guest.env_id, guest.env_id)


def given_settings(
    own: type[Settings],
    every: Iterable[type[Settings]],
    env_id: str,
    options: Mapping[str, Any],
    also: Collection[str] = (),
) -> Settings:
    """Return the settings of an environment that the command line asks for.

    own: the environment's class. every: those of all guests. also: names of options that count as
    given. Raises click.UsageError for an option of another guest.
    """
    given = {*given_options(), *also}
    foreign = {name for one in every for name in one.model_fields} - set(own.model_fields)
    for name in sorted(given & foreign):
        raise click.UsageError(f"{spelling(name)} is not an option for agents of {env_id}")
    with errors_in_one_line():
        return own(**{name: options[name] for name in own.model_fields if name in given})


def joined_options(
    options_of: Callable[[Guest], Sequence[click.Option]], heading: str = "{}"
) -> list[click.Option]:
    """Return the options of all guests, one for each name.

    heading: of an option in --help, with the names of its guests.
    """
    found: dict[str, dict[str, click.Option]] = {}
    for guest in guests.values():
        for one in options_of(guest):
            assert one.name is not None
            found.setdefault(one.name, {})[name_of(guest)] = one
    return [
        under(heading.format(" and ".join(of_guests)), _joined(of_guests))[0]
        for of_guests in found.values()
    ]


def _joined(of_guests: Mapping[str, click.Option]) -> click.Option:
    """Return an option that takes what any guest takes. A guest checks the value when it is used.

    of_guests: the option of each guest that has it, by the guest's name.
    """
    first, *others = of_guests.values()
    for other in others:
        first.type = _wider(first.type, other.type)
    helps = {name: str(one.help) for name, one in of_guests.items()}
    defaults = {name: str(one.default) for name, one in of_guests.items()}
    if len(set(helps.values())) > 1:
        first.help = " ".join(_by_text(helps))
    if len(set(defaults.values())) > 1:
        first.show_default = "; ".join(_by_text(defaults))
    return first


def _by_text(of_guests: Mapping[str, str]) -> list[str]:
    """Return each text once, after the names of the guests that have this text."""
    names: dict[str, list[str]] = {}
    for name, text in of_guests.items():
        names.setdefault(text, []).append(name)
    return [f"{' and '.join(those)}: {text}" for text, those in names.items()]


def _wider(one: click.ParamType, other: click.ParamType) -> click.ParamType:
    """Return the type of the values of either type."""
    if isinstance(one, click.Choice) and isinstance(other, click.Choice):
        return click.Choice(list(dict.fromkeys([*one.choices, *other.choices])))
    if isinstance(one, click.IntRange) and isinstance(other, click.IntRange):
        assert None not in (one.min, other.min, one.max, other.max)
        return click.IntRange(min(one.min, other.min), max(one.max, other.max))  # type: ignore
    assert type(one) is type(other)
    return one


def _options_of(guest: Guest) -> list[click.Option]:
    flags = [
        plain_option(spelling(flag), is_flag=True, help=f"Same as {_as_options(meant)}.")
        for flag, meant in guest.flags.items()
    ]
    return [*setting_options(guest.arguments(), plain_option), *flags]


def _as_options(values: Mapping[str, Any]) -> str:
    return " ".join(f"{spelling(name)} {value}" for name, value in values.items())


def chosen_env(options: dict[str, Any]) -> dict[str, Any]:
    """Return the fields env and env_args that the command line asks for.

    Raises click.UsageError for an option of an environment that is not this one.
    """
    args = dict(options["env_arg"])
    env = asked_env(options)
    require_own_options(env)
    guest = guests.get(env)
    if guest is None:
        return {"env": env, "env_args": args}
    if twice := given_options().intersection(args):
        raise click.UsageError(f"--env-arg {min(twice)} is given twice")
    return {"env": env, "env_args": {**guest_args(guest, options), **args}}


def asked_env(options: Mapping[str, Any]) -> str:
    """Return the environment that the command line names, or else the one of its preset."""
    of_preset = preset_named(options.get("preset")).get("env")
    env: str = options["env"] if "env" in given_options() or not of_preset else of_preset
    return env


def guest_args(guest: Guest, options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of a guest that the command line asks for. Raises click.UsageError."""
    fields, given = guest.arguments().model_fields, given_options()
    args = {name: options[name] for name in fields if name in options and name in given}
    for flag, meant in guest.flags.items():
        if not options.get(flag):
            continue
        for name, value in meant.items():
            if args.get(name, value) not in (fields[name].default, value):
                raise click.UsageError(
                    f"{spelling(flag)} stands for {spelling(name)} {value}, and {spelling(name)} "
                    f"{args[name]} is given too"
                )
            args[name] = value
    return args


def require_own_options(env: str) -> None:
    """Raise click.BadParameter if the command line has an option of another environment alone."""
    own = {one.env_id: [*one.arguments().model_fields, *one.flags] for one in guests.values()}
    for name in given_options():
        owners = [env_id for env_id, names in own.items() if name in names]
        if owners and env not in owners:
            raise click.BadParameter(
                f"it is an option of {' and '.join(owners)}, and --env is {env}: give the "
                "environment's own arguments by --env-arg",
                param_hint=spelling(name),
            )
