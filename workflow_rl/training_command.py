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
from workflow_rl.config import ConfigError, Mode, TrainConfig
from workflow_rl.output_files import require_writable
from workflow_rl.presets import PRESETS
from workflow_rl.training_options import RESUME_RUN_DIR

if TYPE_CHECKING:
    from workflow_rl.checkpoint import Checkpoint
    from workflow_rl.training import MakeCollector


def run_command(mode: Mode, make_collector: MakeCollector, options: dict[str, Any]) -> None:
    """A trainer's whole command. Errors of the user end with exit code 2."""
    # Imported here, not above: --help and errors in the options should not wait for torch.
    from workflow_rl.checkpoint import CheckpointError
    from workflow_rl.run_dir import RunDirError, make_run_folder
    from workflow_rl.training import train, usable_device
    from workflow_rl.worker_pool import StopRequested, TooManyFailuresError

    logging.basicConfig(format="%(levelname)s: %(message)s")
    resumed: Checkpoint | None = None
    try:
        if options["resume"] is None:
            config, run_path = _new_config(mode, options), options["run_dir"]
        else:
            run_path = _path_to_resume(options)
            resumed = _unfinished_checkpoint(mode, run_path)
            config = _resumed_config(resumed, run_path, options)
        require_simulator(config.simulator)
        config = dataclasses.replace(config, device=usable_device(config.device))
        if options["dry_run"]:
            for name, value in config.to_dict().items():
                click.echo(f"{name}: {value}")
            return
        if options["trace"] is not None and options["trace"].parent != options["run_dir"]:
            require_writable(options["trace"], "--trace")
        run_path = run_path or make_run_folder(mode, config.red_agent)
        summary = train(
            config, make_collector, run_path, resumed, options["quiet"], options["trace"]
        )
    except ConfigError as error:
        raise click.BadParameter(str(error), param_hint=_spelling(error.field_name)) from None
    except (RunDirError, CheckpointError) as error:
        raise click.UsageError(str(error)) from None
    except StopRequested as stop:
        click.echo(f"{stop}; go on with: --resume {run_path}", err=True)
        raise SystemExit(128 + stop.signal_number) from None
    except TooManyFailuresError as error:
        click.echo(f"Error: {error}", err=True)
        click.echo(f"A checkpoint is saved; go on with: --resume {run_path}", err=True)
        raise SystemExit(1) from None
    if options["final_evaluation"]:
        _evaluate(run_path, config, options)
    _report(run_path, summary)
    if options["trace"] is not None:
        click.echo(f"draw the trace:  {_own_command()} plot --timeline {options['trace']}")


def _new_config(mode: Mode, options: dict[str, Any]) -> TrainConfig:
    def given(config: type[TrainConfig] | type[PPOConfig]) -> dict[str, Any]:
        names = {field.name for field in dataclasses.fields(config)}
        return {name: value for name, value in options.items() if name in names}

    options = {**options, **_preset_settings(options)}
    values = {**given(TrainConfig), "simulator": chosen_simulator(options)}
    return TrainConfig(mode=mode, ppo=PPOConfig(**given(PPOConfig)), **values)


def _preset_settings(options: dict[str, Any]) -> dict[str, Any]:
    """What follows from --preset and from --n-actors with --envs-per-actor, where the command line
    does not say otherwise."""
    settings = dict(PRESETS.get(options["preset"], {}))
    if options["n_workers"] and options["envs_per_worker"]:
        settings["n_envs"] = options["n_workers"] * options["envs_per_worker"]
    return {name: value for name, value in settings.items() if not _is_given(name)}


def _is_given(name: str) -> bool:
    source = click.get_current_context().get_parameter_source(name)
    return source is click.core.ParameterSource.COMMANDLINE


def chosen_simulator(options: dict[str, Any]) -> str:
    """What --simulator and --stock-simulator come to. Raises click.UsageError."""
    if not options["stock_simulator"]:
        return str(options["simulator"])
    if options["simulator"] != "cyborg":
        raise click.UsageError(
            f"--stock-simulator goes with --simulator cyborg, not {options['simulator']}: "
            "only csle-cyborg is sped up"
        )
    return "cyborg-stock"


def require_simulator(simulator: str) -> None:
    """Raises click.UsageError if the simulator is one that is not installed, or not as needed.

    Compiles the compiled one, so that the workers find it on disk.
    """
    from workflow_rl.cyborg_env import CyborgEnv

    if simulator in ("cyborg-upstream", "compiled"):
        try:
            env = CyborgEnv(max_steps=1, simulator=simulator)
            env.reset(seed=0)
            env.step(0)
        except (ImportError, RuntimeError) as error:
            raise click.UsageError(str(error)) from None


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


def _unfinished_checkpoint(mode: Mode, run_path: Path) -> Checkpoint:
    from workflow_rl.checkpoint import load_checkpoint

    checkpoint = load_checkpoint(run_path / "checkpoint.pt")
    its_mode = checkpoint.config.get("mode")
    if its_mode != mode:
        raise click.UsageError(
            f"--resume {run_path} is a {its_mode} run: resume it with train-{its_mode}"
        )
    if (run_path / "summary.json").exists():
        raise click.UsageError(
            f"--resume {run_path}: this run is finished, with all its "
            f"{checkpoint.training.episodes} episodes"
        )
    return checkpoint


def _resumed_config(checkpoint: Checkpoint, run_path: Path, options: dict[str, Any]) -> TrainConfig:
    """The run's own config, with what the command line changes of it."""
    try:
        config = TrainConfig.from_dict(checkpoint.config)
    except (KeyError, TypeError, ValueError):
        raise click.UsageError(
            f"--resume {run_path}: its config is not one of this version of the package"
        ) from None
    changes: dict[str, Any] = {}
    for name, value in _given_on_command_line(options).items():
        before = getattr(config.ppo if hasattr(config.ppo, name) else config, name)
        if name in config.free_on_resume:
            changes[name] = value
        elif value != before:
            raise click.UsageError(
                f"{_spelling(name)} is {value}, but the run in {run_path} has {before}: "
                "leave it out, or start a new run"
            )
    if changes.keys() & {"n_envs", "n_workers", "envs_per_worker"}:
        changes = {"n_workers": None, "envs_per_worker": None, **changes}
    return dataclasses.replace(config, **changes)


def _given_on_command_line(options: dict[str, Any]) -> dict[str, Any]:
    """Those fields of the config that are options the user named."""
    fields = dataclasses.fields(TrainConfig) + dataclasses.fields(PPOConfig)
    given = {field.name: options[field.name] for field in fields if _is_given(field.name)}
    if "simulator" in given or options["stock_simulator"]:
        given["simulator"] = chosen_simulator(options)
    return given


def _spelling(field_name: str) -> str:
    return "--" + field_name.replace("_", "-")


def _report(run_path: Path, summary: dict[str, Any]) -> None:
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
    click.echo(f"best agent:      {run_path / 'best.pt'}")
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
    from workflow_rl.evaluation import evaluate

    arguments = [str(run_path), "--episodes", str(options["final_evaluation"])]
    if config.simulator == "cyborg-stock":
        arguments.append("--stock-simulator")
    elif config.simulator == "cyborg-upstream":
        arguments += ["--simulator", config.simulator]
    if options["quiet"]:
        arguments.append("--quiet")
    evaluate.main(arguments, standalone_mode=False)
