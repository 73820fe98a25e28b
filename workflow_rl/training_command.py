"""The trainers' command line: options, the config they make, and one line for every error."""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click
from prettytable import PrettyTable, TableStyle

from agents.numpy_policy import ACTIVATIONS
from workflow_rl.scenario2 import RED_AGENTS

if TYPE_CHECKING:
    from workflow_rl.checkpoint import Checkpoint
    from workflow_rl.config import TrainConfig
    from workflow_rl.training import MakeCollect

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


class GroupedCommand(click.Command):
    """A command whose --help lists its options heading by heading."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        headings: dict[str, list[tuple[str, str]]] = {}
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            if record is not None:
                heading = getattr(parameter, "heading", "Other")
                headings.setdefault(heading, []).append(record)
        for heading, records in headings.items():
            with formatter.section(heading):
                formatter.write_dl(records)


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


POSITIVE = click.FloatRange(min=0, min_open=True)
NOT_NEGATIVE = click.FloatRange(min=0)
SHARE = click.FloatRange(0, 1)
COUNT = click.IntRange(min=1)


def _episode_options(option: Callable[..., Any]) -> list[Any]:
    return [
        option("--red-agent", type=click.Choice([*RED_AGENTS, "mixed"]), default="B_lineAgent",
               help="Who attacks. mixed draws one of the three for every episode."),
        option("--max-steps", type=COUNT, default=100,
               help="Steps after which an episode is truncated; the challenge scores 30, 50, 100."),
        option("--simulator", type=click.Choice(["cyborg", "cyborg-upstream"]), default="cyborg",
               help="cyborg is the csle-cyborg package, sped up without changing a bit; "
                    "cyborg-upstream is the official CybORG package, if installed."),
        option("--stock-simulator", is_flag=True,
               help="csle-cyborg without the speed-ups."),
    ]  # fmt: skip


def _worker_options(option: Callable[..., Any]) -> list[Any]:
    return [
        option("--n-envs", type=COUNT, default=8,
               help="Environments. Synchronous: they step together. Asynchronous: so many "
                    "episodes are handed out to the workers at a time."),
        option("--n-workers", type=COUNT, show_default="sync: one an env; async: one a core",
               help="Worker processes."),
        option("--envs-per-worker", type=COUNT, show_default="n_envs / n_workers",
               help="Environments a worker owns."),
        option("--worker-timeout", type=POSITIVE, default=60.0,
               help="Seconds within which a worker must answer; one that does not is replaced."),
        option("--max-worker-failures", type=click.IntRange(min=0), default=10,
               help="Workers that may fail and be replaced before the run stops."),
    ]  # fmt: skip


def _run_options(option: Callable[..., Any]) -> list[Any]:
    return [
        option("--total-episodes", type=COUNT, default=3000, help="Episodes of the whole run."),
        option("--episodes-per-update", type=COUNT,
               show_default="the multiple of n_envs that is at least 24",
               help="Episodes of one rollout: collected, then learned from."),
        option("--seed", type=click.IntRange(min=0), default=0,
               help="The same seed gives the same weights, whatever the number of workers."),
        option("--device", type=click.Choice(["auto", "cpu", "cuda"]), default="auto",
               help="Where the agent learns. auto is cuda if there is one."),
        option("--learner-threads", type=COUNT, default=1,
               help="CPU threads the agent learns with. Another number, other rounding."),
        option("--run-dir", type=click.Path(path_type=Path),
               show_default="runs/<time>-<mode>-<red agent>",
               help="Where the run is kept: a new or empty folder."),
        option("--resume", type=click.Path(path_type=Path), is_flag=False,
               flag_value=RESUME_RUN_DIR, metavar="[FOLDER]",
               help="Go on with the run in FOLDER (or in --run-dir) as if it had not stopped."),
        option("--checkpoint-every", type=COUNT, default=10,
               help="Updates between checkpoints."),
        option("--eval-every", type=click.IntRange(min=0), default=0,
               help="Updates between evaluations of the greedy policy; 0 is never."),
        option("--eval-episodes", type=COUNT, default=20, help="Episodes of such an evaluation."),
        option("--final-evaluation", type=click.IntRange(min=0), default=0,
               help="After training, run the official protocol with so many episodes a cell."),
        option("--quiet", is_flag=True, help="No progress bar."),
        option("--dry-run", is_flag=True, help="Print the run's config and stop."),
    ]  # fmt: skip


def _ppo_options(option: Callable[..., Any]) -> list[Any]:
    return [
        option("--hidden-sizes", type=LayerSizes(), default="64,64",
               help="Hidden layers of the actor and, separately, of the critic."),
        option("--activation", type=click.Choice(list(ACTIVATIONS)), default="tanh",
               help="Of the hidden layers."),
        option("--learning-rate", type=POSITIVE, default=1e-3, help="Adam's, at the start."),
        option("--learning-rate-final", type=NOT_NEGATIVE, default=0.0,
               help="At the end; it falls linearly with the episodes."),
        option("--discount", type=SHARE, default=0.99, help="Gamma."),
        option("--gae-lambda", type=SHARE, default=0.95,
               help="Lambda of generalised advantage estimation."),
        option("--clip-range", type=POSITIVE, default=0.2,
               help="How far from 1 the probability ratio is rewarded."),
        option("--epochs", type=COUNT, default=6, help="Passes over each rollout."),
        option("--minibatch-size", type=COUNT, default=800, help="Steps in a gradient step."),
        option("--entropy-coef", type=NOT_NEGATIVE, default=0.01,
               help="Weight of the entropy bonus."),
        option("--value-coef", type=NOT_NEGATIVE, default=0.5, help="Weight of the critic's loss."),
        option("--max-grad-norm", type=POSITIVE, default=0.5,
               help="Gradient norm above which it is clipped, for actor and critic each."),
        option("--normalise-advantage/--no-normalise-advantage", default=True,
               help="Within each minibatch."),
        option("--reward-scale", type=POSITIVE, default=1.0,
               help="Factor on the rewards the critic learns from."),
        option("--target-kl", type=POSITIVE, show_default="none",
               help="Stop an update's epochs once the KL divergence exceeds 1.5 times this."),
    ]  # fmt: skip


def training_options(command: Command) -> Command:
    """All options of a trainer, under their headings."""
    groups = {
        "Episodes": _episode_options,
        "Workers": _worker_options,
        "The run": _run_options,
        "PPO": _ppo_options,
    }
    decorators = []
    for heading, options in groups.items():
        decorators += options(_option_under(heading))
    for decorator in reversed(decorators):
        command = decorator(command)
    return command


def _option_under(heading: str) -> Callable[..., Any]:
    def option(*names: str, **settings: Any) -> Any:
        return click.option(*names, cls=GroupedOption, heading=heading, **settings)

    return option


def run_command(mode: str, make_collect: MakeCollect, options: dict[str, Any]) -> None:
    """What both trainers do with their options. Errors of the user end with exit code 2."""
    # Imported here, not above: --help and errors in the options should not wait for torch.
    from workflow_rl.checkpoint import CheckpointError
    from workflow_rl.config import ConfigError
    from workflow_rl.cyborg_env import CyborgEnv
    from workflow_rl.run_dir import RunDirError, new_run_path
    from workflow_rl.training import train
    from workflow_rl.worker_pool import StopRequested, TooManyFailuresError

    logging.basicConfig(format="%(levelname)s: %(message)s")
    try:
        resumed, run_path = None, options["run_dir"]
        if options["resume"] is not None:
            run_path, config, resumed = _resumed_run(mode, options)
        else:
            config = _new_config(mode, options)
            run_path = run_path or new_run_path(mode, config.red_agent)
        if config.simulator == "cyborg-upstream":
            CyborgEnv(simulator=config.simulator)  # Is it installed?
        if options["dry_run"]:
            click.echo(_describe(config))
            return
        summary = train(
            config, make_collect, run_path, resumed, _device(options["device"]), options["quiet"]
        )
    except ConfigError as error:
        raise click.BadParameter(str(error), param_hint=_spelling(error.field_name)) from None
    except (RunDirError, CheckpointError, ImportError) as error:
        raise click.UsageError(str(error)) from None
    except StopRequested as stop:
        click.echo(f"{stop}; go on with: --resume {run_path}", err=True)
        raise SystemExit(128 + stop.signal_number) from None
    except TooManyFailuresError as error:
        click.echo(
            f"Error: {error}\nA checkpoint is saved; go on with: --resume {run_path}", err=True
        )
        raise SystemExit(1) from None
    _report(run_path, summary)
    if options["final_evaluation"]:
        _evaluate(run_path, config, options)


def _new_config(mode: str, options: dict[str, Any]) -> TrainConfig:
    from agents.ppo import PPOConfig
    from workflow_rl.config import TrainConfig

    ppo_fields = {field.name for field in dataclasses.fields(PPOConfig)}
    fields = {field.name for field in dataclasses.fields(TrainConfig)} - {"mode", "ppo"}
    values = {name: options[name] for name in fields if name in options}
    values["simulator"] = _simulator(options)
    ppo = PPOConfig(**{name: options[name] for name in ppo_fields})
    return TrainConfig(mode=mode, ppo=ppo, **values)  # type: ignore[arg-type]


def _simulator(options: dict[str, Any]) -> str:
    if not options["stock_simulator"]:
        return str(options["simulator"])
    if options["simulator"] != "cyborg":
        raise click.UsageError(
            f"--stock-simulator goes with --simulator cyborg, not {options['simulator']}: "
            "only csle-cyborg is sped up"
        )
    return "cyborg-stock"


def _resumed_run(mode: str, options: dict[str, Any]) -> tuple[Path, TrainConfig, Checkpoint]:
    from workflow_rl.checkpoint import load_checkpoint
    from workflow_rl.config import FREE_ON_RESUME, TrainConfig

    run_path: Path = options["resume"]
    if str(run_path) == RESUME_RUN_DIR:
        if options["run_dir"] is None:
            raise click.UsageError("--resume needs a run folder: --resume FOLDER")
        run_path = options["run_dir"]
    elif options["run_dir"] not in (None, run_path):
        raise click.UsageError(
            f"--run-dir {options['run_dir']} is not the folder to resume, {run_path}: "
            "leave --run-dir out"
        )
    if run_path.is_file():
        raise click.UsageError(f"--resume {run_path} is a file: give the run's folder")
    checkpoint = load_checkpoint(run_path / "checkpoint.pt")
    before = checkpoint.config
    if before["mode"] != mode:
        raise click.UsageError(
            f"--resume {run_path} is a {before['mode']} run: resume it with train-{before['mode']}"
        )
    if checkpoint.training.episodes >= before["total_episodes"]:
        raise click.UsageError(
            f"--resume {run_path}: this run is finished, with all its "
            f"{before['total_episodes']} episodes"
        )
    given = _given_options(options)
    for name, value in given.items():
        kept = {**before, **before["ppo"]}[name]
        if name not in FREE_ON_RESUME and value != (
            tuple(kept) if name == "hidden_sizes" else kept
        ):
            raise click.UsageError(
                f"{_spelling(name)} is {value}, but the run in {run_path} has {kept}: "
                "leave it out, or start a new run"
            )
    changed = {name: value for name, value in given.items() if name in FREE_ON_RESUME}
    if changed.keys() & {"n_envs", "n_workers", "envs_per_worker"}:
        changed = {"n_workers": None, "envs_per_worker": None, **changed}
    return run_path, TrainConfig.from_dict({**before, **changed}), checkpoint


def _given_options(options: dict[str, Any]) -> dict[str, Any]:
    """Those config fields that were named on the command line."""
    context = click.get_current_context()
    not_config = {"run_dir", "resume", "quiet", "dry_run", "final_evaluation", "stock_simulator"}
    given = {
        name: value
        for name, value in options.items()
        if name not in not_config
        and context.get_parameter_source(name) is click.core.ParameterSource.COMMANDLINE
    }
    if "simulator" in given or options["stock_simulator"]:
        given["simulator"] = _simulator(options)
    return given


def _device(name: str) -> str:
    import torch

    if name == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    if name == "cuda" and not torch.cuda.is_available():
        raise click.UsageError("--device cuda: torch finds no CUDA device here; use --device cpu")
    return name


def _spelling(field_name: str) -> str:
    return "--" + field_name.replace("_", "-")


def _describe(config: TrainConfig) -> str:
    return "\n".join(f"{name}: {value}" for name, value in config.to_dict().items())


def _report(run_path: Path, summary: dict[str, Any]) -> None:
    table = PrettyTable(["", "collection", "whole run"], align="r")
    table.set_style(TableStyle.SINGLE_BORDER)
    table.align[""] = "l"
    collect, whole = summary["collect_seconds"], summary["wall_seconds"]
    table.add_row(["seconds", f"{collect:.1f}", f"{whole:.1f}"])
    table.add_row(
        [
            "episodes/s",
            f"{summary['episodes_per_second']:.2f}",
            f"{summary['episodes_per_second_run']:.2f}",
        ]
    )
    table.add_row(
        [
            "env steps/s",
            f"{summary['env_steps'] / collect:.0f}",
            f"{summary['env_steps'] / whole:.0f}",
        ]
    )
    table.add_row(
        [
            "worker utilisation",
            f"{summary['worker_utilisation']:.1%}",
            f"{summary['worker_utilisation_run']:.1%}",
        ]
    )
    click.echo(table)
    click.echo(
        f"{summary['episodes']} episodes in {summary['updates']} updates; mean return of the last "
        f"{min(summary['episodes'], 300)}: {summary['return_mean_last_300']:.1f}"
    )
    if summary["workers_restarted"]:
        click.echo(f"workers restarted: {summary['workers_restarted']}")
    click.echo(f"run folder:     {run_path}")
    for label, name in (
        ("learning curve:", "learning_curve.png"),
        ("best agent:    ", "best.pt"),
        ("last agent:    ", "checkpoint.pt"),
        ("metrics:       ", "metrics.csv"),
    ):
        click.echo(f"{label} {run_path / name}")
    click.echo(f"evaluate it:    workflow-rl evaluate {run_path}")


def _evaluate(run_path: Path, config: TrainConfig, options: dict[str, Any]) -> None:
    from workflow_rl.evaluation import evaluate

    arguments = [str(run_path), "--episodes", str(options["final_evaluation"])]
    arguments += ["--quiet"] if options["quiet"] else []
    evaluate.main(arguments, standalone_mode=False)
