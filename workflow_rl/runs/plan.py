"""Plan what is trained: one policy, or several that share workers, new or resumed."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from workflow_rl.environments.guests import guests
from workflow_rl.runs.checkpoint import Checkpoint, TrainingState, load_checkpoint
from workflow_rl.runs.config import ConfigError, TrainConfig
from workflow_rl.runs.folder import RunDirError, is_finished
from workflow_rl.runs.resume import require_same_run, resumed_config
from workflow_rl.runs.trust import trusted_config

if TYPE_CHECKING:
    # What several policies need is imported for them alone.
    from workflow_rl.runs.exchange import ExchangeConfig
    from workflow_rl.runs.population_dir import PopulationRecord


@dataclass(frozen=True)
class Plan:
    """One run, or several policies of one run.

    configs: of each policy. resumed: the checkpoint that each policy goes on from, or None for a
    policy that begins. exchange: how the policies learn from each other, or None. record: what the
    folder of several policies says, if it has been written.
    """

    configs: Sequence[TrainConfig]
    resumed: Sequence[Checkpoint | None]
    exchange: ExchangeConfig | None = None
    record: PopulationRecord | None = None

    def folders(self, path: Path) -> list[Path]:
        """Return where the policies of a run in `path` are kept."""
        if len(self.configs) == 1 and self.record is None:
            return [path]
        from workflow_rl.runs.population_dir import policy_folder

        return [policy_folder(path, number) for number in range(len(self.configs))]

    def changed(self, **changes: Any) -> Plan:
        """Return the plan with other values in all configs."""
        return replace(self, configs=[config.changed(**changes) for config in self.configs])


def new_plan(
    config: TrainConfig, n_policies: int = 1, exchange: ExchangeConfig | None = None
) -> Plan:
    """Return the plan of new runs, each with a seed of its own. Raises ConfigError.

    exchange: how the policies of a population learn from each other. Each begins with settings
    drawn from the exchange's ranges.
    """
    if n_policies > 1:
        require_shareable(config)
    configs = [config.changed(seed=config.seed + number) for number in range(n_policies)]
    if exchange is not None:
        from workflow_rl.runs.exchange import drawn

        require_variable(config)
        configs = [
            one.changed(settings=one.settings.changed(**drawn(exchange.ranges, one.seed)))
            for one in configs
        ]
    return Plan(configs, [None] * n_policies, exchange)


def require_variable(config: TrainConfig) -> None:
    """Raise ConfigError if the algorithm lacks settings that searches and populations vary."""
    from workflow_rl.runs.exchange import VARIABLE

    missing = [name for name in VARIABLE if name not in type(config.settings).model_fields]
    if missing:
        raise ConfigError(
            "algorithm",
            f"{config.algorithm} does not go with searches and populations: it has no "
            f"{', '.join(missing)}",
        )


def require_shareable(config: TrainConfig) -> None:
    """Raise ConfigError if several policies like this cannot share workers."""
    if config.batching != "exact-lag":
        raise ConfigError(
            "batching",
            f"{config.batching} does not go with several policies: they share workers batch by "
            "batch, with exact-lag",
        )
    if config.num_steps_per_env is not None:
        raise ConfigError(
            "num_steps_per_env",
            f"{config.num_steps_per_env} does not go with several policies: they share envs from "
            "one complete episode to the next",
        )


def resumed_plan(
    path: Path,
    asked: Mapping[str, Any],
    *,
    trust: bool = False,
    names_cluster: bool = False,
) -> Plan:
    """Return the plan with which the run in `path` goes on.

    Args:
        path: a run's folder, of one policy or of several.
        asked: what is asked for anew, as `resume.require_same_run` takes it, and "env" and
            "env_args" where the user names the environment.
        trust: whether the environment may be made that only the files name.
        names_cluster: whether the user names the cluster.

    Raises:
        CheckpointError, RunDirError: the run cannot be resumed.
        ConfigError: what is asked for would make it another run.
    """
    from workflow_rl.runs.exchange import ExchangeConfig
    from workflow_rl.runs.population_dir import is_population, policy_folder, read_population

    if not is_population(path):
        require_no_member(path)
        checkpoint = load_checkpoint(path / "checkpoint.pt")
        config = _config_of(checkpoint, path, asked, trust, names_cluster)
        _require_more_to_do(config, checkpoint.training, path, asked)
        return Plan([resumed_config(config, _own_names(config, asked))], [checkpoint])
    record = read_population(path)
    folders = [policy_folder(path, number) for number in range(len(record.configs))]
    # A run can be stopped before all of its policies have begun.
    resumed = [
        load_checkpoint(folder / "checkpoint.pt") if (folder / "checkpoint.pt").exists() else None
        for folder in folders
    ]
    states = [
        one or Checkpoint(config, {}, TrainingState())
        for one, config in zip(resumed, record.configs, strict=True)
    ]
    configs = [_config_of(one, path, asked, trust, names_cluster) for one in states]
    for folder, config in zip(folders, configs, strict=True):
        if (config.env, config.env_args) != (configs[0].env, configs[0].env_args):
            raise RunDirError(f"{path}: {folder.name} is of another environment than policy-0")
    # A policy that diverged may have stayed behind.
    config, checkpoint = max(
        zip(configs, states, strict=True),
        key=lambda one: one[0].progress(one[1].training.episodes, one[1].training.env_steps),
    )
    _require_more_to_do(config, checkpoint.training, path, asked)
    exchange = None if record.exchange is None else ExchangeConfig(**record.exchange)
    return Plan(
        [resumed_config(one, _own_names(one, asked)) for one in configs], resumed, exchange, record
    )


def _config_of(
    checkpoint: Checkpoint,
    path: Path,
    asked: Mapping[str, Any],
    trust: bool,
    names_cluster: bool,
) -> TrainConfig:
    """Return the config of a checkpoint, whose environment may be made. Raises RunDirError."""
    try:
        config = TrainConfig.from_dict(checkpoint.config)
    except ConfigError as error:
        raise RunDirError(f"{path}: its config cannot be used: {error}") from None
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise RunDirError(f"{path}: its config cannot be read: {str(error)[:300]}") from None
    is_named = asked.get("env") == config.env
    is_named = is_named and _text(asked.get("env_args", {})) == _text(config.env_args)
    try:
        return trusted_config(config, trust, names_cluster, is_named)
    except ConfigError as error:
        raise RunDirError(f"{path}: {error.message}") from None


def _text(env_args: Mapping[str, Any]) -> str:
    """Return arguments as JSON: in Python 1, 1.0 and True are equal."""
    return json.dumps(dict(env_args), sort_keys=True)


def _own_names(config: TrainConfig, asked: Mapping[str, Any]) -> dict[str, Any]:
    """Return what is asked for by the names of `resume.flat`."""
    own = {name: value for name, value in asked.items() if name != "env_args"}
    args = asked.get("env_args")
    if args is None:
        return own
    return {**own, **(args if config.env in guests else {"env_args": {**config.env_args, **args}})}


def require_no_member(path: Path) -> None:
    """Refuse to resume one member: a population is resumed as a whole. Raises RunDirError."""
    from workflow_rl.runs.population_dir import is_population, read_population

    population = path.resolve().parent
    if is_population(population) and read_population(population).exchange is not None:
        raise RunDirError(
            f"{path} is one of a population, which is resumed as a whole: {path.parent}, with "
            "train-population"
        )


def _require_more_to_do(
    config: TrainConfig, state: TrainingState, path: Path, asked: Mapping[str, Any]
) -> None:
    """Refuse a finished run without a later end. Raises ConfigError."""
    if config.progress(state.episodes, state.env_steps) < 1 or not is_finished(path):
        return
    in_steps = config.total_episodes is None
    name, done = (
        ("total_steps", state.env_steps) if in_steps else ("total_episodes", state.episodes)
    )
    before, value = getattr(config, name), asked.get(name)
    if value is None or value == before:
        require_same_run(config, _own_names(config, asked))
        raise ConfigError(
            name,
            f"the run in {path} is finished, with all its {done} "
            f"{'steps' if in_steps else 'episodes'}: to go on, give a larger number",
        )
    if value <= done:
        raise ConfigError(
            name,
            f"{value}, but the run in {path} is finished, after {done}: to go on, give more than "
            "that",
        )
