"""Population-based training: the policies of a run meet after equal amounts of experience.

So a population is the same whatever its workers, kills and resumes. Jaderberg et al. 2017,
"Population based training of neural networks", algorithm 1, with truncation selection.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from workflow_rl.environments.episode import SeedStream
from workflow_rl.errors import ConfigError, UserError
from workflow_rl.runs.config import POPULATION_FILE, TrainConfig
from workflow_rl.runs.execute import Plan, new_plan
from workflow_rl.runs.learner import Learner, budgets_in
from workflow_rl.runs.loop import Meetings
from workflow_rl.runs.run_dir import NotWrittenError
from workflow_rl.runs.several_policies import (
    SHARES,
    VARIABLE,
    Copy,
    ExchangeConfig,
    Meeting,
    PopulationRecord,
    Values,
    require_same_end,
)

RANKED_EPISODES = 100


# Further streams of random numbers beside the learners' streams. They are spawn keys, because
# SeedSequence ignores a trailing 0: [seed, 0, 0] would equal the learner's [seed, 0].
DRAWS, MEETINGS = 0, 1


def population_plan(config: TrainConfig, n_policies: int, exchange: ExchangeConfig) -> Plan:
    """Return the plan of a new population. Each member's first settings are drawn from the
    exchange's ranges. Raises ConfigError."""
    require_variable(config)
    require_same_end(config)
    plan = new_plan(config, n_policies)
    configs = [
        member.changed(settings=config.settings.changed(**drawn(exchange.ranges, member.seed)))
        for member in plan.configs
    ]
    return dataclasses.replace(plan, configs=configs, exchange=exchange)


def require_variable(config: TrainConfig) -> None:
    """Raise ConfigError if the algorithm lacks settings that searches and populations vary."""
    missing = [name for name in VARIABLE if name not in type(config.settings).model_fields]
    if missing:
        raise ConfigError(
            "algorithm",
            f"{config.algorithm} does not go with searches and populations: it has no "
            f"{', '.join(missing)}",
        )


def drawn(ranges: Mapping[str, tuple[float, float]], seed: int) -> Values:
    """Return a member's first settings.

    They are log-uniform between the ends. For a share x, 1 - x is log-uniform.
    """
    random = random_of(seed, DRAWS)
    settings = {}
    for name, ends in sorted(ranges.items()):
        low, high = sorted(1 - end for end in ends) if name in SHARES else ends
        value = float(np.exp(random.uniform(np.log(low), np.log(high))))
        settings[name] = 1 - value if name in SHARES else value
    return settings


def random_of(seed: int, *stream: int) -> np.random.Generator:
    """Return a population's generator of random numbers. stream: DRAWS or MEETINGS."""
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=stream))


class Population(Meetings):
    """The members' meetings, as `loop.train_together` has them, kept in the population's folder.

    A meeting is in the file before anything of it is done, and done and saved before anybody learns
    on: a run that is killed on the way finds what is left to do.
    """

    end_together = True

    def __init__(
        self, path: Path, record: PopulationRecord | None, learners: Sequence[Learner]
    ) -> None:
        """Raises UserError if the members' checkpoints are not of this record."""
        assert record is not None
        assert record.exchange is not None
        self._path = path
        self._record = record
        self._exchange = ExchangeConfig(**record.exchange)
        self._learners = learners
        met = {learner.state.meetings for learner in learners}
        n_meetings = len(record.meetings)
        if wrong := met - {n_meetings, n_meetings - 1}:
            raise UserError(
                f"{path}: a policy's checkpoint knows of {min(wrong)} meetings, and "
                f"{POPULATION_FILE} of {n_meetings}"
            )

    @property
    def settings(self) -> list[Values]:
        """Everybody's present ones."""
        names = self._exchange.ranges
        return [
            {name: getattr(learner.config.settings, name) for name in names}
            for learner in self._learners
        ]

    def is_due(self, learner: Learner) -> bool:
        """Nobody learns on while a meeting is not over for all."""
        is_there = learner.position >= self._next or learner.state.diverged
        return is_there or bool(self._late())

    def can_rescue(self, learner: Learner) -> bool:
        """Whether there is a meeting to come, and another from which it can take over then."""
        total = learner.config.total_episodes or learner.config.total_steps
        assert total is not None
        others = (other for other in self._learners if other is not learner)
        return self._next < total and not all(other.state.diverged for other in others)

    @property
    def _next(self) -> int:
        """Where the next meeting is: a rollout can be longer than a period, but what nobody has
        learned anything since is no further meeting."""
        start, period = self._exchange.start, self._exchange.period
        meetings = self._record.meetings
        return start + (meetings[-1].at - start) // period * period + period if meetings else start

    def _late(self) -> list[int]:
        """Those for whom the last meeting is not over: the run was stopped in the middle of it."""
        n_meetings = len(self._record.meetings)
        return [
            n for n, learner in enumerate(self._learners) if learner.state.meetings < n_meetings
        ]

    def meet(self) -> None:
        """Rank the members; have the worst take over from the best, and change settings."""
        if not self._late():
            for learner in self._learners:
                learner.save()
            self._decide()
        meeting = self._record.meetings[-1]
        sources = dict(meeting.copies)
        for number in self._late():
            learner = self._learners[number]
            settings: Mapping[str, Any] = meeting.settings[number]
            if number in sources:
                # One of the best, whom the meeting leaves as it is.
                learner.take_over(self._learners[sources[number]])
            learner.change_settings(learner.config.settings.changed(**settings))
            learner.state.meetings = len(self._record.meetings)
            learner.save()

    def _decide(self) -> None:
        seed = self._learners[0].config.seed
        random = random_of(seed, MEETINGS, len(self._record.meetings))
        scores = [self.score(learner) for learner in self._learners]
        holds = []
        for learner in self._learners:
            sums = learner.state.measured_costs(self._exchange.rank_by == "evaluation")
            holds.append(all(kept.holds for kept in budgets_in(learner.config, sums)))
        copies, settings = exchanged(scores, holds, self.settings, self._exchange, random)
        at = min(learner.position for learner in self._learners if not learner.state.diverged)
        self._record.meetings.append(Meeting(at, scores, copies, settings))
        try:
            self._record.write(self._path)
        except OSError as error:
            raise NotWrittenError(f"{self._path} cannot be written: {error.strerror}") from error

    def score(self, learner: Learner) -> float:
        """What members are ranked by; minus infinity before there is anything, for one that has
        diverged, and where episodes could not be played."""
        if learner.state.diverged:
            return -math.inf
        if self._exchange.rank_by == "evaluation":
            # On the same episodes as all others: of members with the same policy none is better.
            mean = learner.evaluate(SeedStream.RANKING, self._learners[0].config.seed)
            return -math.inf if math.isnan(mean) else mean
        latest = learner.state.recent_mean(learner.config.environment.variants, RANKED_EPISODES)
        if latest is None or learner.state.has_skipped(RANKED_EPISODES):
            return -math.inf
        return latest.mean


def perturbed(settings: Values, exchange: ExchangeConfig, random: np.random.Generator) -> Values:
    """Return settings of which each has changed with the probability `mutation_rate`.

    A setting is multiplied, or as likely divided, by a number that is uniform between
    `perturb_min` and `perturb_max`. For a share x, 1 - x is.
    """
    changed = {}
    for name, value in sorted(settings.items()):
        if random.random() < exchange.mutation_rate:
            factor = random.uniform(exchange.perturb_min, exchange.perturb_max)
            if random.random() < 0.5:
                factor = 1 / factor
            value = max(0.0, 1 - (1 - value) * factor) if name in SHARES else value * factor
        changed[name] = float(value)
    return changed


def exchanged(
    scores: Sequence[float],
    holds: Sequence[bool],
    settings: Sequence[Values],
    exchange: ExchangeConfig,
    random: np.random.Generator,
) -> tuple[list[Copy], list[Values]]:
    """Return who takes over from whom, and the settings of all members from then on.

    Of members with equal scores the one with the lower number is the better. A member without a
    score has minus infinity, and is among the worst. holds: whether a member holds its
    budgets, which counts before scores.
    """

    def rank(member: int) -> tuple[bool, bool, float]:
        return scores[member] > -math.inf, holds[member], scores[member]

    n_replaced = min(math.ceil(exchange.replace_fraction * len(scores)), len(scores) // 2)
    ranking = sorted(range(len(scores)), key=rank, reverse=True)
    n_unscored = list(scores).count(-math.inf)
    scored = ranking[: len(ranking) - n_unscored]
    best = scored[: max(n_replaced, min(n_unscored, 1))]
    worst = ranking[len(ranking) - max(n_replaced, n_unscored) :]
    copies, after = [], []
    for member, values in enumerate(settings):
        if best and member in worst:
            source = best[random.integers(len(best))]
            is_better = holds[source] > holds[member]
            if is_better or _is_worth_it(scores[member], scores[source], exchange):
                copies.append(Copy(member, source))
                values = settings[source]
        after.append(values if member in best else perturbed(values, exchange, random))
    return copies, after


def _is_worth_it(score: float, other: float, exchange: ExchangeConfig) -> bool:
    gap = other - score
    if not math.isfinite(gap):  # Some have no score yet.
        return other > score
    return gap > max(exchange.replace_gap_absolute, exchange.replace_gap * abs(score))
