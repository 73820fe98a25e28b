"""Record episodes of any agent: what a teacher of the same name would have played."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from workflow_rl.collection import try_in_worker
from workflow_rl.collection.failures import TooManyFailuresError
from workflow_rl.environments.source import default_env, fields_of, guests, played_by
from workflow_rl.errors import ConfigError, UserError
from workflow_rl.runs.config import TrainConfig
from workflow_rl.runs.copy_teacher import episodes_of, teacher_of
from workflow_rl.runs.loop import make_pool
from workflow_rl.runs.saved_agent import load_saved
from workflow_rl.teaching.episode_files import (
    Recorded,
    dataset_named,
    holds_episodes,
    plain_spaces,
    require_replaceable,
    write_episodes,
)
from workflow_rl.teaching.teachers import Teacher, actor_of, spaces_of

FEWEST_ENVS = 8


def written_episodes(
    agent: str | Callable[..., Any],
    file: Path,
    episodes: int,
    env: str | Callable[..., Any] | None = None,
    env_args: Mapping[str, Any] = {},
    seed: int = 0,
    n_workers: int | None = None,
    quiet: bool = True,
    worker_timeout: float = 60.0,
    env_python: str | None = None,
    ignore_unknown: bool | None = None,
) -> Recorded:
    """Write episodes that an agent plays, and return them: see `api.record`, which raises the
    same."""
    require_replaceable(file)
    fields = _environment(agent, env, env_args, env_python, ignore_unknown)
    fields |= {"worker_timeout": worker_timeout}
    if isinstance(agent, str):
        fields |= {"teacher": agent}
    else:  # What a user's function raises, it raises again in another worker.
        fields |= {"max_worker_failures": 0}
    n_envs = max(FEWEST_ENVS, n_workers or 0)
    config = TrainConfig("async", n_envs, n_workers=n_workers, seed=seed, **fields)
    environment = config.environment
    try_in_worker.learn_facts(environment, worker_timeout, plays=True)
    declared, dataset = environment.spaces(), dataset_named(file)
    if dataset is not None and declared.team is not None:
        raise UserError(
            f"{file}: a dataset of Minari's holds episodes of one agent: give an .npz file"
        )
    if isinstance(agent, str):
        teacher = teacher_of(config)
        assert isinstance(teacher, Teacher)
    else:
        teacher = Teacher(environment.make_envs, actor_of(agent, environment))
    pool = make_pool(config, None, teacher.make_envs)
    trajectories = episodes_of(config, teacher.actor, pool, range(episodes), quiet, "the agent")
    if len(trajectories) < episodes:
        why = "".join(f", the first of them {fault.what}" for fault in [*pool.faults][:1])
        n_left_out = episodes - len(trajectories)
        raise TooManyFailuresError(f"{n_left_out} of the {episodes} episodes raise exceptions{why}")
    name = agent if isinstance(agent, str) else _named(agent)
    about = {"agent": name, "env": config.env, **config.named_env_args, "seed": seed}
    recorded = Recorded(trajectories, plain_spaces(declared), about)
    if dataset is None:
        write_episodes(file, recorded)
    else:
        from workflow_rl.teaching import minari_datasets

        seen_and_done = spaces_of(environment)
        spec = minari_datasets.spec_of(environment, config.env_args)
        minari_datasets.write_dataset(
            dataset, trajectories, about, declared.obs_dim, *seen_and_done, spec
        )
    return recorded


def _named(function: Callable[..., Any]) -> str:
    name = getattr(function, "__qualname__", type(function).__qualname__)
    return f"{function.__module__}:{name}"


def _environment(
    agent: str | Callable[..., Any],
    env: str | Callable[..., Any] | None,
    env_args: Mapping[str, Any],
    env_python: str | None,
    ignore_unknown: bool | None,
) -> dict[str, Any]:
    """Return the fields of a config that name the environment: that of the agent's file, if no
    other is named, with the arguments that are given."""
    given: dict[str, Any] = {"ignore_unknown": ignore_unknown, "env_python": env_python}
    given = {name: value for name, value in given.items() if value is not None}
    if isinstance(agent, str):
        path = Path(agent)
        if holds_episodes(path):
            raise ConfigError("teacher", f"{agent} holds recorded episodes: give an agent")
        if path.exists() or (env is None and guests.bringing("released", agent)):
            trained_on = load_saved(path).environment
            if env in (None, trained_on.env_id):
                fields = fields_of(played_by(trained_on, env_python))
                return {**fields, "env_args": {**fields["env_args"], **env_args}, **given}
    if env is None or isinstance(env, str):
        return {"env": env or default_env(), "env_args": dict(env_args), **given}
    return {"env": _named(env), "env_args": dict(env_args), "make_env": env, **given}
