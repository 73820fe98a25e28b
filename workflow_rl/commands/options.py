"""Options that are generated from the fields of settings, and what all commands' options share."""

import contextlib
import json
import math
import re
import stat
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin

import click
from pydantic.fields import FieldInfo

from workflow_rl.agents import algorithm
from workflow_rl.agents.policies.networks import NETWORKS
from workflow_rl.agents.settings import LARGEST_COUNT, ContentOf, OneOf, Settings
from workflow_rl.agents.user_modules import attribute_named
from workflow_rl.environments.source import interpreter, register_envs
from workflow_rl.errors import ConfigError
from workflow_rl.runs.config import TrainConfig
from workflow_rl.runs.resolve import preset_named

MOST_POLICIES = 1000
Given = TypeVar("Given", bound=Settings)


class Read(click.ParamType):
    """A type whose values a function reads from the typed text. It may raise ValueError."""

    def __init__(self, name: str, read: Callable[[str], Any]) -> None:
        self.name = name
        self._read = read

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if not isinstance(value, str):  # It is a default, which has been read.
            return value
        try:
            return self._read(value)
        except ConfigError as error:
            self.fail(error.told(spelling), param, ctx)
        except ValueError as error:
            self.fail(str(error), param, ctx)


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
    """The path of a file or folder, which need not exist. Pipes and devices are refused, because
    reading them could wait forever."""

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


class SavedPath(UsablePath):
    """The path of a run, a checkpoint, a policy file or the like, or an agent's name."""

    is_of_others = True


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


def _layer_sizes(text: str) -> tuple[int, ...]:
    try:
        sizes = tuple(int(part) for part in text.split(","))
    except ValueError:
        sizes = ()
    if not sizes or min(sizes) < 1:
        raise ValueError(f"{text!r} is not a list of positive layer sizes like 64,64")
    return sizes


def _pair(text: str) -> tuple[str, Any]:
    """Return the key and the value of "key=value". The value is read as JSON if it is JSON, and
    else is the text."""
    key, equals, value = text.partition("=")
    if not equals or not key.isidentifier():
        raise ValueError(f"{text!r} is not of the form key=value")
    if value in ("True", "False"):
        return key, value == "True"
    try:
        return key, json.loads(value)
    except (ValueError, RecursionError):
        return key, value


def _amount(text: str) -> tuple[str, float]:
    """Return the name and the number of "NAME=NUMBER". The name may have any signs."""
    name, _, number = text.rpartition("=")
    with contextlib.suppress(ValueError):
        if name and math.isfinite(float(number)):
            return name, float(number)
    raise ValueError(f"{text!r} is not of the form NAME=NUMBER, such as cost=25")


def _by_name(
    context: click.Context, option: click.Parameter, pairs: Sequence[tuple[str, float]]
) -> dict[str, float]:
    amounts = dict(pairs)
    if len(amounts) < len(pairs):
        name = next(name for name, _ in pairs if [n for n, _ in pairs].count(name) > 1)
        raise click.BadParameter(f"{name} is given twice", context, option)
    return amounts


def range_of(names: Sequence[str]) -> Read:
    """Return the type of NAME=SMALLEST:LARGEST, read as a setting's name and a pair of numbers."""

    def read(text: str) -> tuple[str, tuple[float, float]]:
        name, _, ends = text.partition("=")
        if name.replace("-", "_") not in names:
            raise ValueError(f"{name!r} is not one of {spelled(names)}")
        try:
            low, high = map(float, ends.split(":"))
        except ValueError:
            raise ValueError(f"{text!r} is not of the form {name}=1e-4:1e-2") from None
        return name.replace("-", "_"), (low, high)

    return Read("NAME=SMALLEST:LARGEST", read)


def typed_algorithm(name: str) -> algorithm.Algorithm:
    """Return the algorithm of a name that the user has typed. Imports that of module:Name. Raises
    ConfigError."""
    _prepare_for(name)
    return algorithm.load(name)


def _algorithm_name(text: str) -> str:
    if text not in algorithm.names():
        typed_algorithm(text)
    return text


def _network_name(text: str) -> str:
    if text in NETWORKS:
        return text
    from workflow_rl.agents.policies.own_network import load_network

    _prepare_for(text)
    return load_network(text)


def function_named(text: str) -> Any:
    """Return the function that the user has typed as module:function. Raises ValueError."""
    if ":" not in text:
        raise ValueError(f"{text} is not of the form module:function")
    _prepare_for(text)
    found = attribute_named(text)
    if not callable(found):
        raise ValueError(f"{text} cannot be called: name a function of one argument")
    return found


def _prepare_for(value: str) -> None:
    """Register the package's environments, which the user's module may make, if it is imported."""
    if ":" in value:
        register_envs()


def spelled(names: Sequence[str]) -> str:
    """Return the names of settings as the command line spells them."""
    return ", ".join(name.replace("_", "-") for name in names)


LAYER_SIZES = Read("n,n,...", _layer_sizes)
PAIR = Read("key=value", _pair)
AMOUNT = Read("NAME=NUMBER", _amount)
PYTHON = Read("path", interpreter)
"""The absolute path of a Python interpreter, which the user gives as a path, or as a name that the
shell would find. "" stays unchanged."""
FUNCTION = Read("module:function", function_named)
ALGORITHM = Read("ppo|sac|mbpo|module:Name", _algorithm_name)
NETWORK = Read("mlp|gru|lstm|frame-stack|cnn|module:Name", _network_name)
POSITIVE = FiniteRange(min=0, min_open=True)
NOT_NEGATIVE = FiniteRange(min=0)
SEED = click.IntRange(0, 2**63 - 1)
COUNT = click.IntRange(min=1)
EPISODES = click.IntRange(1, 1_000_000)
POLICIES = click.IntRange(1, MOST_POLICIES)
PROCESSES = click.IntRange(1, 4096)
SECONDS = FiniteRange(0, 1_000_000, min_open=True)
PATH = UsablePath()
SAVED = SavedPath()

# What cannot be derived from a field.
_SPELLED = {
    "n_workers": ("--n-workers", "--n-actors", "n_workers"),
    "envs_per_worker": ("--envs-per-worker", "--envs-per-actor", "envs_per_worker"),
    "take_all": ("--take-all/--take-one",),
    "env_args": ("--env-arg",),
    "network_args": ("--network-arg", "network_args"),
    "ranges": ("--range",),
    "budgets": ("--budget", "budgets"),
    "reward_from": ("--reward-from", "reward_from"),
    "settings": ("--setting",),
}
_AMOUNTS = {"type": AMOUNT, "multiple": True, "default": (), "callback": _by_name}
_OWN: dict[str, dict[str, Any]] = {
    # For measurements alone: see docs/explanations/mbpo.md.
    "slow_worker_ms": {"hidden": True},
    "slow_worker_share": {"hidden": True},
    "env": {"metavar": "ID"},
    "env_python": {"type": PYTHON, "metavar": "PATH", "show_default": "this one"},
    "cluster": {"metavar": "ADDRESS"},
    "algorithm": {"type": ALGORITHM, "metavar": "NAME"},
    "teacher": {"callback": lambda context, parameter, name: None if name == "none" else name},
    "opening": {"metavar": "ACTION"},
    "budgets": _AMOUNTS,
    "reward_from": _AMOUNTS,
    "network": {"type": NETWORK, "metavar": "NAME"},
    "network_args": {
        **{"type": PAIR, "multiple": True, "default": (), "show_default": "none"},
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
    names = _SPELLED.get(field_name)
    return "--" + field_name.replace("_", "-") if names is None else names[0].partition("/")[0]


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
    names: Collection[str] | None = None,
    shown: Mapping[str, str] = {},
) -> list[click.Option]:
    """Return an option for each field, with its type, range, default and description.

    Args:
        settings: the class with the fields.
        names: the fields' names; None: all fields.
        shown: the text of --help for the defaults of some fields.
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
            spelled_as = _SPELLED.get(name) or (spelling(name),)
            if field.annotation is bool and "/" not in spelled_as[0]:
                spelled_as = (f"{spelling(name)}/--no-{spelling(name)[2:]}",)
            made.append(plain_option(*spelled_as, **given))
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
        return {"type": LAYER_SIZES} if is_sizes else {**_kind(inner[0]), "multiple": True}
    read = next((limit.read for limit in limits if isinstance(limit, ContentOf)), None)
    if read is not None:
        return {"type": Read("FILE", read)}
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
    shown: dict[str, Any] = {"show_default": True}
    if isinstance(settings.get("type"), click.IntRange | click.FloatRange):
        shown["metavar"] = "N" if isinstance(settings["type"], click.IntRange) else "X"
    return click.Option(names, **{**shown, **settings})


def under(heading: str, *options: click.Option) -> list[click.Option]:
    """Return the options, to be listed under a heading of an OpenCommand."""
    for option in options:
        option.heading = heading  # type: ignore[attr-defined]
    return list(options)


def quiet_option() -> click.Option:
    return plain_option("--quiet", is_flag=True, help="Show no progress bar.")


def which_option() -> click.Option:
    return plain_option(
        "--which", type=click.Choice(["best", "latest"]), help="Checkpoint of a run folder.",
        show_default="best if there is one",
    )  # fmt: skip


def require_run_folder(which: str | None, agent: Path | None) -> None:
    """Raise click.UsageError if --which does not go with the agent."""
    if which is not None and not (agent and agent.is_dir()):
        raise click.UsageError(f"--which {which} goes with a run folder: give one")


def stochastic_option() -> click.Option:
    return plain_option(
        "--stochastic/--greedy", default=None, show_default="--play of the training",
        help="Sample the policy's actions, as in training, or choose its likeliest.",
    )  # fmt: skip


def worker_options() -> list[click.Option]:
    """Return the options of commands whose workers play the episodes of an agent."""
    return [
        plain_option("--n-workers", type=PROCESSES, show_default="one a core",
                     help="Worker processes."),
        plain_option("--worker-timeout", type=SECONDS, default=60.0,
                     help="Seconds for which a worker may be silent, as in one long step."),
    ]  # fmt: skip


def env_options() -> list[click.Option]:
    several = plain_option(
        "--env-arg",
        "env_arg",
        type=PAIR,
        multiple=True,
        show_default="none",
        help="Argument of the environment, such as size=4; may be given again.",
    )
    return [*setting_options(TrainConfig, ["env"]), several]


def given_options() -> frozenset[str]:
    """Return the names of the options that the command line of the present command has."""
    ctx = click.get_current_context()
    typed = click.core.ParameterSource.COMMANDLINE
    return frozenset(name for name in ctx.params if ctx.get_parameter_source(name) is typed)


def usage_error(error: ConfigError, spelled: Callable[[str], str] = spelling) -> click.UsageError:
    """Return a field's error as that of the option to blame.

    spelled: a field of a config as the command's option.
    """
    hint = _blamed(error.field_name) if spelled is spelling else spelled(error.field_name)
    return click.BadParameter(error.told(spelled), param_hint=hint)


@contextlib.contextmanager
def blaming(spelled: Callable[[str], str]) -> Iterator[None]:
    """Make an error in this context name the user's option. spelled: a field's option."""
    try:
        yield
    except ConfigError as error:
        raise usage_error(error, spelled) from None


def _blamed(field_name: str) -> str:
    """Return the option to blame for a value: the preset, if the preset asks for the value."""
    options = click.get_current_context().params
    preset = preset_named(options.get("preset"))
    of_preset = {**preset, **preset.get("settings", {}), **preset.get("env_args", {})}
    if field_name in of_preset and field_name not in given_options():
        value = of_preset[field_name]
        return f"--preset {options['preset']} ({spelling(field_name)} {value})"
    is_pair = field_name in dict(options.get("setting", ()))
    return f"--setting {field_name}" if is_pair else spelling(field_name)


def given_settings(
    settings: type[Given], options: Mapping[str, Any], also: Collection[str] = ()
) -> Given:
    """Return settings that the command line asks for, with defaults for the others.

    also: names of options that count as given.
    """
    names = settings.model_fields.keys() & {*given_options(), *also} & options.keys()
    return settings(**{name: options[name] for name in names})
