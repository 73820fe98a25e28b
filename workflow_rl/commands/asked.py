"""What the present command line asks of a run, as plain values."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from workflow_rl.commands.guest_options import chosen_env, guest_args
from workflow_rl.commands.open_command import named_here
from workflow_rl.commands.options import given_options, spelling
from workflow_rl.commands.training_options import RESUME_RUN_DIR
from workflow_rl.environments.guests import guests
from workflow_rl.runs.config import ConfigError, Mode, TrainConfig
from workflow_rl.runs.presets import preset_named
from workflow_rl.runs.spec import Found
from workflow_rl.suggestions import question, word_meant


def new_config(mode: Mode, options: dict[str, Any]) -> TrainConfig:
    """Return the config of a new run with these options. Raises ConfigError, click.UsageError."""
    named, settings = named_here(), _settings(options)
    known = named.plug_in.settings.model_fields if named.plug_in else {}
    for name in sorted(settings.keys() - known.keys()):
        meant = [spelling(known_name) for known_name in word_meant(name, known)]
        raise click.UsageError(
            f"--setting {name} is no setting of {named.algorithm}.{question(meant)}"
        )
    found = Found(plug_in=named.plug_in)
    fields = {**chosen_env(options), **_fields(options)}
    return TrainConfig(mode, **fields, settings=settings, found=found)


def _spelled(name: str, options: dict[str, Any]) -> str:
    """Return how a field's option stands on the command line."""
    return f"--setting {name}" if name in dict(options.get("setting", ())) else spelling(name)


def asked_anew(options: dict[str, Any]) -> dict[str, Any]:
    """Return what the command line asks of a run to resume, as `plan.resumed_plan` takes it."""
    asked = {**_fields(options), **_settings(options)}
    given = {name: options[name] for name in given_options()}
    env = named_here().env
    if env in guests:
        asked |= guest_args(guests[env], given)
    if "env" in given:
        asked["env"] = options["env"]
    if "env_arg" in given:
        asked["env_args"] = dict(options["env_arg"])
    return asked


def _fields(options: dict[str, Any]) -> dict[str, Any]:
    """Return the fields of a TrainConfig that are on the command line, but for the environment."""
    names = given_options() & TrainConfig.model_fields.keys() - {"env"}
    return {name: options[name] for name in names}


def _settings(options: dict[str, Any]) -> dict[str, Any]:
    """Return the settings of an algorithm that are on the command line."""
    named = named_here()
    # Only the resumed run may name the algorithm: then `resumed_plan` decides.
    own = {*named.plug_in.settings.model_fields} if named.plug_in else set()
    of_guest = {*guests[named.env].arguments().model_fields} if named.env in guests else set()
    taken = {option.name for option in click.get_current_context().command.params}
    names = given_options() & own - taken - of_guest
    given = {name: options[name] for name in names}
    if twice := given.keys() & dict(options["setting"]).keys():
        raise click.UsageError(f"--setting {min(twice)} is given twice")
    return {**given, **dict(options["setting"])}


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


def typed(error: ConfigError, options: dict[str, Any]) -> str:
    """Return the option to blame for an error: the preset, if the preset asks for the value."""
    name, preset = error.field_name, options.get("preset")
    its = preset_named(preset)
    its = {**its, **its.get("settings", {}), **its.get("env_args", {})}
    if name in its and name not in given_options():
        return f"--preset {preset} ({spelling(name)} {its[name]})"
    return _spelled(name, options)
