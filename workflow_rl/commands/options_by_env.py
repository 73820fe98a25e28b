"""Commands whose further options follow from what the command line names, such as --env, and the
options that an environment brings.

Files are read as data here: nothing is imported or called that only a file mentions.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Collection, Mapping, Sequence, Set
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from workflow_rl.agents.algorithm import Algorithm
from workflow_rl.commands.one_line_errors import ADDED, ClearCommand
from workflow_rl.commands.options import (
    ALGORITHMS,
    PATH,
    given_options,
    setting_options,
    spelling,
    under,
)
from workflow_rl.environments.source import default_env, guests
from workflow_rl.output_files import MOST_OF_LONG_RECORD, NOT_OURS, read_json
from workflow_rl.plug_ins import plug_ins
from workflow_rl.runs.resolve import preset_named

if TYPE_CHECKING:
    from workflow_rl.environments.challenge import Guest

HELP_ALL = "--help-all"
_NAMED = "workflow_rl.named"
_CONFIGS = ("config.json", "population.json", "tune.json")


class Look(NamedTuple):
    """What a first look at a command line finds, before it is known which options there are.

    values: the text of each general option, "" for one without its value. words: all that may be an
    argument, the likeliest first. typed: all options, general or not.
    """

    values: Mapping[str, str] = {}
    words: Sequence[str] = ()
    typed: Set[str] = frozenset()


def look_at(args: Sequence[str], general: Sequence[click.Option]) -> Look:
    """Read a command line with the general options alone."""
    context = click.Context(click.Command("", params=[*general]), ignore_unknown_options=True)
    try:
        values, words, _ = context.command.make_parser(context).parse_args([*args])
    except click.UsageError:
        return Look()  # The same error comes again when all options are known.
    last = {name: value[-1] if isinstance(value, list) else value for name, value in values.items()}
    # A word after another option may be its value: it counts only where there is no other word.
    pairs = zip(("", *words), words, strict=False)
    free = [word for before, word in pairs if word[:1] != "-" and before[:1] != "-"]
    return Look(
        {name: value if isinstance(value, str) else "" for name, value in last.items()},
        [word for word in free or words if word[:1] != "-"],
        {word.partition("=")[0] for word in args},
    )


class Named(NamedTuple):
    """What a command line names, and the options that go with it.

    env: the environment's id, or in words what else decides the options. algorithm: its name, if it
    also decides options. plug_in: the algorithm, if it is known. settings: the options' names that
    are settings of the algorithm.
    """

    env: str
    options: Sequence[click.Option]
    algorithm: str = ""
    plug_in: Algorithm | None = None
    settings: Sequence[str] = ()


def named_here() -> Named:
    named: Named = click.get_current_context().meta[_NAMED]
    return named


class OpenCommand(ClearCommand):
    """A command with general options, `params`, and with those of what its command line names.

    --help lists them heading by heading, the most used ones first.

    named: returns what a command line names. A wrong command line raises no error there. rare:
    names of options that --help leaves out, and --help-all lists.
    """

    def __init__(
        self,
        *arguments: Any,
        named: Callable[[Look], Named],
        rare: Collection[str] = (),
        **settings: Any,
    ) -> None:
        super().__init__(*arguments, **settings)
        self.named, self.rare = named, {*rare, *ADDED} if rare else rare
        if rare:
            self.params.append(
                click.Option(
                    [HELP_ALL], is_flag=True, is_eager=True, expose_value=False,
                    callback=_show_all, help="Show this message with all options and exit.",
                )
            )  # fmt: skip

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        if _NAMED not in ctx.meta:
            ctx.meta[_NAMED] = self.named(Look())
        return [*super().get_params(ctx), *ctx.meta[_NAMED].options]

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        general = [option for option in self.params if isinstance(option, click.Option)]
        look = look_at(args, general)
        named = ctx.meta[_NAMED] = self.named(look)
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            owners = self._owners(error.option_name, look)
            if not owners:
                raise
            subject = f"{named.env} and {named.algorithm}" if named.algorithm else named.env
            raise click.UsageError(
                f"{error.option_name} does not apply to {subject}: it is an option of "
                f"{', '.join(owners)}",
                ctx,
            ) from None

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        left_out = () if HELP_ALL in ctx.meta else self.rare
        headings: dict[str, list[tuple[str, str]]] = {"Most used": []}
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            if record is None or not isinstance(parameter, click.Option):
                continue
            if parameter.name not in left_out:
                heading = getattr(parameter, "heading", "Other")
                headings.setdefault(heading, []).append(record)
        for heading, records in headings.items():
            if records:
                with formatter.section(heading):
                    formatter.write_dl(records)

    def _owners(self, option: str, look: Look) -> list[str]:
        """Return the environments and algorithms that have an option, as options."""
        names = {"env": [guest.env_id for guest in guests.importable()], "algorithm": ALGORITHMS}
        general = {param.name for param in self.params}
        return [
            f"--{kind} {name}"
            for kind in names
            if kind in general
            for name in names[kind]
            for other in self.named(Look({**look.values, kind: name})).options
            if option in other.opts
        ]


def _show_all(ctx: click.Context, param: click.Parameter, is_asked: bool) -> None:
    if is_asked and not ctx.resilient_parsing:
        ctx.meta[HELP_ALL] = True
        click.echo(ctx.get_help(), color=ctx.color)
        ctx.exit()


def named_env(look: Look) -> str:
    return named_field("env", look) or default_env()


def named_field(name: str, look: Look) -> str | None:
    """Return a field of a training's config that decides which options there are: that of the
    option, or else of the run to resume, or else of the preset."""
    values = look.values
    folders = [values["resume"], values.get("run_dir", "")] if "resume" in values else []
    resumed = next((Path(folder) for folder in folders if os.path.isdir(folder)), None)
    found = values.get(name) or config_in(resumed).get(name)
    found = found or preset_named(values.get("preset")).get(name)
    return None if found is None else str(found)


def env_of_agents(look: Look) -> str:
    """Return the environment for the agent that a command line names.

    The environment that an existing file was trained on comes first, then --env, then the
    environment that a released agent of this name is for, then the default.
    """
    paths = [Path(word) for word in look.words]
    of_files = (env_of_agent(path) for path in paths if os.path.exists(path))
    if found := next(filter(None, of_files), None) or look.values.get("env"):
        return found
    return next(filter(None, map(env_of_agent, paths)), None) or default_env()


def config_in(folder: Path | None) -> Mapping[str, Any]:
    """Return the config in a folder of a run, of several policies or of a search, as it stands
    there; nothing if there is none that can be read."""
    if folder is None:
        return {}
    for name in _CONFIGS:
        try:
            content = read_json(folder / name, MOST_OF_LONG_RECORD)
            config = content.get("config") or content.get("configs", [content])[0]
        except NOT_OURS:
            continue
        if isinstance(config, dict):
            return config
    return {}


def env_of_agent(agent: Path) -> str | None:
    """Return the environment of an agent, which is a released agent's name or a path; None if it is
    unknown."""
    if not os.path.exists(agent):
        guest = guests.bringing("released", str(agent))
        return None if guest is None else guest.env_id
    env = config_in(agent).get("env") if os.path.isdir(agent) else None
    env = env or _env_in(agent)
    return env if isinstance(env, str) else None


def _env_in(file: Path) -> Any:
    try:
        if file.suffix == ".npz":
            from workflow_rl.agents.policies.team_policy import load_policy_or_team

            return load_policy_or_team(file)[1]["env"]
        from workflow_rl.runs.read_checkpoint import load_checkpoint  # With torch.
        from workflow_rl.runs.saved_agent import saved_path

        return load_checkpoint(saved_path(file)).config["env"]
    except NOT_OURS:
        return None


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
    """Raise click.BadParameter, blaming `hint`, if an agent is no path and no agent's name."""
    names = [*plug_ins("released"), *scripted_agents(env_id)]
    names += guests[env_id].by_hand() if hint in ("--teacher", "AGENT") else ()
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
    return guest.title or guest.env_id


def chosen_env(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields env and env_args that the command line asks for. Raises click.UsageError
    for an argument that is given twice."""
    env, args, given = named_here().env, dict(options["env_arg"]), given_options()
    if env not in guests:
        return {"env": env, "env_args": args}
    if twice := given.intersection(args):
        raise click.UsageError(f"--env-arg {min(twice)} is given twice")
    fields = guests[env].arguments().model_fields
    of_options = {name: options[name] for name in fields if name in given}
    return {"env": env, "env_args": {**of_options, **args}}
