"""Plan how to resume a run that was stopped, or to extend a finished run."""

import dataclasses
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from workflow_rl.agents.algorithm import Algorithm
from workflow_rl.environments.named_by_file import TRUST_IT, foreign_in, is_plain
from workflow_rl.environments.source import (
    environment_of,
    guests,
    interpreter,
    make_environment,
    played_by,
)
from workflow_rl.errors import ConfigError, UserError
from workflow_rl.runs.checkpoint import LATEST, Checkpoint
from workflow_rl.runs.config import Resume, TrainConfig, flattened
from workflow_rl.runs.execute import Plan
from workflow_rl.runs.folder import is_finished, population_of, population_record
from workflow_rl.runs.read_checkpoint import load_checkpoint, own_config, own_settings
from workflow_rl.runs.resolve import OF_WORKERS
from workflow_rl.runs.signature import changed, made_here
from workflow_rl.runs.training_state import TrainingState
from workflow_rl.terminal import in_short


def resumed_plan(path: Path, asked: Mapping[str, Any], plug_in: Algorithm | None = None) -> Plan:
    """Return the plan for resuming the run in `path`.

    Args:
        asked: new values of fields of a TrainConfig. They may include some of the environment's
            arguments and some settings.
        plug_in: the algorithm, if it is known.

    Raises UserError, and ConfigError if the new values would make another run.
    """
    record = population_record(path)
    if record is None:
        require_no_member(path)
        checkpoint = load_checkpoint(path / LATEST)
        configs, over = _resumed_configs([checkpoint], path, asked, plug_in)
        return Plan(configs, [checkpoint], over=over)
    from workflow_rl.runs.several_policies import ExchangeConfig, require_same_end

    folders = record.folders(path)
    # A run can be stopped before all its policies have begun.
    resumed = [
        load_checkpoint(folder / LATEST) if (folder / LATEST).exists() else None
        for folder in folders
    ]
    states = [
        checkpoint or Checkpoint(config, {}, TrainingState())
        for checkpoint, config in zip(resumed, record.configs, strict=True)
    ]
    configs, over = _resumed_configs(states, path, asked, plug_in)
    for folder, config in zip(folders, configs, strict=True):
        if (config.env, config.env_args) != (configs[0].env, configs[0].env_args):
            raise UserError(f"{path}: {folder.name} is of another environment than policy-0")
    exchange = None if record.exchange is None else ExchangeConfig(**record.exchange)
    if exchange is not None:
        require_same_end(configs[0])
    return Plan(configs, resumed, exchange, record, over)


def checkpoint_to_resume(path: Path, config: TrainConfig) -> Checkpoint:
    """Return the checkpoint from which the run in `path` goes on. config: the new config.

    Raises UserError if the checkpoint is unusable, and ConfigError if the config is another run's.
    """
    require_no_member(path)
    checkpoint = load_checkpoint(path / LATEST)
    own_settings(checkpoint, path)  # Raises UserError for wrong classes.
    changes_on_resume(own_config(checkpoint, path).to_dict(), config.to_dict())
    return checkpoint


def _resumed_configs(
    checkpoints: Sequence[Checkpoint],
    path: Path,
    asked: Mapping[str, Any],
    plug_in: Algorithm | None,
) -> tuple[list[TrainConfig], ConfigError | None]:
    """Return the configs of a run. If the run is finished, also return why there is nothing to do,
    otherwise None. Raises ConfigError."""
    # A policy that diverged may have fewer steps than others.
    last = max(checkpoints, key=lambda checkpoint: _end(checkpoint)[1])
    over = _over(last, path, asked)
    saved = [checkpoint.config for checkpoint in checkpoints]
    configs = [_resumed_config(config, path, asked, plug_in) for config in saved]
    plays_otherwise = configs[0].play != last.config["play"]
    return configs, None if plays_otherwise else over


def _resumed_config(
    saved: Mapping[str, Any], path: Path, asked: Mapping[str, Any], plug_in: Algorithm | None
) -> TrainConfig:
    """Return the config of the resumed run. Its environment may be made.

    Raises UserError for a saved config that cannot be used, and ConfigError for wrong new values.
    """
    names = {*asked, *asked.get("env_args", {}), *asked.get("settings", {})}
    environment = None
    try:
        args, others = TrainConfig.parts(saved)
        python, is_own = asked.get("env_python"), made_here(saved)
        is_named = is_own or _names_environment(asked, saved, args)
        changes = changes_on_resume(saved, _by_name(saved["env"], args, asked))
        by_file = {**others, "env_args": args, "make_env": None, "named_by_file": not is_named}
        made = environment_of(by_file)
        environment = played_by(made, interpreter(python) if python else python)
        teacher = saved["teacher"]
        # The user's signature on the resumed run must not cover a stranger's teacher.
        if not (is_own or is_plain(teacher) or teacher == asked.get("teacher")):
            named = f"only the file mentions the agent {teacher!s:.200}"
            raise ConfigError("teacher", f"{named}: {TRUST_IT}")
        saved = changed(saved, **changes)
        return TrainConfig.to_train(saved, environment, plug_in, "cluster" in asked)
    except ConfigError as error:
        if environment is None or error.field_name in names:
            raise
        raise UserError(f"{path}: its config cannot be used: {error}") from None
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise UserError(f"{path}: its config cannot be read: {str(error)[:300]}") from None


def _names_environment(
    asked: Mapping[str, Any], saved: Mapping[str, Any], args: Mapping[str, Any]
) -> bool:
    """Return whether the user repeats the names in a file: the environment with all arguments, and
    the interpreter if the file has one. For a guest, only foreign names must be repeated."""
    env = saved["env"]
    if env in guests:
        made: Any = make_environment(env, args, named_by_file=True)
        defaults = make_environment(env, {}).args
        given = {*asked, *asked.get("env_args", {})}
        typed = {name: value for name, value in defaults.items() if name in given}
        return not foreign_in(made) or not foreign_in(dataclasses.replace(made, **typed))
    # The values are compared as JSON, because in Python 1, 1.0 and True are equal.
    typed_text = json.dumps([asked.get("env"), asked.get("env_args", {})], sort_keys=True)
    is_named = typed_text == json.dumps([env, args], sort_keys=True)
    return is_named and (asked.get("env_python") is not None or not saved["env_python"])


def _by_name(env: str, args: Mapping[str, Any], asked: Mapping[str, Any]) -> dict[str, Any]:
    """Return new values in the form of `TrainConfig.to_dict`. args: the environment's arguments."""
    others, given = {**asked}, asked.get("env_args", {})
    others.pop("env_args", None)
    return {**others, **(given if env in guests else {"env_args": {**args, **given}})}


def require_no_member(path: Path) -> None:
    """Refuse to resume one member: a population is resumed as a whole. Raises UserError."""
    above = population_of(path)
    record = None if above is None else population_record(above)
    if record is not None and record.exchange is not None:
        raise UserError(
            f"{path} is one of a population, which is resumed as a whole: {path.parent}, with "
            "train-population"
        )


def _end(checkpoint: Checkpoint) -> tuple[str, int]:
    """Return the field that decides a run's end, and the steps or episodes so far."""
    training, in_steps = checkpoint.training, checkpoint.config.get("total_episodes") is None
    return (
        ("total_steps", training.env_steps) if in_steps else ("total_episodes", training.episodes)
    )


def _over(checkpoint: Checkpoint, path: Path, asked: Mapping[str, Any]) -> ConfigError | None:
    """Return why there is nothing to do for a finished run without a later end, or None. Raises
    ConfigError for an end that the run has passed."""
    name, done = _end(checkpoint)
    total, value = checkpoint.config.get(name), asked.get(name)
    if not isinstance(total, int) or done < total or not is_finished(path):
        return None
    if value in (None, total):
        unit = name.removeprefix("total_")
        why = f"the run in {path} is finished, with all its {done} {unit}: to go on, give a larger "
        return ConfigError(name, why, name, "")
    if value > done:
        return None
    why = f"{value}, but the run in {path} is finished, after {done}: to go on, give more than"
    raise ConfigError(name, f"{why} that")


def free_on_resume(saved: Mapping[str, Any]) -> frozenset[str]:
    """Return the fields of a resumed run that may get any new value.

    `n_envs` is included if rollouts are of complete episodes, because unrolls depend on `n_envs`.

    saved: the result of `TrainConfig.to_dict`.
    """
    free = {Resume.FREE}
    if saved["num_steps_per_env"] is None:
        free.add(Resume.FREE_WITH_EPISODES)
    return frozenset(name for name in TrainConfig.model_fields if _kind_of(name) in free)


def changes_on_resume(saved: Mapping[str, Any], asked: Mapping[str, Any]) -> dict[str, Any]:
    """Return the new values of a resumed run's fields.

    A new number of envs or workers determines the other numbers of OF_WORKERS.

    Args:
        saved: the run's saved config, a result of `TrainConfig.to_dict`.
        asked: new values of some fields, settings and arguments, named as in `to_dict`.

    Raises ConfigError if a new value would make another run.
    """
    before, free = flattened(saved), free_on_resume(saved)
    for name, value in flattened({"settings": {}, **asked}).items():
        value, was = json.loads(json.dumps(value)), before.get(name)
        if value == was or name in free or _is_later(name, value, was):
            continue
        if name not in before:
            of_run = f"{saved['env']} with {saved['algorithm']}"
            raise ConfigError(name, f"{value}: the run to resume, on {of_run}, has no such setting")
        has = "none" if was is None else in_short(was)
        raise ConfigError(
            name,
            f"{in_short(value)}, but the run to resume has {has}: leave it out, or start a new run",
        )
    changes = {name: value for name, value in asked.items() if _kind_of(name) is not None}
    rest = OF_WORKERS[1:] if changes.keys() & set(OF_WORKERS) else ()
    return {**dict.fromkeys(rest), **changes}


def _is_later(name: str, value: Any, was: Any) -> bool:
    return _kind_of(name) is Resume.LATER and None not in (value, was) and bool(value >= was)


def _kind_of(name: str) -> Resume | None:
    field = TrainConfig.model_fields.get(name)
    marks = () if field is None else field.metadata
    return next((mark for mark in marks if isinstance(mark, Resume)), None)
