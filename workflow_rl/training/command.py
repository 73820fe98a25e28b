"""What the trainers do with their options, and one line for every error of the user."""

from __future__ import annotations

import dataclasses
import logging
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from prettytable import PrettyTable, TableStyle

from agents.ppo_config import PPOConfig
from workflow_rl import portable
from workflow_rl.collection.environment import InvalidEnvironmentError, guests
from workflow_rl.collection.gymnasium_env import require_harmless
from workflow_rl.output_files import require_writable
from workflow_rl.training.config import ConfigError, Mode, TrainConfig, default_ppo
from workflow_rl.training.options import (
    RESUME_RUN_DIR,
    chosen_env,
    given_options,
    require_own_options,
    spelling,
)
from workflow_rl.training.presets import PRESETS

if TYPE_CHECKING:
    from workflow_rl.training.checkpoint import Checkpoint


def run_command(mode: Mode, options: dict[str, Any], choose: bool = True) -> None:
    """A trainer's whole command. Errors of the user end with exit code 2."""
    # Imported here, not above: --help and errors in the options should not wait for torch.
    from agents.ppo import DivergedError
    from workflow_rl.collection.rollout import NotFiniteError
    from workflow_rl.collection.workers import StopRequested, TooManyFailuresError
    from workflow_rl.training import best_agent
    from workflow_rl.training.checkpoint import CheckpointError
    from workflow_rl.training.learner import usable_device
    from workflow_rl.training.loop import stopped_by_signals, train
    from workflow_rl.training.run_dir import (
        DIVERGED_FILE,
        NotWrittenError,
        RunDirError,
        make_run_folder,
    )

    logging.basicConfig(format="%(levelname)s: %(message)s")
    resumed: Checkpoint | None = None
    init_from: Checkpoint | None = None
    try:
        if options["resume"] is None:
            config, run_path = new_config(mode, options), options["run_dir"]
            if options["init_from"] is not None:
                init_from = _checkpoint_to_begin_with(options["init_from"])
        else:
            run_path = _path_to_resume(options)
            resumed = _checkpoint_to_resume(mode, run_path)
            config = _resumed_config(resumed, run_path, options)
            require_harmless(config.environment)
        config = dataclasses.replace(config, device=usable_device(config.device))
        warn_if_results_vary(config)
        if options["dry_run"]:
            for name, value in config.to_dict().items():
                click.echo(f"{name}: {value}")
            return
        if options["final_evaluation"] and config.env in guests:
            # Raises what would otherwise show only after the training.
            guests[config.env].evaluation_arguments(config.env_args)
        if options["trace"] is not None and options["trace"].parent != options["run_dir"]:
            require_writable(options["trace"], "--trace")
        run_path = run_path or make_run_folder(mode, config.environment.label)
        summary = train(
            config,
            run_path,
            resumed,
            init_from,
            options["quiet"],
            options["trace"],
            watch=stopped_by_signals,
        )
    except ConfigError as error:
        raise click.BadParameter(error.message, param_hint=spelling(error.field_name)) from None
    except InvalidEnvironmentError as error:
        raise click.UsageError(f"--resume {run_path}: {error}") from None
    except (RunDirError, CheckpointError) as error:
        raise click.UsageError(str(error)) from None
    except StopRequested as stop:
        click.echo(f"{stop}; go on with: --resume {run_path}", err=True)
        raise SystemExit(128 + stop.signal_number) from None
    except (TooManyFailuresError, NotFiniteError) as error:
        click.echo(f"Error: {error}", err=True)
        click.echo(f"A checkpoint is saved; go on with: --resume {run_path}", err=True)
        raise SystemExit(1) from None
    except NotWrittenError as error:
        click.echo(f"Error: {error}", err=True)
        click.echo(f"The last checkpoint is kept; go on with: --resume {run_path}", err=True)
        raise SystemExit(1) from None
    except DivergedError as error:
        click.echo(f"Error: learning diverged: {error}", err=True)
        click.echo(
            f"The last checkpoint is kept, and the batch is in {run_path / DIVERGED_FILE}; "
            "begin again with a smaller --learning-rate, --reward-scale or --max-grad-norm, from "
            f"its weights with --init-from {run_path / 'checkpoint.pt'}",
            err=True,
        )
        raise SystemExit(1) from None
    chosen = best_agent.choose_best(run_path, config, summary, options["quiet"]) if choose else None
    if options["final_evaluation"]:
        _evaluate(run_path, config, options)
    _report(run_path, summary, chosen)
    if options["trace"] is not None:
        click.echo(f"draw the trace:  {_own_command()} plot --timeline {options['trace']}")


def warn_if_results_vary(config: TrainConfig) -> None:
    """Try processor and environment. Raises ConfigError if one of them cannot be used."""
    if not portable.is_native() and not portable.is_supported():
        raise ConfigError(
            "device",
            "this processor lacks AVX2 with FMA, which the same weights as elsewhere take: "
            f"{portable.NATIVE}=1 trains with what it has, for weights of its own",
        )
    if not portable.is_native() and (departures := portable.departures()):
        logging.getLogger(__name__).warning(
            "the weights may differ from another processor's: %s", "; ".join(departures)
        )
    try:
        difference = config.environment.check()
    except InvalidEnvironmentError as error:
        raise ConfigError(error.argument, str(error)) from None
    if difference is not None:
        logging.getLogger(__name__).warning(
            "%s is not determined by its seed: %s. Runs of it will vary, and so will one that is "
            "resumed or loses a worker",
            config.env,
            difference,
        )


def new_config(mode: Mode, options: dict[str, Any]) -> TrainConfig:
    """That of a run with these options, in the context of their command. Raises ConfigError."""
    env = chosen_env(options)
    given = given_options()
    settings = dict(PRESETS.get(options["preset"], {}))
    if options["n_workers"] and options["envs_per_worker"]:
        settings["n_envs"] = options["n_workers"] * options["envs_per_worker"]
    settings |= {name: options[name] for name in given}
    of_config, of_ppo = (
        {field.name for field in dataclasses.fields(config)} for config in (TrainConfig, PPOConfig)
    )
    values = {name: value for name, value in settings.items() if name in of_config - {"env"}}
    ppo = {name: value for name, value in settings.items() if name in of_ppo}
    environment = TrainConfig(mode, **env).environment
    try:
        chosen_ppo = default_ppo(environment, **ppo)
    except ValueError as error:
        name, _, problem = str(error).partition(" ")
        raise click.UsageError(f"{spelling(name)} {problem}") from None
    return TrainConfig(mode=mode, ppo=chosen_ppo, **env, **values)


def _checkpoint_to_begin_with(path: Path) -> Checkpoint:
    from workflow_rl.training.checkpoint import (
        checkpoint_path,
        load_checkpoint,
        require_own_shape,
    )

    checkpoint = load_checkpoint(checkpoint_path(path))
    require_own_shape(checkpoint, path)
    return checkpoint


def _path_to_resume(options: dict[str, Any]) -> Path:
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
    return path


def _checkpoint_to_resume(mode: Mode, run_path: Path) -> Checkpoint:
    from workflow_rl.training.checkpoint import load_checkpoint, require_own_shape

    checkpoint = load_checkpoint(run_path / "checkpoint.pt")
    require_own_shape(checkpoint, run_path / "checkpoint.pt")
    its_mode = checkpoint.config.get("mode")
    if its_mode != mode:
        raise click.UsageError(
            f"--resume {run_path} is a {its_mode} run: resume it with train-{its_mode}"
        )
    return checkpoint


def _resumed_config(checkpoint: Checkpoint, run_path: Path, options: dict[str, Any]) -> TrainConfig:
    """The run's own config, with what the command line changes of it."""
    try:
        config = TrainConfig.from_dict(checkpoint.config)
    except (KeyError, TypeError, ValueError, AttributeError):
        raise click.UsageError(
            f"--resume {run_path}: its config is not one of this version of the package"
        ) from None
    state = checkpoint.training
    is_finished = config.progress(state.episodes, state.env_steps) >= 1 and (
        (run_path / "summary.json").exists()
    )
    changes: dict[str, Any] = {}
    for name, value in _given_on_command_line(config, options).items():
        before = {**config.to_dict(), **config.to_dict()["ppo"]}.get(name)
        goes_on = is_finished and name in ("total_episodes", "total_steps")
        if name in config.free_on_resume or (goes_on and before is not None and value > before):
            changes[name] = value
        elif value != before:
            raise click.UsageError(
                f"{spelling(name)} is {value}, but the run in {run_path} has {before}: "
                "leave it out, or start a new run"
            )
    if is_finished and not changes.keys() & {"total_episodes", "total_steps"}:
        raise click.UsageError(
            f"--resume {run_path}: this run is finished, with all its "
            f"{checkpoint.training.episodes} episodes; to go on, give a larger "
            f"{'--total-steps' if config.total_episodes is None else '--total-episodes'}"
        )
    if changes.keys() & {"n_envs", "n_workers", "envs_per_worker"}:
        changes = {"n_workers": None, "envs_per_worker": None, **changes}
    return dataclasses.replace(config, **changes)


def _given_on_command_line(config: TrainConfig, options: dict[str, Any]) -> dict[str, Any]:
    """What the user named of the values in `config.to_dict()`."""
    fields = {*config.to_dict(), *config.to_dict()["ppo"]}
    given = {name: options[name] for name in given_options() & fields}
    require_own_options(config.env)
    env_args = dict(options["env_arg"])
    guest = guests.get(config.env)
    if guest is None:
        given |= {"env_args": {**config.env_args, **env_args}} if env_args else {}
    else:
        own = {name: options[name] for name in given_options() & set(guest.option_names)}
        given |= {**guest.chosen_args(own), **env_args}
    return given


def _report(run_path: Path, summary: dict[str, Any], chosen: str | None) -> None:
    table = PrettyTable(["", "collection", "whole run"], align="r")
    table.set_style(TableStyle.SINGLE_BORDER)
    table.align[""] = "l"
    both = (summary["collect_seconds"], summary["wall_seconds"])
    table.add_row(["seconds", *(f"{seconds:.1f}" for seconds in both)])
    table.add_row(["episodes/s", *(f"{summary['episodes'] / seconds:.1f}" for seconds in both)])
    table.add_row(["env steps/s", *(f"{summary['env_steps'] / seconds:.0f}" for seconds in both)])
    utilisations = (summary["worker_utilisation"], summary["worker_utilisation_run"])
    table.add_row(["worker utilisation", *(f"{share:.1%}" for share in utilisations)])
    click.echo(table)
    click.echo(
        f"{summary['episodes']} episodes, updates: {summary['updates']}; mean return of the last "
        f"{min(summary['episodes'], 300)}: {summary['return_mean_last_300']:.1f}"
    )
    if summary["workers_restarted"]:
        click.echo(f"workers restarted: {summary['workers_restarted']}")
    click.echo(f"run folder:      {run_path}")
    click.echo(f"learning curve:  {run_path / 'learning_curve.png'}")
    click.echo(f"best agent:      {run_path / 'best.pt'}{f' ({chosen})' if chosen else ''}")
    click.echo(f"last agent:      {run_path / 'checkpoint.pt'}")
    click.echo(f"metrics:         {run_path / 'metrics.csv'}, and TensorBoard events beside it")
    click.echo(f"evaluate it:     {_own_command()} evaluate {run_path}")


def _own_command() -> str:
    """How to call `workflow-rl` from here: installed or not, on the path or not."""
    if shutil.which("workflow-rl"):
        return "workflow-rl"
    python = Path(sys.executable)
    if python.is_relative_to(Path.cwd()):
        python = python.relative_to(Path.cwd())
    installed = python.with_name("workflow-rl")
    return str(installed) if installed.exists() else f"{python} -m workflow_rl.cli"


def _evaluate(run_path: Path, config: TrainConfig, options: dict[str, Any]) -> None:
    from workflow_rl.training.evaluation import evaluate

    arguments = [str(run_path), "--episodes", str(options["final_evaluation"])]
    if config.env in guests:
        arguments += guests[config.env].evaluation_arguments(config.env_args)
    if options["quiet"]:
        arguments.append("--quiet")
    evaluate.main(arguments, standalone_mode=False)
