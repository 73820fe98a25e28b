"""Which fields of a run's config a resumed run may be given anew."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from workflow_rl.runs.config import ConfigError, Resume, TrainConfig

OF_WORKERS = ("n_envs", "n_workers", "envs_per_worker")
"""Fields of which the others follow from one that is given."""


def free_on_resume(config: TrainConfig) -> frozenset[str]:
    """Return the fields that a resumed run may be given anew, whatever their values.

    `n_envs` is one of them where rollouts are of complete episodes: unrolls depend on it.
    """
    free = {Resume.FREE}
    if config.num_steps_per_env is None:
        free.add(Resume.FREE_WITH_EPISODES)
    return frozenset(name for name in TrainConfig.model_fields if _kind_of(name) in free)


def flat(config: TrainConfig) -> dict[str, Any]:
    """Return the config's fields, settings and environment's arguments by their names."""
    values = config.to_dict()
    settings = values.pop("settings")
    return {**values, **settings}


def require_same_run(before: TrainConfig, asked: Mapping[str, Any]) -> None:
    """Raise ConfigError if what is asked would make a resumed run another run.

    Args:
        before: the config that the run was saved with.
        asked: some of the fields, settings and arguments of `flat`.
    """
    saved, free = flat(before), free_on_resume(before)
    for name, value in asked.items():
        value, was = json.loads(json.dumps(value)), saved.get(name)
        if value == was or name in free or _is_later(name, value, was):
            continue
        if name not in saved:
            of_run = f"{before.env} with {before.algorithm}"
            raise ConfigError(name, f"{value}: the run to resume, on {of_run}, has no such setting")
        has = "none" if was is None else was
        raise ConfigError(
            name, f"{value}, but the run to resume has {has}: leave it out, or start a new run"
        )


def resumed_config(before: TrainConfig, asked: Mapping[str, Any]) -> TrainConfig:
    """Return the config with which a run goes on. Raises ConfigError, as `require_same_run` does.

    If the number of envs or workers is asked for, the rest of them follows from that.
    """
    require_same_run(before, asked)
    changes = {n: v for n, v in asked.items() if n in free_on_resume(before) or _kind_of(n)}
    if changes.keys() & set(OF_WORKERS):
        changes = {**dict.fromkeys(OF_WORKERS[1:]), **changes}
    return before.changed(**changes)


def _is_later(name: str, value: Any, was: Any) -> bool:
    return _kind_of(name) is Resume.LATER and None not in (value, was) and bool(value >= was)


def _kind_of(name: str) -> Resume | None:
    field = TrainConfig.model_fields.get(name)
    found = () if field is None else field.metadata
    return next((kind for kind in found if isinstance(kind, Resume)), None)
