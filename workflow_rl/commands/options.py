"""Options that are generated from the fields of settings, and the trainers' options in all."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import click
from pydantic.fields import FieldInfo

from agents.algorithm import find
from agents.settings import LARGEST_COUNT, OneOf, Settings
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
from workflow_rl.commands.types import POLICIES, AlgorithmName, LayerSizes, NetworkName
from workflow_rl.commands.types import POSITIVE as POSITIVE
from workflow_rl.commands.types import PROCESSES as PROCESSES
from workflow_rl.commands.types import SECONDS as SECONDS
from workflow_rl.commands.types import SEED as SEED
from workflow_rl.commands.types import SHARE as SHARE
from workflow_rl.commands.types import EnvArg as EnvArg
from workflow_rl.commands.types import FiniteRange as FiniteRange
from workflow_rl.commands.types import Range as Range
from workflow_rl.commands.types import UsablePath as UsablePath
from workflow_rl.commands.types import spelled as spelled
from workflow_rl.environments.environment import SETTINGS, guests
from workflow_rl.environments.guest import Guest
from workflow_rl.runs.config import TrainConfig

Option = Callable[..., Any]
"""Makes an option of its names and click's settings."""

RESUME_RUN_DIR = "the folder --run-dir names"
TRUST = "Import and call what the files name: you trust whoever made them."

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
_HEADINGS = {
    "workflow_rl/CAGE2-v0": "CAGE-2",
    "workflow_rl/OrderedCAGE2-v0": "CAGE-2 in an order (--env workflow_rl/OrderedCAGE2-v0)",
}

ALGORITHMS = {
    "ppo": "PPO",
    "sac": "SAC (--algorithm sac; networks, learning rate and rewards are set as for PPO)",
    "mbpo": "MBPO (--algorithm mbpo; all of SAC's as well)",
}
"""The algorithms whose settings are options, with their headings. --setting is for others."""
_MOST_USED = (
    *("preset", "env", "red_agent", "simulator", "n_envs", "total_episodes", "total_steps"),
    *("seed", "run_dir", "resume", "final_evaluation"),
)
_OVERLAP = (
    *("preset", "num_steps_per_env", "steps_per_update", "async_rl", "batching"),
    *("num_batches_to_accumulate", "when_full", "take_all"),
)
_WORKERS = (
    *("n_envs", "n_workers", "envs_per_worker", "cluster", "worker_timeout"),
    *("max_worker_failures", "slow_worker_ms", "slow_worker_share"),
)


def spelling(field_name: str) -> str:
    """Return a field of a config as an option."""
    return _SPELLED.get(field_name) or "--" + field_name.replace("_", "-")


def option_words(text: str) -> str:
    """Return a description or message of a config with the options' names for its fields'."""
    return re.sub(
        r"\b[a-z]+(_[a-z]+)+\b(?!\()",
        lambda word: spelling(word[0]) if word[0] in _known_names() else word[0],
        text,
    )


@functools.cache
def _known_names() -> set[str]:
    names = set(TrainConfig.model_fields)
    return names.union(*(find(name).settings.model_fields for name in ALGORITHMS))


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
                "help": option_words(field.description or ""),
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


def guest_options(option: Option) -> list[Any]:
    """Return the options of all guests, which stand for their arguments."""
    return [made for guest in guests.values() for made in _options_of_guest(guest, option)]


def _options_of_guest(guest: Guest, option: Option) -> list[Any]:
    """Return the options that no guest before this one has."""
    earlier = list(guests.values())[: list(guests).index(guest.env_id)]
    known = {name for one in earlier for name in option_names(one)}
    names = [name for name in guest.arguments().model_fields if name not in known]
    flags = [
        option(spelling(flag), is_flag=True, help=f"Stands for {_as_options(meant)}.")
        for flag, meant in guest.flags.items()
        if flag not in known
    ]
    return [*setting_options(guest.arguments(), option, names), *flags]


def option_names(guest: Guest | None) -> set[str]:
    """Return the names of a guest's arguments and flags."""
    return set() if guest is None else {*guest.arguments().model_fields, *guest.flags}


def _as_options(values: Mapping[str, Any]) -> str:
    return " ".join(f"{spelling(name)} {value}" for name, value in values.items())


def _run_options(option: Option) -> list[Any]:
    def of(*names: str) -> list[Any]:
        return setting_options(TrainConfig, option, names)

    return [
        *of("total_episodes", "total_steps", "episodes_per_update"),
        *of("min_episodes_per_update", "action_mask", "algorithm"),
        option("--setting", type=EnvArg(), multiple=True, metavar="NAME=VALUE",
               show_default="none",
               help="Setting of the algorithm, such as epochs=4; may be given again."),
        *of("seed"),
        option("--run-dir", type=PATH,
               show_default="runs/<time>-<mode>-<red agent or environment>",
               help="Folder of the run, which must be new or empty."),
        option("--resume", type=PATH, is_flag=False,
               flag_value=RESUME_RUN_DIR, metavar="[FOLDER]",
               help="Go on with the run in FOLDER (or in --run-dir) as if it had not stopped, or "
                    "past its end with a larger --total-episodes or --total-steps."),
        option("--trust", is_flag=True, help=f"With --resume. {TRUST}"),
        option("--init-from", type=PATH, metavar="RUN",
               help="Begin with the agent of a run folder or checkpoint (.pt). By default an agent "
                    "is untrained. A policy file (.npz), such as the champion's, has no critic."),
        *of("checkpoint_every", "keep_every", "eval_every", "eval_episodes"),
        option("--final-evaluation", type=click.IntRange(min=0), default=0,
               help="Episodes of an evaluation after training (CAGE-2: in each cell of the "
                    "official protocol)."),
        option("--n-policies", type=POLICIES, default=1,
               help="Policies that share the workers. Each learns as in a run of its own: the "
                    "first with --seed, the others with the seeds that follow."),
        *of("device", "learner_threads"),
        option("--trace", type=PATH, metavar="FILE",
               help="Record what every worker and the learner do when, in a file that Perfetto, "
                    "chrome://tracing and plot --timeline open. It ends with the first 50 MB."),
        option("--quiet", is_flag=True, help="Show no progress bar."),
        option("--dry-run", is_flag=True, help="Print the run's config and stop."),
    ]  # fmt: skip


def _algorithm_options(name: str, option: Option) -> list[Any]:
    """Return options for the settings that no algorithm before this one has."""
    earlier = list(ALGORITHMS)[: list(ALGORITHMS).index(name)]
    known = {field for one in earlier for field in find(one).settings.model_fields}
    fields = {n: f for n, f in find(name).settings.model_fields.items() if n not in known}
    shown = {
        n: f"CAGE-2: {_in_words(f.default)}; other environments: {_in_words(SETTINGS[n])}"
        for n, f in fields.items()
        if n in SETTINGS
    }
    return setting_options(find(name).settings, option, fields, shown)


def _in_words(default: Any) -> str:
    return {True: "on", False: "off"}[default] if isinstance(default, bool) else str(default)


def training_options(
    more: Mapping[str, Callable[[Option], list[Any]]] = {}, **defaults: Any
) -> list[click.Parameter]:
    """Return all options of a trainer, under their headings.

    more: further options by their headings. defaults: of some options by their fields.
    """
    groups: dict[str, Callable[[Option], list[Any]]] = {"Environment": env_options}
    for guest in guests.values():
        heading = _HEADINGS.get(guest.env_id, guest.env_id)
        groups[heading] = functools.partial(_options_of_guest, guest)
    groups |= {"The run": _run_options, **more}
    groups["Workers"] = lambda option: setting_options(TrainConfig, option, _WORKERS)
    groups["PPO"] = functools.partial(_algorithm_options, "ppo")
    groups["Collecting while learning"] = lambda option: setting_options(
        TrainConfig, option, _OVERLAP
    )
    for name in list(ALGORITHMS)[1:]:
        groups[ALGORITHMS[name]] = functools.partial(_algorithm_options, name)
    made = [
        one for heading, options in groups.items() for one in options(_grouped(heading, defaults))
    ]
    first = [one for name in _MOST_USED for one in made if one.name == name]
    return [*under("Most used", *first), *(one for one in made if one not in first)]


def _grouped(heading: str, defaults: Mapping[str, Any]) -> Option:
    def option(*names: str, **settings: Any) -> click.Option:
        name = names[0].partition("/")[0].lstrip("-").replace("-", "_")
        if name in defaults:
            settings["default"] = defaults[name]
        return under(heading, plain_option(*names, **settings))[0]

    return option


def given_options() -> frozenset[str]:
    """Return the names of the options that the command line of the present command has."""
    context = click.get_current_context()
    return frozenset(
        name
        for name in context.params
        if context.get_parameter_source(name) is click.core.ParameterSource.COMMANDLINE
    )


def chosen_env(options: dict[str, Any]) -> dict[str, Any]:
    """Return the fields env and env_args that the command line asks for.

    Raises click.UsageError for an option of an environment that is not this one.
    """
    env, args = options["env"], dict(options["env_arg"])
    require_own_options(env)
    guest = guests.get(env)
    if guest is None:
        return {"env": env, "env_args": args}
    chosen = guest_args(guest, options)
    if twice := given_options().intersection(args):
        raise click.UsageError(f"--env-arg {min(twice)} is given twice")
    return {"env": env, "env_args": {**chosen, **args}}


def guest_args(guest: Guest, options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of a guest that these options ask for. Raises click.UsageError."""
    fields, given = guest.arguments().model_fields, given_options()
    args = {name: options[name] for name in fields if name in options}
    for flag, meant in guest.flags.items():
        if not options.get(flag):
            continue
        for name, value in meant.items():
            if name in given and args.get(name) not in (fields[name].default, value):
                raise click.UsageError(
                    f"{spelling(flag)} stands for {spelling(name)} {value}, and {spelling(name)} "
                    f"{args[name]} is given too"
                )
            args[name] = value
    return args


def require_own_options(env: str) -> None:
    """Raise click.BadParameter if the command line has an option of another environment."""
    others = given_options() - option_names(guests.get(env))
    for guest in guests.values():
        for name in [*guest.arguments().model_fields, *guest.flags]:
            if name in others:
                raise click.BadParameter(
                    f"it is an option of {guest.env_id}, and --env is {env}: give the "
                    "environment's own arguments by --env-arg",
                    param_hint=spelling(name),
                )
