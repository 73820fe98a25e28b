"""What somebody may want to know of a run before it begins."""

from __future__ import annotations

import math

from workflow_rl.environments.environment import guests
from workflow_rl.runs.config import TrainConfig

FEW_UPDATES = 2


def hints(config: TrainConfig) -> list[str]:
    """Sentences: that it learns only once or twice, and what would make it faster."""
    found = []
    n_updates = updates_of(config)
    if n_updates is not None and n_updates <= FEW_UPDATES:
        per_update = config.episodes_per_update or config.steps_per_update
        option = "steps" if config.episodes_per_update is None else "episodes"
        total = "steps" if config.total_episodes is None else "episodes"
        often = "once" if n_updates == 1 else "twice"
        found.append(
            f"this run learns {often}, from {per_update:,} {option}"
            f"{' each time' * (n_updates > 1)}: a larger --total-{total} or a smaller "
            f"--{option}-per-update lets it learn more often"
        )
    steps = _env_steps(config)
    if config.mbpo is not None and steps is not None and steps <= config.mbpo.warm_up_steps:
        found.append(
            f"this run learns nothing: its {steps:,} steps are no more than --warm-up-steps "
            f"{config.mbpo.warm_up_steps:,}"
        )
    if config.env in guests and steps is not None:
        hint = guests[config.env].hint(config.env_args, steps)
        if hint is not None:
            found.append(hint)
    return found


def updates_of(config: TrainConfig) -> int | None:
    """How many it makes; None if nobody knows how long its episodes are."""
    if config.total_episodes is not None and config.episodes_per_update is not None:
        return math.ceil(config.total_episodes / config.episodes_per_update)
    total, per_update = _env_steps(config), config.steps_per_update
    if per_update is None and config.environment.episode_steps is not None:
        assert config.episodes_per_update is not None
        per_update = config.episodes_per_update * config.environment.episode_steps
    if total is None or per_update is None:
        return None
    return math.ceil(total / per_update)


def _env_steps(config: TrainConfig) -> int | None:
    if config.total_steps is not None:
        return config.total_steps
    assert config.total_episodes is not None
    steps = config.environment.episode_steps
    return None if steps is None else config.total_episodes * steps
