"""Options that are generated from the fields of settings, and what all commands' options share."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import click
from pydantic.fields import FieldInfo

from workflow_rl.agents.settings import LARGEST_COUNT, OneOf, Settings
from workflow_rl.commands.clear import ClearCommand as ClearCommand
from workflow_rl.commands.clear import GroupedCommand as GroupedCommand
from workflow_rl.commands.clear import one_line as one_line
from workflow_rl.commands.clear import printable as printable
from workflow_rl.commands.clear import under as under
from workflow_rl.commands.types import COUNT as COUNT
from workflow_rl.commands.types import EPISODES as EPISODES
from workflow_rl.commands.types import MOST_POLICIES as MOST_POLICIES
from workflow_rl.commands.types import NOT_NEGATIVE as NOT_NEGATIVE
from workflow_rl.commands.types import PATH as PATH
from workflow_rl.commands.types import POLICIES as POLICIES
from workflow_rl.commands.types import POSITIVE as POSITIVE
from workflow_rl.commands.types import PROCESSES as PROCESSES
from workflow_rl.commands.types import SECONDS as SECONDS
from workflow_rl.commands.types import SEED as SEED
from workflow_rl.commands.types import SHARE as SHARE
from workflow_rl.commands.types import AlgorithmName, LayerSizes, NetworkName
from workflow_rl.commands.types import EnvArg as EnvArg
from workflow_rl.commands.types import FiniteRange as FiniteRange
from workflow_rl.commands.types import OutputFile as OutputFile
from workflow_rl.commands.types import Range as Range
from workflow_rl.commands.types import UsablePath as UsablePath
from workflow_rl.commands.types import spelled as spelled
from workflow_rl.runs.config import TrainConfig

Option = Callable[..., Any]
"""Makes an option of its names and click's settings."""

TRUST = "Import and call what the files name. Trust the files' authors first."

# What cannot be derived from a field.
_NAMES = {
    "n_workers": ("--n-workers", "--n-actors", "n_workers"),
    "envs_per_worker": ("--envs-per-worker", "--envs-per-actor", "envs_per_worker"),
    "take_all": ("--take-all/--take-one",),
    "network_args": ("--network-arg", "network_args"),
}
_SPELLED = {
    "env_args": "--env-arg",
    "network_args": "--network-arg",
    "ranges": "--range",
    "settings": "--setting",
}
_OWN: dict[str, dict[str, Any]] = {
    # For measurements alone: see docs/explanations/mbpo.md.
    "slow_worker_ms": {"hidden": True},
    "slow_worker_share": {"hidden": True},
    "env": {"metavar": "ID"},
    "cluster": {"metavar": "ADDRESS"},
    "algorithm": {"type": AlgorithmName(), "metavar": "NAME"},
    "opening": {"metavar": "ACTION"},
    "network": {"type": NetworkName(), "metavar": "NAME"},
    "network_args": {
        **{"type": EnvArg(), "multiple": True, "default": (), "show_default": "none"},
        "callback": lambda context, parameter, pairs: dict(pairs),
    },
}
ALGORITHMS = {
    "ppo": "PPO",
    "sac": "SAC (--algorithm sac; networks, learning rate and rewards are set as for PPO)",
    "mbpo": "MBPO (--algorithm mbpo; all of SAC's as well)",
}
"""The algorithms whose settings are options, with their headings. --setting is for others."""


def spelling(field_name: str) -> str:
    """Return a field of a config as an option."""
    return _SPELLED.get(field_name) or "--" + field_name.replace("_", "-")


def option_words(text: str, settings: type[Settings]) -> str:
    """Return a description or message of a run's config, or of settings, with the options' names
    for the fields'."""
    names = TrainConfig.model_fields.keys() | settings.model_fields.keys()
    return re.sub(
        r"\b[a-z]+(_[a-z]+)+\b(?!\()",
        lambda word: spelling(word[0]) if word[0] in names else word[0],
        text,
    )


def setting_options(
    settings: type[Settings],
    option: Option,
    names: Collection[str] | None = None,
    shown: Mapping[str, str] = {},
) -> list[Any]:
    """Return an option for each field, with its type, range, default and description.

    Args:
        settings: whose fields.
        option: makes an option.
        names: of the fields; None: all.
        shown: what --help says of the defaults of some fields.
    """
    made = []
    for name, field in settings.model_fields.items():
        if names is None or name in names:
            required = field.is_required()
            default = None if required else field.get_default(call_default_factory=True)
            given = {
                "default": default,
                "help": option_words(field.description or "", settings),
                **_kind(field.annotation, field.metadata),
                **_OWN.get(name, {}),
            }
            if given.get("multiple"):
                given |= {"show_default": False, "help": f"{given['help']} May be given again."}
            if name in shown:
                given["show_default"] = shown[name]
            spelled_as = _NAMES.get(name) or (spelling(name),)
            if field.annotation is bool and "/" not in spelled_as[0]:
                spelled_as = (f"{spelling(name)}/--no-{spelling(name)[2:]}",)
            made.append(option(*spelled_as, **given))
    return made


def _kind(annotation: Any, metadata: Collection[Any] = ()) -> dict[str, Any]:
    """Return click's settings for values of a type that pydantic's metadata restrict."""
    limits = [
        limit
        for one in metadata
        for limit in (one.metadata if isinstance(one, FieldInfo) else (one,))
    ]
    origin, inner = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return _kind(inner[0], [*limits, *inner[1:]])
    if origin in (Union, UnionType):
        return _kind(next(one for one in inner if one is not NoneType), limits)
    if origin is tuple:
        is_sizes = any(hasattr(one, "max_length") for one in limits)
        return {"type": LayerSizes()} if is_sizes else {**_kind(inner[0]), "multiple": True}
    names = next((one.names for one in limits if isinstance(one, OneOf)), None)
    if names is not None or origin is Literal:
        return {"type": click.Choice(list(names or inner))}
    if annotation is Path:
        return {"type": PATH, "metavar": "FOLDER"}
    if annotation not in (int, float):
        return {} if annotation is bool else {"type": str}
    least, above, most, below = (
        next((getattr(one, name) for one in limits if hasattr(one, name)), None)
        for name in ("ge", "gt", "le", "lt")
    )
    kind = click.IntRange if annotation is int else FiniteRange
    return {
        "type": kind(
            above if least is None else least,
            None if most == LARGEST_COUNT else below if most is None else most,
            min_open=above is not None,
            max_open=below is not None,
        )
    }


def plain_option(*names: str, **settings: Any) -> click.Option:
    """Return an option for the `params` of a command."""
    own: dict[str, Any] = {"show_default": True}
    if isinstance(settings.get("type"), click.IntRange | click.FloatRange):
        own["metavar"] = "N" if isinstance(settings["type"], click.IntRange) else "X"
    return click.Option(names, **{**own, **settings})


def env_options(option: Option) -> list[Any]:
    """Return the options that name an environment and its arguments."""
    several = option(
        "--env-arg",
        "env_arg",
        type=EnvArg(),
        multiple=True,
        show_default="none",
        help="Argument of the environment, such as size=4; may be given again.",
    )
    return [*setting_options(TrainConfig, option, ["env"]), several]


def accept_agent(agent: Path, trust: bool, hint: str) -> None:
    """Import what only the agent's file names, if the user trusts it. Raise click.BadParameter."""
    from workflow_rl.runs.saved_agent import load_saved  # It imports torch.

    if trust and agent.exists():
        try:
            load_saved(agent, trust=True)
        except ValueError as error:
            raise click.BadParameter(str(error), param_hint=hint) from None


def given_options() -> frozenset[str]:
    """Return the names of the options that the command line of the present command has."""
    context = click.get_current_context()
    return frozenset(
        name
        for name in context.params
        if context.get_parameter_source(name) is click.core.ParameterSource.COMMANDLINE
    )
