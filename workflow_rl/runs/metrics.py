"""The figures of a run: the columns of metrics.csv, the row of an update, and the summary."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from workflow_rl.collection.rollout import Rollout, utilisation
from workflow_rl.runs.config import TrainConfig
from workflow_rl.runs.resolve import OF_WORKERS
from workflow_rl.runs.training_state import Seconds, TrainingState

METRICS = (
    "update",
    "episodes",
    "env_steps",
    "wall_seconds",
    "collect_seconds",
    "update_seconds",
    "learner_idle_seconds",
    "held_seconds",
    "worker_idle_seconds",
    "seconds_per_update",
    "eps",
    "episodes_per_second",
    "env_steps_per_second",
    "worker_utilisation",
    "worker_utilisation_run",
    "policy_lag_min",
    "policy_lag_mean",
    "policy_lag_max",
    "stale_fraction",
    "dropped_steps",
    "queue_length",
    "return_mean",
    "return_std",
    "episode_length_mean",
    "policy_loss",
    "value_loss",
    "entropy",
    "approx_kl",
    "clip_fraction",
    "explained_variance",
    "learning_rate",
    "eval_return_mean",
    "workers_restarted",
    "skipped_episodes",
    "teacher_loss",
    "effective_share",
    "truncated_share",
    "policy_gradient_norm",
    "value_gradient_norm",
    "gradient_steps",
    "action_std",
)


_TOTALS = (
    *("updates", "episodes", "env_steps", "wall_seconds", "collect_seconds", "update_seconds"),
    *("learner_idle_seconds", "held_seconds", "dropped_steps"),
)

GROUPS = {
    "returns": ("return_", "eval_return", "episode_length", "truncated_"),
    "speed": ("eps", "episodes_per_", "env_steps_per_", "queue_", "worker_util"),
    "time": ("wall_", "collect_", "update_seconds", "learner_", "worker_", "seconds_"),
    "lag": ("policy_lag", "stale_", "dropped_"),
    "run": ("episodes", "env_steps", "workers_", "skipped_"),
    "costs": ("cost_", "multiplier_"),
}
"""The beginnings of metrics' names, by the group in which TensorBoard shows them."""


def group_of(metric: str) -> str:
    """Return the group of a metric. An algorithm's own metrics are in "learning"."""
    for group, beginnings in GROUPS.items():
        if metric.startswith(beginnings):
            return group
    return "learning"


def columns(config: TrainConfig) -> tuple[str, ...]:
    """Return the columns of a run's metrics.csv.

    Columns of METRICS that the run's algorithm does not have are NaN.
    """
    spaces = config.environment.spaces()
    names = config.plug_in.metrics_of(config.settings, spaces)
    further = [name for name in names if name not in METRICS]
    returns = [*return_columns(config), *paid_agents(config)]
    costs = [f"cost_{name}" for name in spaces.costs]
    return (*METRICS, *further, *(f"return_mean_{name}" for name in returns), *costs)


def paid_agents(config: TrainConfig) -> tuple[str, ...]:
    """Return the agents of a team whose agents have their own rewards; otherwise ()."""
    team = config.environment.spaces().team
    return team.agents if team is not None and team.own_rewards else ()


def return_columns(config: TrainConfig) -> dict[str, str]:
    """Return the column with the mean return of each variant, by the variant's name.

    The result is empty if all episodes have one variant. A variant is, for example, a red agent.
    """
    variants = dict.fromkeys(config.environment.variants)
    return {variant: f"return_mean_{variant}" for variant in variants} if len(variants) > 1 else {}


def row_of(
    config: TrainConfig,
    state: TrainingState,
    rollout: Rollout,
    metrics: Mapping[str, Any],
    seconds: Seconds,
) -> dict[str, float]:
    """Return an update's row of metrics, without an evaluation."""
    returns = rollout.returns or [float("nan")]
    return {
        "update": state.updates,
        "episodes": state.episodes,
        "env_steps": state.env_steps,
        "wall_seconds": state.wall_seconds,
        "collect_seconds": rollout.collect_seconds,
        "update_seconds": seconds.learning,
        "learner_idle_seconds": seconds.waiting,
        "held_seconds": rollout.held_seconds,
        "worker_idle_seconds": max(0, rollout.n_workers * seconds.total - rollout.busy_seconds),
        "seconds_per_update": seconds.total,
        "eps": rollout.n_unrolls(config.num_steps_per_env) / seconds.total,
        "episodes_per_second": rollout.episodes / rollout.collect_seconds,
        "env_steps_per_second": rollout.env_steps / rollout.collect_seconds,
        "worker_utilisation": rollout.utilisation,
        "worker_utilisation_run": utilisation(state.busy_seconds, state.worker_seconds),
        "dropped_steps": rollout.dropped_steps,
        "queue_length": rollout.queue_length,
        "return_mean": float(np.mean(returns)),
        "return_std": float(np.std(returns)),
        **_return_means(config, rollout),
        **_cost_means(config, rollout),
        "episode_length_mean": float(np.mean(rollout.episode_lengths or float("nan"))),
        "truncated_share": rollout.truncated_share,
        **metrics,
        "eval_return_mean": float("nan"),
        "workers_restarted": rollout.workers_restarted,
        "skipped_episodes": len(rollout.skipped),
    }


def _return_means(config: TrainConfig, rollout: Rollout) -> dict[str, float]:
    """Return the mean return of each variant, and of each agent with its own rewards, by column.
    NaN means that no episode ended."""
    means = {}
    for variant, column in return_columns(config).items():
        returns = [
            value
            for value, of in zip(rollout.returns, rollout.variants, strict=True)
            if of == variant
        ]
        means[column] = float(np.mean(returns or float("nan")))
    team = config.environment.spaces().team
    if team is not None and team.own_rewards:
        totals = team.own_returns(rollout.trajectories)
        of_agents = totals.mean(axis=0) if len(totals) else np.full(team.n_agents, np.nan)
        means |= {f"return_mean_{a}": float(x) for a, x in zip(team.agents, of_agents, strict=True)}
    return means


def _cost_means(config: TrainConfig, rollout: Rollout) -> dict[str, float]:
    """Return the mean of each cost's sum over an episode, by column; NaN if no episode ended."""
    names, sums = config.environment.spaces().costs, rollout.episode_costs
    means = np.mean(sums, axis=0) if sums else np.full(len(names), np.nan)
    return {f"cost_{name}": float(mean) for name, mean in zip(names, means, strict=True)}


def summarise(
    config: TrainConfig,
    state: TrainingState,
    reason: str | None = None,
    stopped: str | None = None,
) -> dict[str, Any]:
    """Return a run's summary.

    Rates and utilisation are defined as in metrics.csv, but over the whole run. They are missing
    before the first update. reason: why the run is not finished, or None. stopped: why the run
    ended before the episodes or steps of its config, or None.
    """
    recent = state.recent_mean(config.environment.variants)
    rates: dict[str, float] = {}
    if state.updates:
        busy = state.busy_seconds
        rates = {
            "seconds_per_update": state.wall_seconds / state.updates,
            "episodes_per_second": state.episodes / state.collect_seconds,
            "episodes_per_second_run": state.episodes / state.wall_seconds,
            "worker_utilisation": utilisation(busy, state.worker_seconds_collecting),
            "worker_utilisation_run": utilisation(busy, state.worker_seconds),
        }
    return {
        "finished": reason is None,
        **({} if reason is None else {"reason": reason}),
        **({} if stopped is None else {"stopped": stopped}),
        "mode": config.mode,
        "env": config.env,
        **config.named_env_args,
        "seed": config.seed,
        **{name: getattr(config, name) for name in OF_WORKERS},
        **{name: getattr(state, name) for name in _TOTALS},
        **rates,
        "return_mean_recent": None if recent is None else recent.mean,
        "recent_episodes": min(state.n_recent, len(state.recent_returns)),
        "best_score": state.best_score if np.isfinite(state.best_score) else None,
        "workers_restarted": state.workers_restarted,
        "skipped_episodes": state.skipped_episodes,
    }
