"""Curves of returns: running means of a run's metrics, and groups of runs for one curve."""

from __future__ import annotations

import itertools
import json
import logging
import math
from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from workflow_rl.environments.source import guests

if TYPE_CHECKING:
    from workflow_rl.runs.config import TrainConfig

FEWEST_RECENT, RECENT_EPISODES = 10, 300
"""The least and the largest number of last episodes for a run's mean return."""

AXES = {"episodes": "episodes", "env_steps": "env steps", "wall_seconds": "wall time (seconds)"}
"""The x axes of curves: columns of the metrics, and their names."""

WORKERS = ("n_workers", "envs_per_worker")
# Runs that differ only in these fields are a group. All these fields but the seed change no result.
LIKE_SEEDS = ("seed", *WORKERS, "checkpoint_every", "keep_every")

_log = logging.getLogger(__name__)

Metrics: TypeAlias = Sequence[Mapping[str, float]]
"""The rows of a run's metrics.csv."""


def columns_of_returns(metrics: Metrics) -> dict[str, str]:
    """Return the columns of further mean returns, by the name of a variant or of a team's agent.
    They are empty for a single agent without variants."""
    first = "return_mean_"
    names = metrics[0] if metrics else {}
    return {name.removeprefix(first): name for name in names if name.startswith(first)}


def n_recent(episodes: float, env_steps: float, episode_length: float) -> int:
    """Return the number of last episodes for a run's mean return.

    That is a tenth of its episodes, or the episodes of a tenth of its steps, if these are fewer,
    as when episodes grow. episode_length: the mean length of the last episodes, in steps.
    """
    tenth = min(episodes, env_steps / max(episode_length, 1)) / 10
    return int(min(RECENT_EPISODES, max(FEWEST_RECENT, tenth)))


def window_of(metrics: Metrics) -> int:
    """Return `n_recent` of a run after its last update."""
    if not metrics:
        return FEWEST_RECENT
    lengths = [row.get("episode_length_mean", math.nan) for row in metrics]
    last = next((length for length in reversed(lengths) if math.isfinite(length)), 1)
    return n_recent(metrics[-1]["episodes"], metrics[-1]["env_steps"], last)


def running_mean(
    metrics: Metrics, window: int | None = None, column: str = "return_mean"
) -> list[float]:
    """Return the mean return of the last `window` episodes after each update, in whole updates.

    window: None means `window_of` the metrics. column: the column of returns. The weight of a
    variant's mean in an update is the number of all episodes of the update. The result is NaN
    before an episode has ended.
    """
    means = []
    window = window or window_of(metrics)
    # For each of the last updates in which an episode of this column ended: the number of episodes
    # before, their number in this update, and their mean return.
    ended: deque[tuple[float, float, float]] = deque(maxlen=window + 1)
    before = 0.0
    for row in metrics:
        if row["episodes"] > before and not math.isnan(row[column]):
            ended.append((before, row["episodes"] - before, row[column]))
        before = row["episodes"]
        total = weight = 0.0
        for episodes_before, count, mean in reversed(ended):
            if weight and row["episodes"] - episodes_before > window:
                break
            total += count * mean
            weight += count
        means.append(total / weight if weight else math.nan)
    return means


def with_returns(runs: Mapping[str, Metrics]) -> dict[str, Metrics]:
    """Return the runs, by name, in which an episode has ended, and log the other runs' names.

    Return all runs if there is no such run.
    """
    begun = {
        name: metrics
        for name, metrics in runs.items()
        if any(math.isfinite(row["return_mean"]) for row in metrics)
    }
    for name in runs if begun else ():
        if name not in begun:
            _log.warning("%s is left out: none of its episodes has ended yet", name)
    return begun or dict(runs)


def warn_of_short_runs(runs: Mapping[str, Metrics], groups: Iterable[Collection[str]]) -> None:
    """Log which runs end the curve of their group early. runs: by name. groups: names of runs."""
    for group in groups:
        ends = {name: runs[name][-1]["episodes"] if runs[name] else 0 for name in group}
        shortest, most = min(ends, key=ends.__getitem__), max(ends.values())
        if ends[shortest] < 0.9 * most:
            _log.warning(
                "the curve of %d seeds ends where %s does: after %d episodes, of %d",
                len(ends),
                shortest,
                ends[shortest],
                most,
            )


def on_one_axis(
    runs: Sequence[Metrics],
    column: str,
    values: Callable[[Metrics], Sequence[float]] = running_mean,
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return 400 values [X] of the column at which all runs have values, and these values [run, X].

    A run without any value is left out. X is 0 if the runs do not overlap. values: returns a value
    for each row of a run. The values are interpolated.
    """
    curves = []
    for metrics in runs:
        x = np.array([row[column] for row in metrics], dtype=float)
        y = np.array(values(metrics), dtype=float)
        if np.isfinite(y).any():
            curves.append((x[np.isfinite(y)], y[np.isfinite(y)]))
    start = max((x[0] for x, _ in curves), default=np.inf)
    end = min((x[-1] for x, _ in curves), default=-np.inf)
    if start > end:
        return np.empty(0), np.empty((len(runs), 0))
    grid = np.linspace(start, end, 400)
    return grid, np.array([np.interp(grid, x, y) for x, y in curves])


def worth_showing(known: Mapping[str, float], lowest: float) -> dict[float, str]:
    """Return the known returns to draw beside curves, in ascending order, with the agents' names.

    These are the returns above `lowest`, the curves' lowest return, and the next return below.
    """
    below = max((value for value in known.values() if value < lowest), default=lowest)
    shown: dict[float, list[str]] = {}
    for name, value in sorted(known.items(), key=lambda item: item[1]):
        if value >= below:
            shown.setdefault(value, []).append(name)
    return {value: ", ".join(names) for value, names in shown.items()}


def verdict(mean: float, known: Mapping[str, float], margin: float = 0.0) -> str | None:
    """Return in words how a mean return compares with known agents' returns in equal episodes.

    The words name the best agent that is not better, and the weakest agent that is better. An agent
    whose return is within the margin, half of the mean's interval, is called about as good. None if
    no agent is known.
    """

    def named(name: str) -> str:
        return f"{name} ({known[name]:.1f})"

    weaker = [named(name) for name in sorted(known, key=known.__getitem__) if known[name] <= mean]
    better = [named(name) for name in sorted(known, key=known.__getitem__) if known[name] > mean]
    if not known:
        return None
    near = min(known, key=lambda name: abs(known[name] - mean))
    if abs(known[near] - mean) <= margin:
        clearly = {name: value for name, value in known.items() if value > mean + margin}
        not_as = (
            f", not as good as {named(min(clearly, key=clearly.__getitem__))}" if clearly else ""
        )
        return f"about as good as {named(near)}{not_as}"
    if not better:
        return f"better than every known agent; the best is {weaker[-1]}"
    if not weaker:
        return f"worse than every known agent; the weakest is {better[0]}"
    return f"better than {weaker[-1]}, not as good as {better[0]}"


def returns_of_known_agents(config: TrainConfig) -> Mapping[str, float]:
    """Return the mean returns of other agents in a run's episodes, by name. They are known only for
    guests, and for runs that learn from the guest's own reward."""
    guest = guests.get(config.env)
    if guest is None or config.reward_from:
        return {}
    return guest.known_returns(config.env_args)


def known_to_all(configs: Iterable[TrainConfig]) -> Mapping[str, float]:
    """Return the mean returns of other agents, if they are equal in all these runs' episodes."""
    first, *others = map(returns_of_known_agents, configs)
    return first if all(other == first for other in others) else {}


def groups_of(names: Sequence[str], configs: Sequence[Mapping[str, Any]]) -> dict[str, list[int]]:
    """Return groups of runs that differ only in their seed: a name, and the runs' numbers.

    A group has each seed once, because runs with equal seeds compare something else.
    """
    groups = []
    for group in _alike(range(len(configs)), configs, ()):
        parts = [group] if _is_of_seeds(group, configs) else _alike(group, configs, WORKERS)
        for part in parts:
            groups += [part] if _is_of_seeds(part, configs) else [[number] for number in part]
    named: dict[str, list[int]] = {}
    for group in groups:
        name = names[group[0]]
        if len(group) > 1:
            start, seeds = _common_start([names[n] for n in group]), f"{len(group)} seeds"
            name = f"{start} ({seeds})" if start else seeds
        while name in named:
            name += "'"
        named[name] = group
    return named


def _alike(
    numbers: Iterable[int], configs: Sequence[Mapping[str, Any]], also: Collection[str]
) -> list[list[int]]:
    """Return groups of runs whose configs differ only in LIKE_SEEDS, but not in `also`."""
    groups: dict[str, list[int]] = {}
    for number in numbers:
        kept = {
            name: value
            for name, value in configs[number].items()
            if name not in LIKE_SEEDS or name in also
        }
        groups.setdefault(json.dumps(kept, default=str, sort_keys=True), []).append(number)
    return list(groups.values())


def _is_of_seeds(group: Sequence[int], configs: Sequence[Mapping[str, Any]]) -> bool:
    return len({configs[number].get("seed") for number in group}) == len(group)


def _common_start(names: Sequence[str]) -> str:
    """Return the common start of the names without the beginning of a seed, as in runs/seed-1."""
    letters = itertools.takewhile(lambda at: len(set(at)) == 1, zip(*names, strict=False))
    start = "".join(at[0] for at in letters).rstrip("0123456789").rstrip("-_ ")
    return start.removesuffix("seed").rstrip("-_ ")
