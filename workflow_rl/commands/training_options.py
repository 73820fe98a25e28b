"""The options of training commands, and the fields of a run's config that they give."""

from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import click
from pydantic.fields import FieldInfo

from workflow_rl.agents.algorithm import Algorithm, find
from workflow_rl.agents.settings import ForTeams, WithTeacher, is_marked
from workflow_rl.commands.options import (
    ALGORITHMS,
    FUNCTION,
    PAIR,
    POLICIES,
    SAVED,
    OutputFile,
    env_options,
    given_options,
    plain_option,
    quiet_option,
    setting_options,
    spelling,
    typed_algorithm,
    under,
)
from workflow_rl.commands.options_by_env import (
    HELP_ALL,
    Look,
    Named,
    OpenCommand,
    chosen_env,
    guest_options,
    named_env,
    named_field,
    named_here,
)
from workflow_rl.environments.environment import SETTINGS
from workflow_rl.environments.source import guests
from workflow_rl.errors import ConfigError
from workflow_rl.runs.config import Mode, TrainConfig
from workflow_rl.runs.resolve import OF_TEACHERS

_HELP = {"--help", "-h", HELP_ALL}
RESUME_RUN_DIR = "the folder --run-dir names"
_MOST_USED = (
    "preset", "env", "n_envs", "total_episodes", "total_steps",
    "seed", "run_dir", "resume", "final_evaluation",
)  # fmt: skip
_RARE = {
    "action_mask", "ignore_unknown", "curriculum", "learner_threads", "keep_every",
    "eval_episodes", "stop_at_return", "patience", "play", "n_policies", "trace",
    "envs_per_worker", "cluster", "worker_timeout", "max_worker_failures", "batching",
    "num_batches_to_accumulate", "when_full", "take_all", "activation", "reward_scale",
    "log_std_init", "normalise_obs", "normalise_returns", "learning_rate_final",
    "clip_range_final", "minibatches_of", "entropy_coef_final", "value_coef", "max_grad_norm",
    "normalise_advantage", "target_kl", "decoupled_clip", "correction", "max_policy_lag",
    "shared_trunk", "budgets", "reward_from",
}  # fmt: skip
"""Options that --help leaves out: few runs need them."""
_OVERLAP = (
    "num_steps_per_env", "steps_per_update", "async_rl", "batching",
    "num_batches_to_accumulate", "when_full", "take_all",
)  # fmt: skip
_WORKERS = (
    "n_workers", "envs_per_worker", "cluster", "worker_timeout",
    "max_worker_failures", "slow_worker_ms", "slow_worker_share",
)  # fmt: skip
_NOT_OF_RUN = {
    *_OVERLAP, *_WORKERS, *OF_TEACHERS, "mode", "env", "env_args", "settings",
    "min_episodes_per_update", "env_python",
}  # fmt: skip
"""Fields of a run's config whose options are elsewhere, or that have none."""


def _run_options() -> list[click.Option]:
    fields = TrainConfig.model_fields.items()
    of_run = [name for name, field in fields if name not in _NOT_OF_RUN and not field.exclude]
    return [
        *setting_options(TrainConfig, of_run),
        plain_option("--run-dir", type=SAVED,
            show_default="runs/<time>-<mode>-<red agent or environment>",
            help="Folder of the run, which must be new or empty."),
        plain_option("--resume", type=SAVED, is_flag=False,
            flag_value=RESUME_RUN_DIR, metavar="[FOLDER]",
            help="Continue the run in FOLDER (or in --run-dir) as if it had not stopped. With a "
                 "larger --total-episodes or --total-steps, continue past its end."),
        plain_option("--init-from", type=SAVED, metavar="RUN",
            help="Begin with the agent of a run folder or a checkpoint (.safetensors). By "
                 "default the agent is untrained. A policy file (.npz), such as the champion's, "
                 "cannot begin a run, because it has no critic."),
        plain_option("--final-evaluation", type=click.IntRange(min=0), default=0,
            help="Number of episodes of an evaluation after training (CAGE-2: in each cell of "
                 "the official protocol)."),
        plain_option("--n-policies", type=POLICIES, default=1,
            help="Number of policies that share the workers. Each policy learns as in a run of "
                 "its own: the first with --seed, the others with the seeds that follow."),
        plain_option("--on-update", type=FUNCTION, metavar="MODULE:FUNCTION",
            help="Call this function with a workflow_rl.Update after every update. See "
                 "docs/how-to/logging.md."),
        plain_option("--trace", type=OutputFile(".json"), metavar="FILE",
            help="Record a timeline of the learner and of every worker in FILE. Open FILE with "
                 "Perfetto, chrome://tracing or plot --timeline. Recording ends at 50 MB."),
        quiet_option(),
        plain_option("--dry-run", is_flag=True, help="Print the run's config and stop."),
    ]  # fmt: skip


def _algorithm_of(name: str, look: Look) -> Algorithm | None:
    """Return the algorithm. Return None for a name that is refused later, when all options are
    read. A module that is named only in a file is never imported."""
    try:
        return typed_algorithm(name) if name == look.values.get("algorithm") else find(name)
    except ConfigError:
        return None


def _algorithm_options(
    name: str, plug_in: Algorithm, look: Look, env_id: str, taken: Collection[str | None]
) -> list[click.Option]:
    """Return options for the settings of an algorithm.

    taken: names of existing options. A setting with such a name is given by `--setting` instead.
    """
    fields = plug_in.settings.model_fields
    names = [name for name in fields if name not in taken and _applies(fields[name], env_id)]
    of_env = {}
    if not look.typed or look.typed & _HELP:  # A guest's environment takes time to make.
        of_env = plug_in.replaced_by(_defaults_of(env_id))
    shown = {name: _in_words(of_env[name]) for name in names if name in of_env}
    made = setting_options(plug_in.settings, names, shown)
    for option in made:
        # The default network takes no arguments.
        if option.name == "network_args" and "--network" not in look.typed:
            option.hidden = True
        if is_marked(fields[str(option.name)], WithTeacher) and "teacher" not in look.values:
            option.hidden = True
    return under(ALGORITHMS.get(name, name), *made)


def _defaults_of(env_id: str) -> Mapping[str, Any]:
    if env_id not in guests:
        return SETTINGS
    guest = guests[env_id]
    return guest.make(guest.arguments().model_construct()).settings


def _applies(field: FieldInfo, env_id: str) -> bool:
    """Return whether a setting has a use. Environments that Gymnasium makes by id are no teams."""
    may_be_a_team = guests[env_id].is_team if env_id in guests else ":" in env_id
    return may_be_a_team or not is_marked(field, ForTeams)


def _in_words(default: Any) -> str:
    return {True: "on", False: "off"}[default] if isinstance(default, bool) else str(default)


def training_command(
    name: str,
    more: Sequence[click.Parameter] = (),
    without: Collection[str] = (),
    **defaults: Any,
) -> Callable[[Callable[..., None]], click.Command]:
    """Return a decorator that turns a function into a training command.

    The command has the options of every run, of the environment and of the algorithm.
    more: further options. without: names of options to leave out. defaults: of options, by name.
    """
    everywhere = [
        *under("Environment", *env_options(), *setting_options(TrainConfig, ["env_python"])),
        *under("The run", *_run_options()),
        *more,
        *under("Workers", *setting_options(TrainConfig, _WORKERS)),
        *under("Collecting while learning", *setting_options(TrainConfig, _OVERLAP)),
    ]
    made = [option for option in everywhere if option.name not in without]
    for option in made:
        option.default = defaults.get(str(option.name), option.default)
        if isinstance(option, click.Option) and option.name in _MOST_USED:
            under("Most used", option)
    taken = {option.name for option in made}

    def named(look: Look) -> Named:
        env_id = named_env(look)
        algorithm = named_field("algorithm", look) or "ppo"
        of_guest = guest_options(env_id)
        setting = plain_option(
            "--setting", type=PAIR, multiple=True, metavar="NAME=VALUE", show_default="none",
            hidden=algorithm in ALGORITHMS,  # These have an option for each setting.
            help="Setting of the algorithm, such as epochs=4; may be given again.",
        )  # fmt: skip
        lessons = setting_options(TrainConfig, OF_TEACHERS)
        for option in lessons:
            option.hidden = "teacher" not in look.values
        others = [*of_guest, *under("The run", setting, *lessons)]
        plug_in = _algorithm_of(algorithm, look)
        of_algorithm = []
        if plug_in is not None:
            names = taken | {option.name for option in of_guest}
            of_algorithm = _algorithm_options(algorithm, plug_in, look, env_id, names)
        settings = [str(option.name) for option in of_algorithm]
        return Named(env_id, [*others, *of_algorithm], algorithm, plug_in, settings)

    return click.command(name, cls=OpenCommand, params=made, named=named, rare=_RARE)


def new_config(mode: Mode, options: dict[str, Any]) -> TrainConfig:
    """Return the config of a new run with these options. Raises ConfigError, click.UsageError."""
    named = named_here()
    fields = asked_of_run(options)
    known = named.plug_in.settings.model_fields if named.plug_in else {}
    for name in sorted(fields["settings"].keys() - known.keys()):
        from workflow_rl.suggestions import question, word_meant  # Only an error needs it.

        meant = [spelling(known_name) for known_name in word_meant(name, known)]
        raise click.UsageError(
            f"--setting {name} is no setting of {named.algorithm}.{question(meant)}"
        )
    return TrainConfig(mode, **{**fields, "env": named.env}, known_plug_in=named.plug_in)


def asked_of_run(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a TrainConfig that the command line gives, and its `env_args` and
    `settings`. Raises click.UsageError for a value that is given twice."""
    given, pairs = given_options(), dict(options["setting"])
    settings = {name: options[name] for name in given & {*named_here().settings}}
    if twice := settings.keys() & pairs.keys():
        raise click.UsageError(f"--setting {min(twice)} is given twice")
    return {
        **{name: options[name] for name in given & TrainConfig.model_fields.keys()},
        "env_args": chosen_env(options)["env_args"],
        "settings": {**settings, **pairs},
    }


def path_to_resume(options: dict[str, Any]) -> Path:
    """Return the folder of the run to resume. Raises click.UsageError."""
    path: Path = options["resume"]
    if str(path) == RESUME_RUN_DIR:
        path = options["run_dir"]
        if path is None:
            raise click.UsageError("--resume needs a run folder: --resume FOLDER")
    if options["run_dir"] not in (None, path):
        raise click.UsageError(
            f"--run-dir {options['run_dir']} is not the folder to resume, {path}: leave it out"
        )
    if path.is_file():
        raise click.UsageError(f"--resume {path} is a file: give the run's folder")
    if options["init_from"] is not None:
        raise click.UsageError(
            f"--init-from {options['init_from']} does not go with --resume: a run goes on with its "
            "own agent"
        )
    return path
