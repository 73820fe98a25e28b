"""What each way of collecting costs and brings: all modes train on the same budget of episodes."""

from __future__ import annotations

import functools
import logging
import math
import re
import statistics
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from workflow_rl.measuring.compare_modes_report import RETURN_WINDOW
from workflow_rl.measuring.turns import in_turns, median_ratio
from workflow_rl.reporting import learning_curve
from workflow_rl.runs.config import ConfigError, TrainConfig
from workflow_rl.runs.folder import read_metrics
from workflow_rl.runs.presets import PRESETS
from workflow_rl.runs.returns import Metrics, first_reached

# Presets of the same algorithm: they differ in how they collect alone.
ON_POLICY = tuple(name for name, settings in PRESETS.items() if "algorithm" not in settings)
DEFAULT_MODES = ("sync", "async", "lag-1", *ON_POLICY)
REFERENCE = "async"

_log = logging.getLogger(__name__)

_LAG = re.compile(r"lag-([1-9]\d*)(-vtrace)?")


class ModeRun(NamedTuple):
    """A finished run. summary: the content of its summary.json."""

    metrics: Metrics
    summary: Mapping[str, Any]


def mode_config(name: str, **settings: Any) -> TrainConfig:
    """Return the config of a mode, with these further fields of TrainConfig. Raises ConfigError.

    "sync" has a barrier at every step and "async" has none; both learn between collections.
    "lag-N" is "async" that collects while learning, always with the weights of N updates ago;
    "lag-N-vtrace" corrects for that. All other names are presets.
    """
    lag = _LAG.fullmatch(name)
    chosen: dict[str, Any] = {}
    if lag is not None:
        chosen = {
            "async_rl": True,
            "num_batches_to_accumulate": int(lag[1]),
            "settings": {"correction": "vtrace" if lag[2] else "none"},
        }
    elif name in ON_POLICY:
        chosen = {"preset": name}
    elif name not in ("sync", "async"):
        known = ", ".join(["sync", "async", "lag-N", "lag-N-vtrace", *ON_POLICY])
        raise ConfigError("modes", f"{name!r} is not one of {known}, where N is 1 or greater")
    if "num_steps_per_env" in PRESETS.get(name, {}):
        settings = {**settings, "episodes_per_update": None}
    return TrainConfig("sync" if name == "sync" else "async", **settings, **chosen)


def alf_configs(envs_per_actor: int, n_actors: int, **settings: Any) -> dict[str, TrainConfig]:
    """Return ALF's two ways with K = envs_per_actor, by name. Raises ConfigError.

    The asynchronous way is the preset "alf": every actor has K envs, and an update takes one
    actor's unroll. The synchronous way does not overlap, and has K envs in all, spread over the
    actors. So an update learns from K unrolls in both.
    """
    n_steps = PRESETS["alf"]["num_steps_per_env"]
    return {
        f"alf-{envs_per_actor}-sync": TrainConfig(
            "async",
            n_envs=envs_per_actor,
            n_workers=min(n_actors, envs_per_actor),
            num_steps_per_env=n_steps,
            steps_per_update=envs_per_actor * n_steps,
            **settings,
        ),
        f"alf-{envs_per_actor}-async": mode_config(
            "alf", n_envs=n_actors * envs_per_actor, n_workers=n_actors, **settings
        ),
    }


def train_all(
    configs: Mapping[str, TrainConfig], n_seeds: int, folder: Path, quiet: bool = True
) -> dict[str, list[ModeRun]]:
    """Train every config with seeds 0 to n_seeds - 1 in turns, and return its runs by its name.

    folder: where the runs are kept.

    Raises StopRequested, TooManyFailuresError, RunDirError.
    """
    turns = {
        name: functools.partial(_trained, name, config, folder) for name, config in configs.items()
    }
    return in_turns(turns, n_seeds, quiet)


def _trained(name: str, config: TrainConfig, folder: Path, seed: int) -> ModeRun:
    from workflow_rl.runs.loop import train_policy

    path = folder / f"{name}-seed-{seed}"
    config = config.changed(seed=seed)
    summary = train_policy(config, path, quiet=True, draw=learning_curve.plot_learning_curve)
    if skipped := summary["skipped_episodes"]:
        _log.warning(
            "%d episodes of %s could not be played: its returns are of the others",
            *(len(skipped), path.name),
        )
    return ModeRun(read_metrics(path), summary)


def reached(
    metrics: Metrics,
    target_return: float,
    window: int = RETURN_WINDOW,
    columns: Sequence[str] = ("episodes", "wall_seconds"),
) -> tuple[float, ...]:
    """Return the episodes and wall seconds until the target was reached, or infinities.

    The mean of the last `window` episodes has to reach the target. Updates count as a whole.
    columns: columns of the metrics to return instead.
    """
    row = first_reached(metrics, target_return, window)
    return tuple(math.inf if row is None else row[column] for column in columns)


def seconds_per_update_and_eps(metrics: Metrics) -> tuple[float, float]:
    """Return ALF's T, the mean seconds between two updates, and EPS, unrolls or episodes a second.

    The first of several updates is left out: workers warm up before it.
    """
    rows = metrics[1:] or metrics
    seconds = [row["seconds_per_update"] for row in rows]
    unrolls = [row["eps"] * row["seconds_per_update"] for row in rows]
    return statistics.mean(seconds), sum(unrolls) / sum(seconds)


def mode_rows(runs: Mapping[str, Sequence[ModeRun]], target_return: float) -> list[dict[str, Any]]:
    """Return a row for each mode, as the JSON file has them: medians over the seeds.

    A seed that does not reach the target counts as infinitely slow, and None stands for infinity.
    x_async: ratios of the medians to those of mode "async", None without that mode.
    """
    rows = [_row(name, its_runs, target_return) for name, its_runs in runs.items()]
    reference = next((row for row in rows if row["mode"] == REFERENCE), None)
    for row in rows:
        for what in ("episodes", "seconds"):
            needed = row[f"{what}_to_target"]
            other = reference and reference[f"{what}_to_target"]
            row[f"{what}_to_target_x_async"] = needed / other if needed and other else None
    return rows


def _row(name: str, runs: Sequence[ModeRun], target_return: float) -> dict[str, Any]:
    def median_of(field: str) -> float:
        return statistics.median(run.summary[field] for run in runs)

    def median_mean(column: str) -> float:
        return statistics.median(
            statistics.mean(row[column] for row in run.metrics) for run in runs
        )

    speeds = [seconds_per_update_and_eps(run.metrics) for run in runs]
    targets = [reached(run.metrics, target_return) for run in runs]
    episodes, seconds = zip(*targets, strict=True)
    # None if no episode has ended.
    returns = [run.summary["return_mean_recent"] for run in runs]
    last = [-math.inf if mean is None else mean for mean in returns]
    return {
        "mode": name,
        "n_seeds": len(runs),
        "episodes_per_second": median_of("episodes_per_second_run"),
        "eps": statistics.median(eps for _, eps in speeds),
        "seconds_per_update": statistics.median(seconds for seconds, _ in speeds),
        "worker_utilisation": median_of("worker_utilisation_run"),
        "learner_idle": statistics.median(
            run.summary["learner_idle_seconds"] / run.summary["wall_seconds"] for run in runs
        ),
        "policy_lag_mean": median_mean("policy_lag_mean"),
        "policy_lag_max": max(row["policy_lag_max"] for run in runs for row in run.metrics),
        "stale_fraction": median_mean("stale_fraction"),
        "dropped_steps": median_of("dropped_steps"),
        "return_mean_recent": _finite(statistics.median(last)),
        "target_return": target_return,
        "seeds_at_target": sum(map(math.isfinite, episodes)),
        "episodes_to_target": _finite(statistics.median(episodes)),
        "seconds_to_target": _finite(statistics.median(seconds)),
        "episodes_to_target_by_seed": [_finite(number) for number in episodes],
        "seconds_to_target_by_seed": [_finite(number) for number in seconds],
        "return_mean_recent_by_seed": returns,
        "seeds": [run.summary["seed"] for run in runs],
    }


def _finite(number: float) -> float | None:
    """Return None for infinity, which JSON does not have."""
    return number if math.isfinite(number) else None


def make_alf_rows(
    runs: Mapping[str, Sequence[ModeRun]], envs_per_actor: Iterable[int]
) -> list[dict[str, Any]]:
    """Return a row of ALF's table for each K: medians over the seeds, ratios within each seed."""
    rows = []
    for k in envs_per_actor:
        row: dict[str, Any] = {"envs_per_actor": k}
        eps = {}
        for way in ("sync", "async"):
            its_runs = runs[f"alf-{k}-{way}"]
            speeds = [seconds_per_update_and_eps(run.metrics) for run in its_runs]
            seconds, eps[way] = zip(*speeds, strict=True)
            row[f"{way}_seconds_per_update"] = statistics.median(seconds)
            row[f"{way}_eps"] = statistics.median(eps[way])
            row["n_actors"] = its_runs[0].summary["n_workers"]
        row["ratio"] = median_ratio(eps["async"], eps["sync"])
        rows.append(row)
    return rows
