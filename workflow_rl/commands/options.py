"""Options that are generated from the fields of settings, and what all commands' options share."""

from __future__ import annotations

import json
import math
import re
import stat
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import click
from pydantic.fields import FieldInfo

from workflow_rl.agents import algorithm
from workflow_rl.agents.policies.networks import NETWORKS
from workflow_rl.agents.settings import LARGEST_COUNT, ConfigError, ContentOf, OneOf, Settings
from workflow_rl.agents.user_modules import attribute_named
from workflow_rl.commands.one_line_errors import given_names
from workflow_rl.environments.environment import interpreter
from workflow_rl.environments.source import register_envs
from workflow_rl.runs.config import TrainConfig

Option = Callable[..., Any]
"""Makes an option of its names and click's settings."""

TRUST = "Import and call what the files name. Trust the files' authors first."

MOST_POLICIES = 1000


class LayerSizes(click.ParamType):
    """Comma-separated positive integers, as a tuple."""

    name = "n,n,..."

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[int, ...]:
        if isinstance(value, tuple):
            return value
        try:
            sizes = tuple(int(part) for part in value.split(","))
        except ValueError:
            sizes = ()
        if not sizes or min(sizes) < 1:
            self.fail(f"{value!r} is not a list of positive layer sizes like 64,64", param, ctx)
        return sizes


class FiniteRange(click.FloatRange):
    """A FloatRange that takes neither nan nor inf."""

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        number: float = super().convert(value, param, ctx)
        if not math.isfinite(number):
            self.fail(f"{value} is not a finite number", param, ctx)
        return number

    def _describe_range(self) -> str:
        return "" if self.min is None and self.max is None else super()._describe_range()


class UsablePath(click.Path):
    """A path of a file or folder, which need not exist, and that the system can look up.

    Pipes and devices are refused: reading them could wait forever.
    """

    def __init__(self) -> None:
        super().__init__(path_type=Path)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        path = Path(str(super().convert(value, param, ctx)))
        try:
            mode = path.stat().st_mode
        except (FileNotFoundError, NotADirectoryError):
            return path
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or error
            self.fail(f"{path!s:.200} cannot be used: {reason}", param, ctx)
        if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
            self.fail(f"{path} is neither a file nor a folder", param, ctx)
        return path


class PythonPath(click.ParamType):
    """A Python interpreter: its path, or a name that the shell would find. "" is none."""

    name = "path"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        return interpreter(value)


class OutputFile(UsablePath):
    """A file to write, whose name ends in one of `endings`, like ".json", or in none."""

    def __init__(self, *endings: str) -> None:
        super().__init__()
        self._endings = endings

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        path = super().convert(value, param, ctx)
        if path.suffix.lower() not in ("", *self._endings):
            self.fail(f"{path}: give a name that ends in {' or '.join(self._endings)}", param, ctx)
        return path


class EnvArg(click.ParamType):
    """key=value, as a pair. The value is read as JSON if it is JSON, and else is the text."""

    name = "key=value"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, Any]:
        if isinstance(value, tuple):
            return value
        key, equals, text = value.partition("=")
        if not equals or not key.isidentifier():
            self.fail(f"{value!r} is not of the form key=value", param, ctx)
        if text in ("True", "False"):
            return key, text == "True"
        try:
            return key, json.loads(text)
        except (ValueError, RecursionError):
            return key, text


class Content(click.ParamType):
    """A name, or the path of a file, whose content is taken."""

    name = "FILE"

    def __init__(self, read: Callable[[str], str]) -> None:
        self._read = read

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        try:
            return self._read(value)
        except ValueError as error:
            self.fail(str(error), param, ctx)


class Range(click.ParamType):
    """NAME=SMALLEST:LARGEST, as a setting's name and a pair of numbers."""

    name = "NAME=SMALLEST:LARGEST"

    def __init__(self, names: Sequence[str]) -> None:
        self._names = names

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, tuple[float, float]]:
        if isinstance(value, tuple):
            return value
        name, _, ends = value.partition("=")
        if name.replace("-", "_") not in self._names:
            self.fail(f"{name!r} is not one of {spelled(self._names)}", param, ctx)
        try:
            low, high = map(float, ends.split(":"))
        except ValueError:
            self.fail(f"{value!r} is not of the form {name}=1e-4:1e-2", param, ctx)
        return name.replace("-", "_"), (low, high)


def typed_algorithm(name: str) -> algorithm.Algorithm:
    """Return the algorithm of a name that the user has typed. Imports that of module:Name.

    Raises ConfigError.
    """
    _prepare_for(name)
    return algorithm.load(name)


class AlgorithmName(click.ParamType):
    """The name of a known algorithm, or module:Name, which is imported: the user has typed it."""

    name = "ppo|sac|mbpo|module:Name"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        try:
            if value not in algorithm.names():
                typed_algorithm(value)
        except ConfigError as error:
            self.fail(error.told(spelling), param, ctx)
        return str(value)


class NetworkName(click.ParamType):
    """The name of a known network, or module:Name, which is imported: the user has typed it."""

    name = "mlp|gru|lstm|frame-stack|cnn|module:Name"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        if value in NETWORKS:
            return str(value)
        from workflow_rl.agents.policies.own_network import load_network

        _prepare_for(value)
        try:
            return load_network(value)
        except ValueError as error:
            self.fail(str(error), param, ctx)


class HookName(click.ParamType):
    """module:function, which is imported: the user has typed it."""

    name = "module:function"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if callable(value):
            return value
        if ":" not in value:
            self.fail(f"{value} is not of the form module:function", param, ctx)
        _prepare_for(value)
        try:
            found = attribute_named(value)
        except ValueError as error:
            self.fail(str(error), param, ctx)
        if not callable(found):
            self.fail(f"{value} cannot be called: name a function of one argument", param, ctx)
        return found


def _prepare_for(value: str) -> None:
    """Register the package's environments, which the user's module may make, if it is imported."""
    if ":" in value:
        register_envs()


def spelled(names: Sequence[str]) -> str:
    """Return the names of settings as the command line spells them."""
    return ", ".join(name.replace("_", "-") for name in names)


POSITIVE = FiniteRange(min=0, min_open=True)
NOT_NEGATIVE = FiniteRange(min=0)
SEED = click.IntRange(0, 2**63 - 1)
COUNT = click.IntRange(min=1)
EPISODES = click.IntRange(1, 1_000_000)
POLICIES = click.IntRange(1, MOST_POLICIES)
PROCESSES = click.IntRange(1, 4096)
SECONDS = FiniteRange(0, 1_000_000, min_open=True)
PATH = UsablePath()

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
    "env_python": {"type": PythonPath(), "metavar": "PATH", "show_default": "this one"},
    "cluster": {"metavar": "ADDRESS"},
    "algorithm": {"type": AlgorithmName(), "metavar": "NAME"},
    "teacher": {"callback": lambda context, parameter, name: None if name == "none" else name},
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
    """Return a description of a field of a run's config, or of settings, with the options' names
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
        for mark in metadata
        for limit in (mark.metadata if isinstance(mark, FieldInfo) else (mark,))
    ]
    origin, inner = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return _kind(inner[0], [*limits, *inner[1:]])
    if origin in (Union, UnionType):
        return _kind(next(kind for kind in inner if kind is not NoneType), limits)
    if origin is tuple:
        is_sizes = any(hasattr(limit, "max_length") for limit in limits)
        return {"type": LayerSizes()} if is_sizes else {**_kind(inner[0]), "multiple": True}
    read = next((limit.read for limit in limits if isinstance(limit, ContentOf)), None)
    if read is not None:
        return {"type": Content(read)}
    names = next((limit.names for limit in limits if isinstance(limit, OneOf)), None)
    if names is not None or origin is Literal:
        return {"type": click.Choice(list(names or inner))}
    if annotation is Path:
        return {"type": PATH, "metavar": "FOLDER"}
    if annotation not in (int, float):
        return {} if annotation is bool else {"type": str}
    least, above, most, below = (
        next((getattr(limit, name) for limit in limits if hasattr(limit, name)), None)
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
    shown: dict[str, Any] = {"show_default": True}
    if isinstance(settings.get("type"), click.IntRange | click.FloatRange):
        shown["metavar"] = "N" if isinstance(settings["type"], click.IntRange) else "X"
    return click.Option(names, **{**shown, **settings})


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


def given_options() -> frozenset[str]:
    """Return the names of the options that the command line of the present command has."""
    return given_names(click.get_current_context())
