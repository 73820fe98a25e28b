"""Resolve the user's choices for a run: fill every default that follows from other fields, and
check combinations of fields."""

from __future__ import annotations

import json
import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pydantic import ConfigDict
from pydantic.fields import FieldInfo

from workflow_rl.agents import algorithm
from workflow_rl.agents.algorithm import Algorithm
from workflow_rl.agents.settings import Settings, WithTeacher, is_marked
from workflow_rl.collection.cluster_address import LOCAL, NONE
from workflow_rl.environments.environment import Environment
from workflow_rl.environments.source import environment_of, guests
from workflow_rl.errors import ConfigError
from workflow_rl.machine_facts import usable_cores
from workflow_rl.runs.presets import PRESETS, RECIPES

if TYPE_CHECKING:
    from workflow_rl.runs.config import TrainConfig

EPISODES_PER_UPDATE = 24
STEPS_PER_UPDATE = 2048
LEAST_EPISODES = 8  # In a rollout whose size is given in steps.
LEAST_OF_LONG = 2

OF_WORKERS = ("n_envs", "n_workers", "envs_per_worker")
"""Fields whose defaults follow from those of them that are given."""
OF_TEACHERS = ("teacher_episodes", "teacher_epochs")
"""Fields that need `teacher`."""


class UnknownSettings(Settings):
    """The settings in a file whose algorithm only the file mentions. They are unchecked data."""

    model_config = ConfigDict(extra="allow")


def preset_named(name: str | None) -> Mapping[str, Any]:
    """Return the fields of a preset; {} for None or an unknown name. A look-up of a guest's preset
    imports the guest."""
    general = {**PRESETS, **RECIPES}
    if name is None or name in general:
        return general.get(name or "", {})
    guest = guests.bringing("presets", name)
    return {} if guest is None else {"env": guest.env_id, **guest.presets[name]}


@dataclass(frozen=True)
class Asked:
    """The user's choices for a run.

    given: the fields of a TrainConfig that were given. preset: the preset's fields, which replace
    defaults.
    """

    given: Mapping[str, Any]
    preset: Mapping[str, Any]

    @classmethod
    def of(cls, given: Mapping[str, Any], known: Collection[str]) -> Asked:
        """Return the choices in the given fields. known: the names of a TrainConfig's fields.

        Raises ConfigError for a setting of the algorithm that is given as a field.
        """
        given = _with_network(given)
        _require_fields(given, known)
        preset = preset_named(given.get("preset"))
        if given.get("teacher", preset.get("teacher")) is None:  # The user may exclude a teacher.
            preset = {name: value for name, value in preset.items() if name not in OF_TEACHERS}
        return cls(given, preset)

    def fields(self, known: Mapping[str, FieldInfo]) -> dict[str, Any]:
        """Return the fields that replace constant defaults, without the algorithm's settings."""
        asked = dict(self.preset)
        for name, value in self.given.items():
            if value is not None:
                asked[name] = value
            elif known[name].default is None:  # The field follows from others, not from a preset.
                asked.pop(name, None)
        asked.pop("settings", None)
        return asked


def resolve(
    values: dict[str, Any],
    asked: Asked,
    environment: Environment | None,
    plug_in: Algorithm | None,
) -> tuple[dict[str, Any], Environment, Algorithm | None]:
    """Return all fields of a TrainConfig, and the environment and the algorithm that they name.

    The algorithm is None if only a file mentions it, because such a name is never looked up.

    Args:
        values: the checked fields of the user or the preset, or their constant defaults. None means
            a default that follows from other fields.
        asked: the user's choices.
        environment, plug_in: the environment and the algorithm, if they are already known.

    Raises:
        ConfigError: an environment, an algorithm or a setting is wrong.
    """
    given, preset, settings = asked.given, asked.preset, asked.given.get("settings")
    if plug_in is None and not isinstance(settings, UnknownSettings):
        plug_in = algorithm.find(values["algorithm"])
    if environment is None:
        if preset.get("env") and values["env"] not in guests:
            raise ConfigError(
                "env",
                f"{values['env']} does not go with this preset, which is for {preset['env']}",
            )
        args = {**preset.get("env_args", {}), **(given.get("env_args") or {})}
        values["env_args"] = {**off_policy_args(plug_in, values["env"], args), **args}
        environment = environment_of(values)
    values["env_args"] = dict(environment.args)
    if values["env"] in guests and (both := values.keys() & environment.args.keys()):
        raise ConfigError(
            "env", f"{values['env']} calls its argument {min(both)} as a run calls its own field"
        )
    values["settings"] = settings
    if plug_in is not None:
        values["settings"] = _settings(plug_in, environment, preset.get("settings", {}), settings)
        if values["device"] == "auto":
            values["device"] = _fastest_device(plug_in)
    if values["total_episodes"] is None and values["total_steps"] is None:
        for name in ("total_episodes", "total_steps"):
            values[name] = environment.settings.get(name)
    _fill_workers(values, environment, gives_envs=given.get("n_envs") is not None)
    _fill_rollouts(values, environment, plug_in is not None and plug_in.off_policy)
    return values, environment, plug_in


def _fill_workers(values: dict[str, Any], environment: Environment, gives_envs: bool) -> None:
    """Fill in the fields of OF_WORKERS. gives_envs: whether the number of envs was given."""
    if values["n_workers"] and values["envs_per_worker"] and not gives_envs:
        values["n_envs"] = values["n_workers"] * values["envs_per_worker"]
    are_free = values["n_workers"] is None and values["envs_per_worker"] is None
    values["n_workers"], values["envs_per_worker"] = workers_for(
        values["n_envs"],
        values["n_workers"],
        values["envs_per_worker"],
        one_env_each=are_free
        and values["mode"] == "sync"
        and not _steps_together(environment, values),
        cores=usable_cores() if are_free and values["cluster"] in (NONE, LOCAL) else None,
    )


def _fill_rollouts(values: dict[str, Any], environment: Environment, off_policy: bool) -> None:
    """Fill in the size of a rollout. off_policy: see `Algorithm`."""
    if values["num_steps_per_env"] is not None:
        if values["steps_per_update"] is None:
            values["steps_per_update"] = _steps_of_unrolls(
                values, environment.episode_steps, off_policy
            )
    elif values["episodes_per_update"] is None and values["steps_per_update"] is None:
        # The number of envs is not used, because it must not decide how well a run learns.
        if environment.episode_steps is None:
            values["steps_per_update"] = STEPS_PER_UPDATE
        else:
            values["episodes_per_update"] = EPISODES_PER_UPDATE
    in_steps = values["num_steps_per_env"] is None and values["episodes_per_update"] is None
    if values["min_episodes_per_update"] is None and not in_steps:
        values["min_episodes_per_update"] = LEAST_EPISODES  # This value has no effect.


def _fastest_device(plug_in: Algorithm) -> str:
    if "cuda" not in plug_in.devices:
        return "cpu"
    import torch  # The import takes seconds. Other runs import torch after the checks of options.

    return "cuda" if torch.cuda.is_available() else "cpu"


def _steps_together(environment: Environment, values: Mapping[str, Any]) -> bool:
    from workflow_rl.collection import try_in_worker  # This imports Gymnasium.

    return try_in_worker.steps_together(environment, values["worker_timeout"])


def off_policy_args(plug_in: Algorithm | None, env: str, asked: Collection[str]) -> dict[str, Any]:
    """Return an environment's default arguments for algorithms that learn off-policy, without
    arguments in `asked`."""
    if plug_in is None or not plug_in.off_policy or env not in guests:
        return {}
    return {name: value for name, value in guests[env].off_policy.items() if name not in asked}


def _settings(
    plug_in: Algorithm,
    environment: Environment,
    of_preset: Mapping[str, Any],
    asked: Settings | Mapping[str, Any] | None,
) -> Settings:
    """Return an algorithm's settings by the user, otherwise the preset, or the environment."""
    if isinstance(asked, plug_in.settings):
        return asked
    if isinstance(asked, Settings):
        raise ConfigError(
            "settings",
            f"a {type(asked).__name__} does not go with {plug_in.name}: give a "
            f"{plug_in.settings.__name__}",
        )
    if not isinstance(asked, Mapping | None):
        raise ConfigError("settings", f"{asked!r:.100} is no mapping of names to values")
    if asked and asked.get("network", of_preset.get("network")) != of_preset.get("network"):
        # A preset's network arguments fit only the preset's network.
        of_preset = {name: value for name, value in of_preset.items() if name != "network_args"}
    return plug_in.settings_for(environment.settings, {**of_preset, **(asked or {})})


def _steps_of_unrolls(
    values: Mapping[str, Any], episode_steps: int | None, off_policy: bool
) -> int:
    """Return the steps of a rollout of unrolls: a multiple of the steps of all envs' unrolls."""
    if values["batching"] == "first-come":
        return int(values["envs_per_worker"] * values["num_steps_per_env"])
    round_steps = values["n_envs"] * values["num_steps_per_env"]
    if off_policy:
        return int(round_steps)  # Such an algorithm also learns from earlier steps.
    at_least = STEPS_PER_UPDATE if episode_steps is None else EPISODES_PER_UPDATE * episode_steps
    return int(math.ceil(at_least / round_steps) * round_steps)


def workers_for(
    n_envs: int,
    n_workers: int | None,
    envs_per_worker: int | None,
    one_env_each: bool,
    cores: int | None,
) -> tuple[int, int]:
    """Return the number of workers and the number of envs that each worker owns.

    Args:
        n_workers, envs_per_worker: None if the user did not give the number.
        one_env_each: whether by default each env gets its own worker, as in SubprocVecEnv.
            Otherwise, each core gets a worker.
        cores: the number of cores that workers can use, or None if it is unknown. It counts if
            neither number was given.

    Raises:
        ConfigError: the numbers contradict each other.
    """
    if n_workers is None and envs_per_worker is None:
        if cores is None and not one_env_each:
            raise ConfigError(
                "n_workers",
                "it has to be given with this cluster: give as many as the cluster has cores",
            )
        n_workers = n_envs if one_env_each or cores is None else min(cores, n_envs)
    if n_workers is None:
        assert envs_per_worker is not None
        n_workers = math.ceil(n_envs / envs_per_worker)
    if n_workers > n_envs:
        raise ConfigError(
            "n_workers",
            f"{n_workers} is too large: at most ",
            "n_envs",
            f", {n_envs}, have anything to do",
        )
    if envs_per_worker is None:
        envs_per_worker = math.ceil(n_envs / n_workers)
    if n_workers * envs_per_worker < n_envs:
        raise ConfigError(
            "envs_per_worker",
            f"{n_workers} workers of {envs_per_worker} have no room for {n_envs} envs: it must be "
            f"{math.ceil(n_envs / n_workers)} or greater, or left out",
        )
    return n_workers, envs_per_worker


def _with_network(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return a TrainConfig's fields, with `network` moved to the settings of the algorithm."""
    values = dict(given)
    if (network := values.pop("network", None)) is not None:
        settings = values.get("settings")
        if isinstance(settings, Settings):
            values["settings"] = settings.changed(network=network)
        else:
            values["settings"] = {**(settings or {}), "network": network}
    return values


def _require_fields(given: Mapping[str, Any], fields: Collection[str]) -> None:
    """Raise ConfigError for a setting of the algorithm that is given as a field of TrainConfig.

    fields: the names of TrainConfig's fields.
    """
    unknown = [field for field in given if field not in fields]
    name = given.get("algorithm", preset_named(given.get("preset")).get("algorithm", "ppo"))
    if not unknown or not isinstance(name, str) or name not in algorithm.names():
        return
    for field in unknown:
        if field in algorithm.find(name).settings.model_fields:
            raise ConfigError(
                field,
                f"it is a setting of {name}: give settings={{{field!r}: {given[field]!r:.50}}}",
            )


def require_possible(config: TrainConfig, plug_in: Algorithm | None) -> None:
    """Raise ConfigError for fields that do not fit together.

    plug_in: the algorithm; None if only a file mentions it.
    """
    _check_end(config)
    _check_curriculum(config)
    if plug_in is not None:
        _check_algorithm(config, plug_in)
    _check_rollouts(config)
    _check_overlap(config, plug_in)


def _clash(config: TrainConfig, name: str, other: str, why: str) -> ConfigError:
    values = getattr(config, name), getattr(config, other)
    return ConfigError(name, f"{values[0]} does not go with ", other, f", {values[1]}: {why}")


def _check_end(config: TrainConfig) -> None:
    if config.patience is not None and config.patience < config.eval_every:
        raise _clash(
            *(config, "patience", "eval_every"),
            f"between two evaluations no score can be better; give {config.eval_every} or more",
        )
    has_budgets = bool(getattr(config.settings, "budgets", {}))
    for name in ("patience", "stop_at_return") if has_budgets and not config.eval_every else ():
        if getattr(config, name) is not None:
            raise ConfigError(
                name, "with ", "budgets", " it goes by evaluations in the run: give ", "eval_every"
            )
    if config.total_episodes is not None and config.total_steps is not None:
        raise _clash(config, "total_steps", "total_episodes", "a run ends after one or the other")
    if config.total_episodes is None and config.total_steps is None:
        raise ConfigError("total_episodes", "this environment has no default: give a number")
    try:
        json.dumps(config.env_args)
    except (TypeError, ValueError, RecursionError) as error:
        raise ConfigError("env_args", f"they cannot be kept with the run: {error}") from None


def _check_curriculum(config: TrainConfig) -> None:
    if not config.curriculum:
        return
    if config.env in guests:
        raise ConfigError("curriculum", f"{config.env} has none: it is for environments of yours")
    if config.total_episodes is None:
        raise ConfigError(
            "curriculum",
            "the progress is an episode's number of ",
            "total_episodes",
            ": give that, and no ",
            "total_steps",
        )
    if not config.eval_every:
        raise ConfigError(
            "curriculum",
            "it needs ",
            "eval_every",
            ": the best agent is that of the best evaluation on the whole task, for the "
            "returns of easier and harder episodes do not compare",
        )


def _check_algorithm(config: TrainConfig, plug_in: Algorithm) -> None:
    if plug_in.most_threads is not None and config.learner_threads > plug_in.most_threads:
        raise ConfigError(
            "learner_threads",
            f"{config.learner_threads} is too large: {config.algorithm} learns with at most "
            f"{plug_in.most_threads}",
        )
    lessons = {name: type(config).model_fields[name] for name in OF_TEACHERS}
    of_algorithm = type(config.settings).model_fields.items()
    lessons |= {name: field for name, field in of_algorithm if is_marked(field, WithTeacher)}
    for name, field in lessons.items() if config.teacher is None else ():
        value = getattr(config if name in OF_TEACHERS else config.settings, name)
        if value != field.default:
            raise ConfigError(name, f"{value} goes with ", "teacher", ": name one")
    if config.teacher is not None and not plug_in.takes_teachers:
        raise ConfigError("teacher", f"{config.algorithm} copies no agent: use ppo")
    if config.device not in plug_in.devices:
        raise ConfigError(
            "device", f"{config.algorithm} learns on the {' or '.join(plug_in.devices)}"
        )


def _check_rollouts(config: TrainConfig) -> None:
    if config.num_steps_per_env is None:
        if config.episodes_per_update is not None and config.steps_per_update is not None:
            raise _clash(
                *(config, "steps_per_update", "episodes_per_update"),
                "a rollout of complete episodes is given by one or the other",
            )
        return
    if config.episodes_per_update is not None:
        raise ConfigError(
            "episodes_per_update",
            f"{config.episodes_per_update} does not go with ",
            "num_steps_per_env",
            ": the size of a rollout of unrolls is given by ",
            "steps_per_update",
        )
    assert config.steps_per_update is not None
    round_steps = config.n_envs * config.num_steps_per_env
    if config.batching != "first-come" and config.steps_per_update % round_steps:
        below = config.steps_per_update // round_steps * round_steps
        nearest = [str(steps) for steps in (below, below + round_steps) if steps]
        raise ConfigError(
            "steps_per_update",
            f"{config.steps_per_update} is not a multiple of what the envs collect together, "
            f"{config.n_envs} x {config.num_steps_per_env} = {round_steps}: give "
            f"{' or '.join(nearest)}",
        )


def _check_overlap(config: TrainConfig, plug_in: Algorithm | None) -> None:
    lag = config.num_batches_to_accumulate
    if not config.async_rl:
        for name, alone in (("batching", "exact-lag"), ("num_batches_to_accumulate", 1)):
            if getattr(config, name) != alone:
                raise ConfigError(name, f"{getattr(config, name)} needs ", "async_rl")
    if config.batching == "first-come" and config.mode == "sync":
        raise ConfigError(
            "batching", "first-come needs the asynchronous trainer: a barrier has no first"
        )
    if config.batching != "exact-lag":
        return
    limit = None if plug_in is None else plug_in.max_policy_lag(config.settings)
    if config.async_rl and limit is not None and limit < lag:
        raise ConfigError(
            "max_policy_lag",
            f"{limit} leaves nothing to learn from: with exact-lag batching the lag of every "
            "step is ",
            "num_batches_to_accumulate",
            f", {lag}",
        )
    for name, alone in (("when_full", "wait"), ("take_all", False)):
        if getattr(config, name) != alone:
            raise ConfigError(
                name,
                f"{getattr(config, name)} does not go with exact-lag batching, which neither "
                "drops nor joins batches",
            )
