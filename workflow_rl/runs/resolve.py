"""Resolve what was asked of a run: fill every default that follows from something else."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from typing import Any

from workflow_rl import machine_facts
from workflow_rl.agents import algorithm
from workflow_rl.agents.algorithm import Algorithm
from workflow_rl.agents.settings import ConfigError, Settings
from workflow_rl.collection.cluster_address import LOCAL, NONE
from workflow_rl.environments.environment import Environment, InvalidEnvironmentError
from workflow_rl.environments.source import environment_of, guests
from workflow_rl.runs.saved_config import UnknownSettings

EPISODES_PER_UPDATE = 24
STEPS_PER_UPDATE = 2048
LEAST_EPISODES = 8  # Of a rollout whose size is given in steps.
LEAST_OF_LONG = 2


def resolve(
    values: dict[str, Any],
    preset: Mapping[str, Any],
    given: Mapping[str, Any],
    environment: Environment | None,
    plug_in: Algorithm | None,
) -> tuple[dict[str, Any], Environment, Algorithm | None]:
    """Return every field of a TrainConfig, and the environment and the algorithm that it names.

    The algorithm that only a file names is never looked up: it is None.

    Args:
        values: the fields that were given or that the preset has, checked, or their constant
            defaults. None asks for a default that follows from other fields.
        preset: the preset's fields.
        given: the fields that were given.
        environment: the environment, if it is known already.
        plug_in: the algorithm, if it is known already.

    Raises:
        ConfigError: an environment, an algorithm or a setting makes no sense.
    """
    asked = given.get("settings")
    if plug_in is None and not isinstance(asked, UnknownSettings):
        plug_in = algorithm.find(values["algorithm"])
    if environment is None:
        if preset.get("env") and values["env"] not in guests:
            raise ConfigError(
                "env",
                f"{values['env']} does not go with this preset, which is for {preset['env']}",
            )
        args = {**preset.get("env_args", {}), **(given.get("env_args") or {})}
        values["env_args"] = {**off_policy_args(plug_in, values["env"], args), **args}
        try:
            environment = environment_of(values)
        except InvalidEnvironmentError as error:
            raise ConfigError(error.argument, str(error)) from None
    values["env_args"] = dict(environment.args)
    if values["env"] in guests and (both := values.keys() & environment.args.keys()):
        raise ConfigError(
            "env", f"{values['env']} calls its argument {min(both)} as a run calls its own field"
        )
    values["settings"] = asked
    if plug_in is not None:
        values["settings"] = _settings(plug_in, environment, preset.get("settings", {}), asked)
        if values["device"] == "auto":
            values["device"] = _fastest_device(plug_in)
    if values["total_episodes"] is None and values["total_steps"] is None:
        for name in ("total_episodes", "total_steps"):
            values[name] = environment.settings.get(name)
    if values["n_workers"] and values["envs_per_worker"] and given.get("n_envs") is None:
        values["n_envs"] = values["n_workers"] * values["envs_per_worker"]
    are_free = values["n_workers"] is None and values["envs_per_worker"] is None
    values["n_workers"], values["envs_per_worker"] = workers_for(
        values["n_envs"],
        values["n_workers"],
        values["envs_per_worker"],
        one_env_each=are_free
        and values["mode"] == "sync"
        and not _steps_together(environment, values),
        cores=machine_facts.usable_cores() if values["cluster"] in (NONE, LOCAL) else None,
    )
    if values["num_steps_per_env"] is not None:
        if values["steps_per_update"] is None:
            values["steps_per_update"] = _steps_of_unrolls(
                values, environment.episode_steps, plug_in is not None and plug_in.off_policy
            )
    elif values["episodes_per_update"] is None and values["steps_per_update"] is None:
        # The number of envs has no say: it must not decide how well a run learns.
        if environment.episode_steps is None:
            values["steps_per_update"] = STEPS_PER_UPDATE
        else:
            values["episodes_per_update"] = EPISODES_PER_UPDATE
    in_steps = values["num_steps_per_env"] is None and values["episodes_per_update"] is None
    if values["min_episodes_per_update"] is None and not in_steps:
        values["min_episodes_per_update"] = LEAST_EPISODES  # It has no say.
    return values, environment, plug_in


def _fastest_device(plug_in: Algorithm) -> str:
    if "cuda" not in plug_in.devices:
        return "cpu"
    import torch  # It takes seconds, which other runs spend after their options are checked.

    return "cuda" if torch.cuda.is_available() else "cpu"


def _steps_together(environment: Environment, values: Mapping[str, Any]) -> bool:
    from workflow_rl.collection import try_in_worker  # It imports Gymnasium.

    try:
        return try_in_worker.steps_together(environment, values["worker_timeout"])
    except InvalidEnvironmentError as error:
        raise ConfigError(error.argument, str(error)) from None


def off_policy_args(plug_in: Algorithm | None, env: str, asked: Collection[str]) -> dict[str, Any]:
    """Return the arguments that an environment has for algorithms that learn off-policy, except
    those that were asked for."""
    if plug_in is None or not plug_in.off_policy or env not in guests:
        return {}
    return {name: value for name, value in guests[env].off_policy.items() if name not in asked}


def _settings(
    plug_in: Algorithm,
    environment: Environment,
    of_preset: Mapping[str, Any],
    asked: Settings | Mapping[str, Any] | None,
) -> Settings:
    """Return an algorithm's settings: those asked for, or the preset's, or the environment's."""
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
        # A preset's arguments are of the preset's network.
        of_preset = {name: value for name, value in of_preset.items() if name != "network_args"}
    return plug_in.settings_for(environment.settings, {**of_preset, **(asked or {})})


def _steps_of_unrolls(
    values: Mapping[str, Any], episode_steps: int | None, off_policy: bool
) -> int:
    """Return the steps of a rollout of unrolls: a multiple of what all envs collect together."""
    if values["batching"] == "first-come":
        return int(values["envs_per_worker"] * values["num_steps_per_env"])
    round_steps = values["n_envs"] * values["num_steps_per_env"]
    if off_policy:
        return int(round_steps)  # It learns from earlier steps as well.
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
        n_envs: environments in all.
        n_workers: workers, if their number was given.
        envs_per_worker: environments of a worker, if their number was given.
        one_env_each: whether each env gets a worker of its own unless told otherwise, as in
            SubprocVecEnv. Otherwise, each core gets a worker.
        cores: the cores that workers can use, or None if nobody knows their number.

    Raises:
        ConfigError: the numbers do not go together.
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
