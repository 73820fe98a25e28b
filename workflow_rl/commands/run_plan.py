"""Which runs a trainer's command asks for: new ones, or those that a folder holds."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import click

from workflow_rl.commands.options import (
    RESUME_RUN_DIR,
    chosen_env,
    given_options,
    guest_args,
    require_own_options,
    spelling,
)
from workflow_rl.environments.environment import guests
from workflow_rl.runs.bridge import OF_A_MODEL, MBPOConfig, PPOConfig
from workflow_rl.runs.config import SHARED, ConfigError, Mode, TrainConfig, default_ppo
from workflow_rl.runs.exchange import ExchangeConfig, drawn
from workflow_rl.runs.presets import PRESETS
from workflow_rl.runs.trust import trusted_config

if TYPE_CHECKING:
    from workflow_rl.runs.checkpoint import Checkpoint
    from workflow_rl.runs.population_dir import PopulationRecord


ExchangeOf: TypeAlias = Callable[[TrainConfig], ExchangeConfig]
"""How the policies of a new run learn from each other. Raises ConfigError."""


class Runs(NamedTuple):
    """One run, or the several of a population's policies: their configs, and the checkpoints that
    they go on from; None for those that begin. exchange: how they learn from each other. record:
    what the folder says of them, if they are resumed."""

    configs: list[TrainConfig]
    resumed: list[Checkpoint | None]
    exchange: ExchangeConfig | None = None
    record: PopulationRecord | None = None

    def folders(self, path: Path) -> list[Path]:
        """Where they are kept, of a run in `path`."""
        from workflow_rl.runs.population_dir import policy_folder

        if len(self.configs) == 1:
            return [path]
        return [policy_folder(path, number) for number in range(len(self.configs))]

    def record_in(self, path: Path) -> PopulationRecord | None:
        """What the folder says of several policies, made if they begin. Raises RunDirError."""
        from workflow_rl.runs.population_dir import (
            PopulationRecord,
            begin_population,
        )

        if len(self.configs) == 1 or self.record is not None:
            return self.record
        exchange = None if self.exchange is None else self.exchange.to_dict()
        record = PopulationRecord([config.to_dict() for config in self.configs], exchange)
        begin_population(path, record)
        return record


def new_runs(mode: Mode, options: dict[str, Any], exchange_of: ExchangeOf | None) -> Runs:
    """As many as --n-policies, each with a seed of its own. Raises ConfigError."""
    config = new_config(mode, options)
    n_policies = options["n_policies"]
    if n_policies > 1:
        require_shareable(config, n_policies)
    configs = [
        dataclasses.replace(config, seed=config.seed + number) for number in range(n_policies)
    ]
    exchange = None
    if exchange_of is not None:
        require_ppo(config)
        exchange = exchange_of(config)
        configs = [_with(one, drawn(exchange.ranges, one.seed)) for one in configs]
    return Runs(configs, [None] * n_policies, exchange)


def _with(config: TrainConfig, settings: Mapping[str, Any]) -> TrainConfig:
    return dataclasses.replace(config, ppo=dataclasses.replace(config.ppo, **settings))


def require_ppo(config: TrainConfig) -> None:
    """Raises ConfigError where settings that are looked for are not what its agent learns by."""
    if config.mbpo is not None:
        raise ConfigError(
            "algorithm",
            f"{config.algorithm} does not go with searches and populations: these vary "
            "PPO's settings",
        )


def require_shareable(config: TrainConfig, n_policies: int) -> None:
    """Raises ConfigError, naming what was typed, if policies like this cannot share workers."""
    several = (
        f"--n-policies {n_policies}" if "n_policies" in given_options() else "several policies"
    )
    if config.batching != "exact-lag":
        raise ConfigError(
            "batching",
            f"{config.batching} does not go with {several}: they share workers batch by batch, "
            "with exact-lag",
        )
    if config.num_steps_per_env is not None:
        raise ConfigError(
            "num_steps_per_env",
            f"{config.num_steps_per_env} does not go with {several}: they share envs from one "
            "complete episode to the next",
        )


def runs_to_resume(mode: Mode, run_path: Path, options: dict[str, Any], exchange: bool) -> Runs:
    """Those of the folder, with what the command line changes. Raises what a folder that cannot be
    resumed raises.

    exchange: whether they are to be a population's.
    """
    from workflow_rl.runs.checkpoint import Checkpoint, TrainingState
    from workflow_rl.runs.population_dir import is_population, policy_folder, read_population

    if not is_population(run_path):
        if exchange:
            raise click.UsageError(f"--resume {run_path} is not a population: see train-{mode}")
        _require_n_policies(options, run_path, 1)
        _require_no_member(run_path)
        checkpoint = _checkpoint_to_resume(mode, run_path)
        config = _own_config(checkpoint, run_path, options)
        changes = _changes(config, checkpoint, run_path, options)
        return Runs([dataclasses.replace(config, **changes)], [checkpoint])
    record = read_population(run_path)
    if (record.exchange is not None) != exchange:
        kind, command = "run of several policies", f"train-{record.configs[0]['mode']}"
        if record.exchange is not None:
            kind, command = "population", "train-population"
        raise click.UsageError(f"--resume {run_path} is a {kind}: resume it with {command}")
    _require_n_policies(options, run_path, len(record.configs))
    if record.exchange is not None:
        _require_same_exchange(options, run_path, record.exchange)
    folders = [policy_folder(run_path, number) for number in range(len(record.configs))]
    # A run can be stopped before all of its policies have begun.
    resumed = [
        _checkpoint_to_resume(mode, folder) if (folder / "checkpoint.pt").exists() else None
        for folder in folders
    ]
    states = [
        one or Checkpoint(config, {}, TrainingState())
        for one, config in zip(resumed, record.configs, strict=True)
    ]
    configs = [_own_config(one, run_path, options) for one in states]
    for folder, config in zip(folders, configs, strict=True):
        if (config.env, config.env_args) != (configs[0].env, configs[0].env_args):
            raise click.UsageError(
                f"--resume {run_path}: {folder.name} is of another environment than policy-0"
            )
    # One that diverged may have stayed behind.
    furthest = max(
        zip(configs, states, strict=True),
        key=lambda one: one[0].progress(one[1].training.episodes, one[1].training.env_steps),
    )
    changes = _changes(*furthest, run_path, options)
    return Runs(
        [dataclasses.replace(config, **changes) for config in configs],
        resumed,
        None if record.exchange is None else ExchangeConfig(**record.exchange),
        record,
    )


def _require_n_policies(options: dict[str, Any], run_path: Path, n_policies: int) -> None:
    if "n_policies" in given_options() and options["n_policies"] != n_policies:
        raise click.UsageError(
            f"--n-policies is {options['n_policies']}, but the run in {run_path} has {n_policies}: "
            "leave it out, or start a new run"
        )


def _require_same_exchange(
    options: dict[str, Any], run_path: Path, exchange: Mapping[str, Any]
) -> None:
    for name in sorted(given_options() & exchange.keys()):
        value = options[name]
        if name == "ranges":
            value = {of: list(ends) for of, ends in value}
        if value != exchange[name]:
            raise click.UsageError(
                f"{spelling(name)} is not what the population in {run_path} has, {exchange[name]}: "
                "leave it out, or start a new run"
            )


def _require_no_member(run_path: Path) -> None:
    """What it learned alone the others of its population could not."""
    from workflow_rl.runs.population_dir import is_population, read_population

    population = run_path.resolve().parent
    if is_population(population) and read_population(population).exchange is not None:
        raise click.UsageError(
            f"--resume {run_path} is one of a population: resume that, {run_path.parent}, with "
            "train-population"
        )


def new_config(mode: Mode, options: dict[str, Any]) -> TrainConfig:
    """That of a run with these options, in the context of their command. Raises ConfigError."""
    env = chosen_env(options)
    given = given_options()
    settings = dict(PRESETS.get(options["preset"], {}))
    if options["n_workers"] and options["envs_per_worker"]:
        settings["n_envs"] = options["n_workers"] * options["envs_per_worker"]
    settings |= {name: options[name] for name in given}
    of_config, of_ppo, of_mbpo = (
        {field.name for field in dataclasses.fields(config)}
        for config in (TrainConfig, PPOConfig, MBPOConfig)
    )
    values = {name: value for name, value in settings.items() if name in of_config - {"env"}}
    ppo = {name: value for name, value in settings.items() if name in of_ppo}
    mbpo = {name: value for name, value in settings.items() if name in of_mbpo}
    algorithm = settings.get("algorithm", "ppo")
    if mbpo and algorithm == "ppo":
        ppos = " (PPO has --minibatch-size)" if "batch_size" in mbpo else ""
        raise click.UsageError(f"{spelling(min(mbpo))} needs --algorithm sac or mbpo{ppos}")
    foreign = given & of_ppo - SHARED
    if foreign and algorithm != "ppo":
        raise click.UsageError(
            f"{spelling(min(foreign))} is PPO's: it does not go with {algorithm}"
        )
    if algorithm == "sac" and (without_effect := given & OF_A_MODEL):
        raise click.UsageError(
            f"{spelling(min(without_effect))} needs --algorithm mbpo: sac has no model"
        )
    environment = TrainConfig(mode, **env).environment
    try:
        chosen_ppo = default_ppo(environment, algorithm, ppo)
        if algorithm != "ppo":
            MBPOConfig(**mbpo)
            values["mbpo"] = mbpo
    except ValueError as error:
        name, _, problem = str(error).partition(" ")
        raise click.UsageError(f"{spelling(name)} {problem}") from None
    return TrainConfig(mode=mode, ppo=chosen_ppo, **env, **values)


def checkpoint_to_begin_with(path: Path) -> Checkpoint:
    from workflow_rl.runs.checkpoint import load_checkpoint, require_own_shape
    from workflow_rl.runs.saved_agent import saved_path

    checkpoint = load_checkpoint(saved_path(path))
    require_own_shape(checkpoint, path)
    return checkpoint


def path_to_resume(options: dict[str, Any]) -> Path:
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


def _checkpoint_to_resume(mode: Mode, run_path: Path) -> Checkpoint:
    from workflow_rl.runs.checkpoint import load_checkpoint, require_own_shape

    checkpoint = load_checkpoint(run_path / "checkpoint.pt")
    require_own_shape(checkpoint, run_path / "checkpoint.pt")
    its_mode = checkpoint.config.get("mode")
    if its_mode != mode:
        raise click.UsageError(
            f"--resume {run_path} is a {its_mode} run: resume it with train-{its_mode}"
        )
    return checkpoint


def _own_config(checkpoint: Checkpoint, run_path: Path, options: dict[str, Any]) -> TrainConfig:
    """That of the checkpoint, whose environment may be made."""
    try:
        config = TrainConfig.from_dict(checkpoint.config)
    except (KeyError, TypeError, ValueError, AttributeError):
        raise click.UsageError(
            f"--resume {run_path}: its config is not one of this version of the package"
        ) from None
    typed = "env" in given_options() and options["env"] == config.env
    typed = typed and _text(options["env_arg"]) == _text(config.env_args)
    try:
        return trusted_config(config, options["trust"] or typed, "cluster" in given_options())
    except ConfigError as error:
        raise click.UsageError(f"--resume {run_path}: {error.message}") from None


def _text(env_args: Any) -> str:
    """Arguments as JSON: in Python 1, 1.0 and True are equal."""
    return json.dumps(dict(env_args), sort_keys=True)


def _changes(
    config: TrainConfig, checkpoint: Checkpoint, run_path: Path, options: dict[str, Any]
) -> dict[str, Any]:
    """What the command line changes of a run's config."""
    from workflow_rl.runs.folder import is_finished

    state = checkpoint.training
    is_over = config.progress(state.episodes, state.env_steps) >= 1 and is_finished(run_path)
    changes: dict[str, Any] = {}
    for name, value in _given_on_command_line(config, options).items():
        before = _settings_of(config).get(name)
        goes_on = is_over and name in ("total_episodes", "total_steps")
        done = state.env_steps if name == "total_steps" else state.episodes
        if goes_on and before is not None and value != before and value <= done:
            raise click.UsageError(
                f"{spelling(name)} is {value}, but the run in {run_path} is finished, after "
                f"{done}: to go on, give more than that"
            )
        if name in config.free_on_resume or (goes_on and before is not None and value > before):
            changes[name] = value
        elif value != before:
            raise click.UsageError(
                f"{spelling(name)} is {value}, but the run in {run_path} has {before}: "
                "leave it out, or start a new run"
            )
    if is_over and not changes.keys() & {"total_episodes", "total_steps"}:
        raise click.UsageError(
            f"--resume {run_path}: this run is finished, with all its "
            f"{checkpoint.training.episodes} episodes; to go on, give a larger "
            f"{'--total-steps' if config.total_episodes is None else '--total-episodes'}"
        )
    return changed_workers(changes)


def changed_workers(changes: dict[str, Any]) -> dict[str, Any]:
    """The changes of a config, with what has to be chosen anew where they concern its workers."""
    if changes.keys() & {"n_envs", "n_workers", "envs_per_worker"}:
        return {"n_workers": None, "envs_per_worker": None, **changes}
    return changes


def _settings_of(config: TrainConfig) -> dict[str, Any]:
    values = config.to_dict()
    return {**values, **values["ppo"], **(values["mbpo"] or {})}


def _given_on_command_line(config: TrainConfig, options: dict[str, Any]) -> dict[str, Any]:
    """What the user named of the values in `config.to_dict()`."""
    fields = _settings_of(config).keys() | {field.name for field in dataclasses.fields(MBPOConfig)}
    given = {name: options[name] for name in given_options() & fields}
    require_own_options(config.env)
    env_args = dict(options["env_arg"])
    guest = guests.get(config.env)
    if guest is None:
        given |= {"env_args": {**config.env_args, **env_args}} if env_args else {}
    else:
        own = {name: options[name] for name in given_options()}
        given |= {**guest_args(guest, own), **env_args}
    return given
