"""The trainers' options: grouped, range-checked, with the defaults of the config they make."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import math
import re
import signal
import stat
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import click

from agents.policies.networks import ACTIVATIONS, NETWORKS
from workflow_rl.commands.suggestions import option_meant, question, word_meant
from workflow_rl.environments.environment import default_env, guests
from workflow_rl.environments.guest import Guest
from workflow_rl.environments.gymnasium_env import SETTINGS
from workflow_rl.runs.bridge import CORRECTIONS, MINIBATCHES_OF, MBPOConfig, PPOConfig
from workflow_rl.runs.config import (
    ALGORITHMS,
    BATCHINGS,
    DEVICES,
    LARGEST,
    WHEN_FULL,
    TrainConfig,
)
from workflow_rl.runs.presets import PRESETS

Command = TypeVar("Command", bound=Callable[..., Any])

RESUME_RUN_DIR = "the folder --run-dir names"


class GroupedOption(click.Option):
    """An option that --help lists under a heading."""

    def __init__(self, *args: Any, heading: str, **kwargs: Any) -> None:
        self.heading = heading
        kwargs.setdefault("show_default", True)
        if isinstance(kwargs.get("type"), click.IntRange | click.FloatRange):
            kwargs.setdefault("metavar", "N" if isinstance(kwargs["type"], click.IntRange) else "X")
        super().__init__(*args, **kwargs)


@contextlib.contextmanager
def one_line() -> Iterator[None]:
    """In here an error of the user is a single line, whatever they gave, and so is Ctrl-C."""
    try:
        yield
    except (KeyboardInterrupt, click.Abort):
        click.echo("\nstopped by SIGINT", err=True)
        raise SystemExit(128 + signal.SIGINT) from None
    except click.exceptions.NoArgsIsHelpError:
        raise  # It is the help.
    except click.NoSuchOption as error:
        options = [name for one in _parameters(error) for name in one.opts]
        meant = question(option_meant(error.option_name, options))
        typed = error.option_name.encode("unicode_escape").decode()
        raise click.UsageError(f"No such option '{typed}'.{meant}", error.ctx) from None
    except click.UsageError as error:
        message = error.format_message() + _choice_meant(error)
        words = " ".join(message.split())
        clear = printable(words)
        if clear == error.format_message():
            raise
        raise click.UsageError(clear, error.ctx) from None


def printable(value: Any) -> str:
    """A value from a file as text, without what would command a terminal."""
    text = str(value)
    return "".join(
        one if one.isprintable() else one.encode("unicode_escape").decode() for one in text
    )


def _parameters(error: click.UsageError) -> list[click.Parameter]:
    return [] if error.ctx is None else error.ctx.command.get_params(error.ctx)


def _choice_meant(error: click.UsageError) -> str:
    kind = getattr(getattr(error, "param", None), "type", None)
    typed = re.match("'(.*)' is not one of", error.message)
    if not isinstance(kind, click.Choice) or typed is None:
        return ""
    return question(word_meant(typed[1], [str(choice) for choice in kind.choices]))


class ClearCommand(click.Command):
    """A command whose errors are of one line each."""

    def make_context(self, *arguments: Any, **extra: Any) -> click.Context:
        """Click's."""
        with one_line():
            return super().make_context(*arguments, **extra)

    def invoke(self, ctx: click.Context) -> Any:
        """Click's."""
        with one_line():
            return super().invoke(ctx)


class GroupedCommand(ClearCommand):
    """A command whose --help lists its options heading by heading."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        headings: dict[str, list[tuple[str, str]]] = {}
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            if record is not None and isinstance(parameter, click.Option):
                heading = getattr(parameter, "heading", "Other")
                headings.setdefault(heading, []).append(record)
        for heading, records in headings.items():
            with formatter.section(heading):
                formatter.write_dl(records)


def under(heading: str, *options: click.Option) -> list[click.Option]:
    """The options, to be listed under a heading of a GroupedCommand."""
    for option in options:
        option.heading = heading  # type: ignore[attr-defined]
    return list(options)


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


class UsablePath(click.Path):
    """A path of a file or folder, there or not: one that the system can look up, and no pipe or
    device, which would be waited for."""

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


POSITIVE = FiniteRange(min=0, min_open=True)
NOT_NEGATIVE = FiniteRange(min=0)
SHARE = FiniteRange(0, 1)
SEED = click.IntRange(0, 2**63 - 1)
COUNT = click.IntRange(min=1)
EPISODES = click.IntRange(1, 1_000_000)
MOST_POLICIES = 1000
POLICIES = click.IntRange(1, MOST_POLICIES)
PROCESSES = click.IntRange(1, LARGEST["n_workers"])
SECONDS = FiniteRange(0, LARGEST["worker_timeout"], min_open=True)
PATH = UsablePath()
TRUST = "Import and call the environment that the files name: you trust whoever made them."


class EnvArg(click.ParamType):
    """key=value, as a pair; the value is read as JSON where it is JSON, and else is the text."""

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


class Range(click.ParamType):
    """NAME=SMALLEST:LARGEST, as a name in PPOConfig and a pair of numbers."""

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


def spelled(names: Sequence[str]) -> str:
    """Settings as on the command line."""
    return ", ".join(name.replace("_", "-") for name in names)


def env_options(option: Callable[..., Any]) -> list[Any]:
    """Which environment, and its arguments: those of every command that trains or plays."""
    return [
        option("--env", metavar="ID", default=default_env(),
               help="CAGE-2, or any Gymnasium environment: an id of Gymnasium's, module:ID, or "
                    "module:function, which returns one."),
        option("--env-arg", "env_arg", type=EnvArg(), multiple=True, show_default="none",
               help="Argument of the environment, such as size=4; may be given again."),
    ]  # fmt: skip


def guest_options(option: Callable[..., Any]) -> list[Any]:
    """The guests' own, which stand for their arguments."""
    from workflow_rl.cage2.env.options import training_options

    return training_options(option)


def _worker_options(option: Callable[..., Any]) -> list[Any]:
    return [
        option("--n-envs", type=COUNT,
               help="Environments. Synchronous: they step together. Asynchronous: so many "
                    "episodes are handed out to the workers at a time."),
        option("--n-workers", "--n-actors", "n_workers", type=COUNT,
               show_default="sync: one an env; async or compiled: one a core",
               help="Worker processes."),
        option("--envs-per-worker", "--envs-per-actor", "envs_per_worker", type=COUNT,
               show_default="n_envs / n_workers",
               help="Environments a worker owns."),
        option("--cluster", metavar="ADDRESS",
               help="Have the workers on a Ray cluster: local starts one on this machine, auto and "
                    "host:port join one that runs; none has none. See docs/how-to/cluster.md."),
        option("--worker-timeout", type=POSITIVE,
               help="Seconds within which a worker must answer; one that does not is replaced."),
        option("--max-worker-failures", type=click.IntRange(min=0),
               help="Workers that may fail and be replaced before the run stops. An episode that "
                    "always raises is left out, and counts once."),
        option("--slow-worker-ms", type=NOT_NEGATIVE,
               help="Milliseconds that a step takes longer in the slow workers: to see what "
                    "stragglers do. It changes no result."),
        option("--slow-worker-share", type=FiniteRange(0, 1, min_open=True),
               help="How many of the workers are slow ones."),
    ]  # fmt: skip


def _overlap_options(option: Callable[..., Any]) -> list[Any]:
    return [
        option("--preset", type=click.Choice(list(PRESETS)), show_default="none",
               help="The settings of a known system: see docs/explanations/modes.md. Other options "
                    "win."),
        option("--num-steps-per-env", type=COUNT, show_default="complete episodes",
               help="Steps of an unroll: envs are not reset in between."),
        option("--steps-per-update", type=COUNT,
               show_default="24 episodes' worth or 2048; first-come: one worker's",
               help="Steps of one rollout: of unrolls exactly, of complete episodes about so "
                    "many, by how long those before were."),
        option("--async-rl/--no-async-rl",
               help="Collect while learning. With the defaults below every batch is collected "
                    "with the weights of exactly one update ago, reproducibly."),
        option("--batching", type=click.Choice(BATCHINGS),
               help="exact-lag: with the weights of exactly --num-batches-to-accumulate updates "
                    "ago. whole-batches: the same share of every env, with the newest weights. "
                    "first-come: whatever arrives first, each piece with the newest weights. The "
                    "last two differ from run to run."),
        option("--num-batches-to-accumulate", type=COUNT,
               help="Batches that may wait for the learner."),
        option("--when-full", type=click.Choice(WHEN_FULL),
               help="When so many wait: wait pauses collecting, drop drops the oldest."),
        option("--take-all/--take-one",
               help="Learn from all batches that wait at once, or from one."),
    ]  # fmt: skip


def _run_options(option: Callable[..., Any]) -> list[Any]:
    return [
        option("--total-episodes", type=COUNT, show_default="CAGE-2: 3000",
               help="Episodes of the whole run."),
        option("--total-steps", type=COUNT, show_default="other environments: 100000",
               help="Env steps of the whole run, instead of episodes."),
        option("--episodes-per-update", type=COUNT,
               show_default="CAGE-2: the multiple of n_envs that is at least 24",
               help="Episodes of one rollout: collected, then learned from."),
        option("--algorithm", type=click.Choice(ALGORITHMS),
               help="ppo learns from each step of the newest policy. sac learns from all steps "
                    "there were, many times: for envs whose steps are dear. mbpo besides from a "
                    "model of them. See docs/explanations/mbpo.md."),
        option("--seed", type=SEED,
               help="The same seed gives the same weights, whatever the number of workers."),
        option("--run-dir", type=PATH,
               show_default="runs/<time>-<mode>-<red agent or environment>",
               help="Where the run is kept: a new or empty folder."),
        option("--resume", type=PATH, is_flag=False,
               flag_value=RESUME_RUN_DIR, metavar="[FOLDER]",
               help="Go on with the run in FOLDER (or in --run-dir) as if it had not stopped, or "
                    "past its end with a larger --total-episodes or --total-steps."),
        option("--trust", is_flag=True, help=f"With --resume. {TRUST}"),
        option("--init-from", type=PATH, metavar="RUN",
               help="Begin with the agent of a run folder or checkpoint (.pt), untrained "
                    "otherwise. A policy file (.npz), such as the champion's, has no critic."),
        option("--checkpoint-every", type=COUNT,
               help="Updates between checkpoints."),
        option("--keep-every", type=click.IntRange(min=0),
               help="Updates between checkpoints that are kept, in the folder kept; 0 keeps none."),
        option("--eval-every", type=click.IntRange(min=0),
               help="Updates between evaluations of the greedy policy, on episodes that evaluate "
                    "does not play; 0 is never."),
        option("--eval-episodes", type=COUNT, help="Episodes of such an evaluation."),
        option("--final-evaluation", type=click.IntRange(min=0), default=0,
               help="After training, evaluate with so many episodes (CAGE-2: in each cell of "
                    "the official protocol)."),
        option("--n-policies", type=POLICIES,
               help="Policies that share the workers, each as a run of its own would learn it: "
                    "the first with --seed, the others with the seeds that follow."),
        option("--device", type=click.Choice(DEVICES),
               help="Where the agent learns. auto is cuda if there is one."),
        option("--learner-threads", type=COUNT,
               help="CPU threads the agent learns with, half of them for the actor and half for "
                    "the critic. 1, 2 and 3 give the same results; more round otherwise."),
        option("--trace", type=PATH, metavar="FILE",
               help="Record what every worker and the learner do when, in a file that Perfetto, "
                    "chrome://tracing and plot --timeline open: of the run's beginning, if all of "
                    "it would be more than 50 MB."),
        option("--quiet", is_flag=True, help="No progress bar."),
        option("--dry-run", is_flag=True, help="Print the run's config and stop."),
    ]  # fmt: skip


def _ppo_options(option: Callable[..., Any]) -> list[Any]:
    return [
        option("--network", type=click.Choice(list(NETWORKS)), help="Kind of actor and critic."),
        option("--hidden-sizes", type=LayerSizes(),
               help="Hidden layers of the actor and, separately, of the critic."),
        option("--activation", type=click.Choice(list(ACTIVATIONS)),
               help="Of the hidden layers."),
        option("--log-std-init", type=FiniteRange(-10, 10),
               help="Log standard deviation of continuous actions, at the start."),
        option("--normalise-obs/--no-normalise-obs",
               help="By the running mean and deviation of all rollouts before."),
        option("--normalise-returns/--no-normalise-returns",
               help="Divide rewards by the running deviation of the discounted return."),
        option("--learning-rate", type=POSITIVE, help="Adam's, at the start."),
        option("--learning-rate-final", type=NOT_NEGATIVE,
               help="At the end; it falls linearly with the episodes, or steps."),
        option("--discount", type=SHARE, help="Gamma."),
        option("--gae-lambda", type=SHARE,
               help="Lambda of generalised advantage estimation."),
        option("--clip-range", type=POSITIVE,
               help="How far from 1 the probability ratio is rewarded."),
        option("--clip-range-final", type=NOT_NEGATIVE, show_default="the same",
               help="At the end."),
        option("--epochs", type=COUNT, help="Passes over each rollout."),
        option("--minibatch-size", type=COUNT, help="Steps in a gradient step."),
        option("--minibatches-of", type=click.Choice(MINIBATCHES_OF),
               help="Single steps, or whole observations with all their steps, which is faster "
                    "where observations repeat bit for bit, as CAGE-2's do."),
        option("--entropy-coef", type=NOT_NEGATIVE,
               help="Weight of the entropy bonus, at the start."),
        option("--entropy-coef-final", type=NOT_NEGATIVE, show_default="the same",
               help="At the end."),
        option("--value-coef", type=NOT_NEGATIVE, help="Weight of the critic's loss."),
        option("--max-grad-norm", type=POSITIVE,
               help="Gradient norm above which it is clipped, for actor and critic each."),
        option("--normalise-advantage/--no-normalise-advantage",
               help="Within each minibatch."),
        option("--reward-scale", type=POSITIVE,
               help="Factor on the rewards the critic learns from."),
        option("--target-kl", type=POSITIVE, show_default="none",
               help="Stop an update's epochs once the KL divergence exceeds 1.5 times this."),
        option("--decoupled-clip/--no-decoupled-clip",
               help="Clip around the policy at the start of an update, or around the one that "
                    "acted; the same without a policy lag."),
        option("--correction", type=click.Choice(CORRECTIONS),
               help="Of advantages and targets for steps that an older policy played."),
        option("--max-policy-lag", type=click.IntRange(min=0), show_default="any",
               help="Updates a step's policy may be behind; staler steps are left out."),
    ]  # fmt: skip


def _mbpo_options(option: Callable[..., Any]) -> list[Any]:
    return [
        option("--imagined-share", type=SHARE,
               help="mbpo: share of an agent's batch."),
        option("--rollout-length", type=COUNT, help="Imagined steps from a real one, at first."),
        option("--rollout-length-final", type=COUNT, help="At the run's end."),
        option("--imagined-rollouts", type=POSITIVE, help="Begun for each real step."),
        option("--imagined-updates", type=COUNT,
               help="Updates for which imagined steps are kept."),
        option("--start-steps", type=COUNT, help="Newest real steps that rollouts begin at."),
        option("--gradient-steps", type=POSITIVE, help="Of the agent, for each real step."),
        option("--batch-size", type=COUNT, help="Steps in each of them."),
        option("--warm-up-steps", type=click.IntRange(min=0),
               help="Real steps before anything is learned."),
        option("--target-rate", type=FiniteRange(0, 1, min_open=True),
               help="Polyak's, of the target critics."),
        option("--target-entropy", type=FiniteRange(), show_default="0.4; -1 for numbers",
               help="Of the policy, as a share of a uniform one's; nats for each number (Box)."),
        option("--replay-capacity", type=COUNT, help="Real steps that are remembered."),
        option("--model-members", type=COUNT, help="Models in the ensemble."),
        option("--model-elites", type=COUNT, help="The best of them, which imagine."),
        option("--model-hidden-sizes", type=LayerSizes(), help="Of each."),
        option("--model-learning-rate", type=POSITIVE, help="AdamW's."),
        option("--model-weight-decay", type=NOT_NEGATIVE, help="AdamW's."),
        option("--model-batch-size", type=COUNT, help="Steps in a model's gradient step."),
        option("--model-held-out", type=FiniteRange(0, 1, min_open=True, max_open=True),
               help="Share of the steps that judges the models."),
        option("--model-patience", type=COUNT,
               help="Epochs without an improvement after which a model is fitted."),
        option("--model-epochs", type=COUNT, help="After which it is at the latest."),
    ]  # fmt: skip


def training_options(command: Command) -> Command:
    """All options of a trainer, under their headings."""
    return training_options_and({})(command)


def training_options_and(
    more: Mapping[str, Callable[..., list[Any]]], **defaults: Any
) -> Callable[[Command], Command]:
    """Those of a trainer, with other defaults, and after the run's more under further headings."""
    groups = {
        "Environment": env_options,
        "CAGE-2": guest_options,
        "The run": _run_options,
        **more,
        "Workers": _worker_options,
        "PPO": _ppo_options,
        "Collecting while learning": _overlap_options,
        "SAC, MBPO (--algorithm; networks and learning rate are those above)": _mbpo_options,
    }

    def decorate(command: Command) -> Command:
        decorators = []
        for heading, options in groups.items():
            decorators += options(_option_under(heading, defaults))
        for decorator in reversed(decorators):
            command = decorator(command)
        return command

    return decorate


def _option_under(heading: str, own_defaults: Mapping[str, Any]) -> Callable[..., Any]:
    defaults = {
        field.name: field.default
        for config in (TrainConfig, PPOConfig, MBPOConfig)
        for field in dataclasses.fields(config)
        if field.default is not dataclasses.MISSING
    }
    defaults |= {"n_policies": 1, **own_defaults}

    def option(*names: str, **settings: Any) -> Any:
        field_name = names[0].partition("/")[0].lstrip("-").replace("-", "_")
        if field_name in defaults:
            settings.setdefault("default", defaults[field_name])
            if field_name in SETTINGS and defaults[field_name] is not None:
                own, others = _shown(defaults[field_name]), _shown(SETTINGS[field_name])
                settings["show_default"] = f"CAGE-2: {own}; other environments: {others}"
        return click.option(*names, cls=GroupedOption, heading=heading, **settings)

    return option


def plain_option(*names: str, **settings: Any) -> click.Option:
    """An option for the `params` of a command."""
    if isinstance(settings.get("type"), click.IntRange):
        settings.setdefault("metavar", "N")
    return click.Option(names, **{"show_default": True, **settings})


def _shown(default: Any) -> str:
    return {True: "on", False: "off"}[default] if isinstance(default, bool) else str(default)


def given_options() -> frozenset[str]:
    """The names of the options that are on the command line of the present command."""
    context = click.get_current_context()
    return frozenset(
        name
        for name in context.params
        if context.get_parameter_source(name) is click.core.ParameterSource.COMMANDLINE
    )


def chosen_env(options: dict[str, Any]) -> dict[str, Any]:
    """The fields env and env_args that the command line asks for. Raises click.UsageError where it
    has an option of an environment's that is not this one."""
    env, args = options["env"], dict(options["env_arg"])
    require_own_options(env)
    guest = guests.get(env)
    if guest is None:
        return {"env": env, "env_args": args}
    chosen = guest_args(guest, options)
    spelled = given_options().intersection(args)
    if spelled:
        raise click.UsageError(f"--env-arg {min(spelled)} is given twice")
    return {"env": env, "env_args": {**chosen, **args}}


def guest_args(guest: Guest, options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of a guest that these options ask for. Raise click.UsageError."""
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
    """Raises click.BadParameter where the command line has an option of another environment's."""
    given = given_options()
    for guest in guests.values():
        for name in [*guest.arguments().model_fields, *guest.flags]:
            if guest.env_id != env and name in given:
                raise click.BadParameter(
                    f"it is an option of {guest.env_id}, and --env is {env}: give the "
                    "environment's own arguments by --env-arg",
                    param_hint=spelling(name),
                )


def spelling(field_name: str) -> str:
    """A field of a config as an option."""
    if field_name == "env_args":
        return "--env-arg"
    if field_name == "ranges":
        return "--range"
    return "--" + field_name.replace("_", "-")
