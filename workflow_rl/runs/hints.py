"""Before a run begins: tell the user if its results may vary, or if it learns too seldom."""

from __future__ import annotations

import logging
import math

from workflow_rl import portable
from workflow_rl.errors import ConfigError
from workflow_rl.runs.config import TrainConfig

FEW_UPDATES = 2
_log = logging.getLogger(__name__)


def warn_if_results_vary(config: TrainConfig) -> None:
    """Try the processor and the environment, and log why results may differ from run to run.

    Raises ConfigError if the processor or the environment cannot be used.
    """
    if not portable.is_native():
        if not portable.is_supported():
            raise ConfigError(
                "device",
                "this processor lacks AVX2 with FMA, without which its weights would differ from "
                f"other processors' weights: {portable.NATIVE}=1 trains with what it has",
            )
        if departures := portable.departures():
            _log.warning(
                "the weights may differ from another processor's, and between the trainers: %s",
                "; ".join(departures),
            )
    from workflow_rl.collection import try_in_worker  # It imports Gymnasium.

    difference = try_in_worker.check(config.environment, config.worker_timeout)
    config.plug_in.distribution(config.environment.spaces(), config.settings)
    if difference is not None:
        _log.warning(
            "%s is not determined by its seed: %s. Runs of it will vary. An episode that has to be "
            "played again goes otherwise: after --resume, a lost worker, or, with "
            "--num-steps-per-env, an evaluation",
            config.env,
            difference,
        )


def hint_of_few_updates(config: TrainConfig) -> str | None:
    """Return a sentence if the run learns once or twice, or never; None if it learns more often."""
    steps = env_steps_of(config)
    needed = config.plug_in.steps_before_learning(config.settings)
    if needed and steps is not None and steps <= needed:
        return (
            f"this run learns nothing: its {steps:,} steps are no more than --warm-up-steps "
            f"{needed:,}"
        )
    n_updates = updates_of(config)
    unit = "steps" if config.episodes_per_update is None else "episodes"
    per_update = config.episodes_per_update or config.steps_per_update
    if n_updates is None:
        if per_update is None or steps is None or steps > FEW_UPDATES * per_update:
            return None
        often = (
            f"only a few times, from its first {config.episodes_of_rollout(0)} episodes and then "
            f"from about {per_update:,} steps each time"
        )
    elif n_updates > FEW_UPDATES:
        return None
    elif unit == "steps" and config.num_steps_per_env is None:
        often = "once" if n_updates == 1 else "twice"
    else:
        often = f"once, from {per_update:,} {unit}"
        if n_updates > 1:
            often = f"twice, from {per_update:,} {unit} each time"
    total = "steps" if config.total_episodes is None else "episodes"
    return (
        f"this run learns {often}: a larger --total-{total} or a smaller --{unit}-per-update lets "
        "it learn more often"
    )


def updates_of(config: TrainConfig) -> int | None:
    """Return the number of updates, or None if nobody knows it: episodes differ in length."""
    length, total = config.environment.episode_steps, env_steps_of(config)
    if config.num_steps_per_env is not None:
        assert config.steps_per_update is not None
        return None if total is None else math.ceil(total / config.steps_per_update)
    episodes = config.total_episodes
    if episodes is None and total is not None and length is not None:
        episodes = math.ceil(total / length)
    if episodes is None:
        return None
    if config.episodes_per_update is None and (length is None or config.async_rl):
        return None
    # The first rollout is sized before any episode has told how long it is, and overlapped
    # collecting sizes further ones so.
    first, size = config.episodes_of_rollout(0), config.episodes_of_rollout(length or 0)
    return 1 + max(0, math.ceil((episodes - first) / size))


def env_steps_of(config: TrainConfig) -> int | None:
    """Return the run's env steps, or None if nobody knows how long the episodes are."""
    if config.total_steps is not None:
        return config.total_steps
    assert config.total_episodes is not None
    steps = config.environment.episode_steps
    return None if steps is None else config.total_episodes * steps
