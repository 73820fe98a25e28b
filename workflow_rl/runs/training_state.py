"""The state of a run without its agent: counters and the last returns."""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import torch

from workflow_rl.agents.policies.distributions import Actions
from workflow_rl.collection.rollout import Rollout
from workflow_rl.evaluation.intervals import Mean, by_kind, mean_of
from workflow_rl.runs.return_curves import RECENT_EPISODES, n_recent
from workflow_rl.terminal import fitting


class Seconds(NamedTuple):
    """The seconds of an update: waiting for the rollout, learning, and the total.

    An evaluation after the update is not counted.
    """

    waiting: float
    learning: float
    total: float


@dataclass
class TrainingState:
    """The state of a run without its agent. Seconds and counts are sums over all updates.

    busy_seconds: the time of stepping and acting in all workers. worker_seconds: all workers' wall
    time. worker_seconds_collecting: the part of worker_seconds while collecting. held_seconds: the
    time in which collecting waited for the learner. dropped_steps: collected transitions that were
    never learned from. slots: for envs that go on from unroll to unroll, the episode of each env,
    its actions so far, and its curriculum's total. episode_length: the mean length in steps in the
    last rollout in which episodes ended, 0 before that. skipped_episodes: numbers of episodes that
    could not be played. unfinished: numbers of running episodes that are older than a counted
    episode. meetings: how many exchanges of a population the policy took part in. diverged:
    whether the policy learns nothing before the next exchange. unlogged: the last update's metrics,
    if its evaluation was interrupted. best_score: the score of best.safetensors during training.
    best_update: the update with best_score. recent_returns, recent_variants, recent_costs: of the
    last episodes, oldest first. evaluated_costs: costs of the last evaluation's episodes. Costs are
    sums over an episode.
    """

    updates: int = 0
    episodes: int = 0
    env_steps: int = 0
    wall_seconds: float = 0.0
    collect_seconds: float = 0.0
    update_seconds: float = 0.0
    busy_seconds: float = 0.0
    worker_seconds: float = 0.0
    worker_seconds_collecting: float = 0.0
    learner_idle_seconds: float = 0.0
    held_seconds: float = 0.0
    workers_restarted: int = 0
    dropped_steps: int = 0
    slots: list[tuple[int, Actions | None, int | None]] = field(default_factory=list)
    episode_length: float = 0.0
    skipped_episodes: list[int] = field(default_factory=list)
    unfinished: list[int] = field(default_factory=list)
    meetings: int = 0
    diverged: bool = False
    unlogged: dict[str, float] | None = None
    best_score: float = float("-inf")
    best_update: int = 0
    recent_returns: deque[float] = field(default_factory=lambda: deque(maxlen=RECENT_EPISODES))
    recent_variants: deque[str] = field(default_factory=lambda: deque(maxlen=RECENT_EPISODES))
    recent_costs: deque[list[float]] = field(default_factory=lambda: deque(maxlen=RECENT_EPISODES))
    evaluated_costs: list[list[float]] = field(default_factory=list)

    def advance(self, rollout: Rollout, seconds: Seconds) -> None:
        self.updates += 1
        self.worker_seconds_collecting += rollout.worker_seconds
        self.wall_seconds += seconds.total
        self.worker_seconds += rollout.n_workers * seconds.total
        self.episodes += rollout.episodes
        self.env_steps += rollout.env_steps
        self.dropped_steps += rollout.dropped_steps
        self.collect_seconds += rollout.collect_seconds
        self.update_seconds += seconds.learning
        self.learner_idle_seconds += seconds.waiting
        self.held_seconds += rollout.held_seconds
        self.busy_seconds += rollout.busy_seconds
        self.workers_restarted += rollout.workers_restarted
        self.slots = [
            (slot.episode, slot.actions, slot.begun_with or slot.total)
            for slot in rollout.positions
        ]
        self.skipped_episodes += rollout.skipped
        self.unfinished = list(rollout.unfinished)
        if rollout.episode_lengths:
            self.episode_length = float(np.mean(rollout.episode_lengths))
        self.recent_returns.extend(rollout.returns)
        self.recent_variants.extend(rollout.variants)
        self.recent_costs.extend(rollout.episode_costs)

    @property
    def logged_updates(self) -> int:
        """The number of updates with a row of metrics."""
        return self.updates - (self.unlogged is not None)

    @property
    def n_recent(self) -> int:
        return n_recent(self.episodes, self.env_steps, self.episode_length)

    def has_skipped(self, episodes: int = RECENT_EPISODES) -> bool:
        return has_skipped(self.skipped_episodes, self.episodes, episodes)

    def recent_mean(
        self, drawn: Sequence[str], episodes: int | None = None, chosen_of: int = 1
    ) -> Mean | None:
        """Return the mean return of the last episodes, or None before an episode has ended.

        drawn: the environment's variants, which are weighted by `intervals.by_kind`. episodes: the
        number of episodes, by default `n_recent`. chosen_of: see `intervals.quantile`."""
        returns, variants = self._last(episodes or self.n_recent)
        return mean_of(*by_kind(returns, variants, drawn), chosen_of) if returns else None

    def _last(self, episodes: int) -> tuple[list[float], list[str]]:
        return list(self.recent_returns)[-episodes:], list(self.recent_variants)[-episodes:]

    def measured_costs(self, evaluates: bool) -> list[list[float]]:
        """Return the costs [N, C] of the last evaluation, or of the last training episodes."""
        return self.evaluated_costs if evaluates else list(self.recent_costs)[-self.n_recent :]

    def recent_means(self) -> dict[str, float]:
        """Return the mean return of each variant in the `n_recent` last episodes, if several."""
        returns, variants = self._last(self.n_recent)
        of_each: dict[str, list[float]] = {name: [] for name in sorted({*variants})}
        for value, variant in zip(returns, variants, strict=False):
            of_each[variant].append(value)
        if len(of_each) < 2:
            return {}
        return {name: float(np.mean(values)) for name, values in of_each.items()}

    def returns_in_words(self, drawn: Sequence[str]) -> str:
        """Return the mean return of the last episodes, and of each variant if there are several.
        drawn: see `recent_mean`."""
        mean = self.recent_mean(drawn)
        if mean is None:
            return "no episode has ended"
        means = self.recent_means()
        digits = fitting(1, mean.mean, *means.values())
        told = f"mean return {mean.mean:{digits}}"
        if means:
            told += f" ({', '.join(f'{name} {value:{digits}}' for name, value in means.items())})"
        # The number comes first, because a narrow terminal cuts the line's end.
        return f"{told} of the last {min(self.n_recent, len(self.recent_returns))}"

    def to_dict(self) -> dict[str, Any]:
        slots = [
            [episode, None if actions is None else torch.from_numpy(_smallest(actions)), total]
            for episode, actions, total in self.slots
        ]
        names = ("recent_returns", "recent_variants", "recent_costs")
        recent = {name: list(getattr(self, name)) for name in names}
        return {**vars(self), **recent, "slots": slots}


def has_skipped(skipped: Sequence[int], n_played: int, episodes: int = RECENT_EPISODES) -> bool:
    """Return whether more than 1% of the last episodes could not be played. The mean return of the
    other episodes would be misleading, because the agent may cause the failures."""
    n_last = min(episodes, n_played)
    return sum(number >= n_played - n_last for number in skipped) > n_last / 100


def _smallest(actions: Actions) -> Actions:
    """Return actions as bytes if they fit: a checkpoint has all actions of a running episode."""
    fits = actions.dtype == np.int64 and not (actions >> 8).any()
    return actions.astype(np.uint8) if fits else actions
