"""The options of training commands."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any

import click
from pydantic.fields import FieldInfo

from workflow_rl.agents.algorithm import Algorithm, find
from workflow_rl.agents.settings import ConfigError, ForTeams, Settings
from workflow_rl.commands.guest_options import guest_options
from workflow_rl.commands.named import named_algorithm, named_env
from workflow_rl.commands.open_command import Look, Named, OpenCommand
from workflow_rl.commands.options import (
    ALGORITHMS,
    PATH,
    POLICIES,
    TRUST,
    EnvArg,
    Option,
    OutputFile,
    env_options,
    plain_option,
    setting_options,
    under,
)
from workflow_rl.commands.types import typed_algorithm
from workflow_rl.environments.environment import SETTINGS
from workflow_rl.environments.guests import guests
from workflow_rl.runs.config import TrainConfig

RESUME_RUN_DIR = "the folder --run-dir names"
_MOST_USED = (
    *("preset", "env", "n_envs", "total_episodes", "total_steps"),
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


def _run_options(option: Option) -> list[Any]:
    def of(*names: str) -> list[Any]:
        return setting_options(TrainConfig, option, names)

    return [
        *of("total_episodes", "total_steps", "episodes_per_update"),
        *of("min_episodes_per_update", "action_mask", "algorithm"),
        *of("seed"),
        option("--run-dir", type=PATH,
               show_default="runs/<time>-<mode>-<red agent or environment>",
               help="Folder of the run, which must be new or empty."),
        option("--resume", type=PATH, is_flag=False,
               flag_value=RESUME_RUN_DIR, metavar="[FOLDER]",
               help="Continue the run in FOLDER (or in --run-dir) as if it had not stopped. With a "
                    "larger --total-episodes or --total-steps, continue past its end."),
        option("--trust", is_flag=True, help=f"With --resume and --init-from. {TRUST}"),
        option("--init-from", type=PATH, metavar="RUN",
               help="Begin with the agent of a run folder or a checkpoint (.pt). By default the "
                    "agent is untrained. A policy file (.npz), such as the champion's, cannot "
                    "begin a run, because it has no critic."),
        *of("checkpoint_every", "keep_every", "eval_every", "eval_episodes"),
        option("--final-evaluation", type=click.IntRange(min=0), default=0,
               help="Number of episodes of an evaluation after training (CAGE-2: in each cell of "
                    "the official protocol)."),
        option("--n-policies", type=POLICIES, default=1,
               help="Number of policies that share the workers. Each policy learns as in a run of "
                    "its own: the first with --seed, the others with the seeds that follow."),
        *of("device", "learner_threads"),
        option("--trace", type=OutputFile(".json"), metavar="FILE",
               help="Record when every worker and the learner do what, in a file that Perfetto, "
                    "chrome://tracing and plot --timeline open. Recording ends "
                    "at 50 MB."),
        option("--quiet", is_flag=True, help="Show no progress bar."),
        option("--dry-run", is_flag=True, help="Print the run's config and stop."),
    ]  # fmt: skip


def _algorithm_of(name: str, look: Look) -> Algorithm | None:
    """Return the algorithm, or None for a name that is refused when all options are read.

    Imports nothing that only a file names.
    """
    try:
        return typed_algorithm(name) if name == look.values.get("algorithm") else find(name)
    except ConfigError:
        return None


def _algorithm_options(
    name: str, settings: type[Settings], look: Look, env_id: str, taken: Collection[str]
) -> list[click.Option]:
    """Return options for the settings of an algorithm.

    taken: names of other options. `--setting` gives settings of these names.
    """
    fields = settings.model_fields
    names = [name for name in fields if name not in taken and _applies(fields[name], env_id)]
    shown = {} if env_id in guests else {n: _in_words(SETTINGS[n]) for n in names if n in SETTINGS}
    heading = ALGORITHMS.get(name, name)
    made = setting_options(settings, plain_option, names, shown)
    for option in made:
        # The default network takes no arguments.
        if option.name == "network_args" and "--network" not in look.further:
            option.hidden = True
    return under(heading, *made)


def _applies(field: FieldInfo, env_id: str) -> bool:
    """Return whether a setting can mean something. What Gymnasium makes by its id is no team."""
    may_be_a_team = guests[env_id].is_team if env_id in guests else ":" in env_id
    return may_be_a_team or not any(isinstance(mark, ForTeams) for mark in field.metadata)


def _in_words(default: Any) -> str:
    return {True: "on", False: "off"}[default] if isinstance(default, bool) else str(default)


def training_command(
    name: str,
    more: Mapping[str, Callable[[Option], list[Any]]] = {},
    **defaults: Any,
) -> Callable[[Callable[..., None]], click.Command]:
    """Return what makes a training command of a function.

    Its options are those of every run, of the environment and of the algorithm.

    more: further options by their headings. defaults: of some options by their fields.
    """
    groups: dict[str, Callable[[Option], list[Any]]] = {"Environment": env_options}
    groups |= {"The run": _run_options, **more}
    groups["Workers"] = lambda option: setting_options(TrainConfig, option, _WORKERS)
    groups["Collecting while learning"] = lambda option: setting_options(
        TrainConfig, option, _OVERLAP
    )
    made = [
        option
        for heading, options in groups.items()
        for option in options(_grouped(heading, defaults))
    ]
    taken = {option.name for option in made}

    def named(look: Look) -> Named:
        env_id = named_env(look)
        own = guest_options(env_id)
        others = taken | {option.name for option in own}
        algorithm = named_algorithm(look)
        setting = plain_option(
            "--setting", type=EnvArg(), multiple=True, metavar="NAME=VALUE", show_default="none",
            hidden=algorithm in ALGORITHMS,  # It has an option for each setting.
            help="Setting of the algorithm, such as epochs=4; may be given again.",
        )  # fmt: skip
        options = [*own, *under("The run", setting)]
        plug_in = _algorithm_of(algorithm, look)
        if plug_in is not None:
            options += _algorithm_options(algorithm, plug_in.settings, look, env_id, others)
        return Named(env_id, options, algorithm, plug_in)

    return click.command(name, cls=OpenCommand, params=made, named=named)


def _grouped(heading: str, defaults: Mapping[str, Any]) -> Option:
    def option(*names: str, **settings: Any) -> click.Option:
        name = names[0].partition("/")[0].lstrip("-").replace("-", "_")
        if name in defaults:
            settings["default"] = defaults[name]
        return under(
            "Most used" if name in _MOST_USED else heading, plain_option(*names, **settings)
        )[0]

    return option
