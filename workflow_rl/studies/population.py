"""Population-based training: the policies of a run meet after equal amounts of experience.

So the number of workers, kills and resumes do not change a population. Jaderberg et al. 2017,
"Population based training of neural networks", algorithm 1, with truncation selection.
"""

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

    Each setting is log-uniform between its ends. For a share x, 1 - x is log-uniform.
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
    """The members' meetings, which `loop.train_together` calls, and their record in a file.

    The file holds a meeting's decisions before a member applies them. No member learns on until all
    have applied and saved them. So a killed run finds the members that have yet to apply them.
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
        """The present values of the exchanged settings, for each member."""
        names = self._exchange.ranges
        return [
            {name: getattr(learner.config.settings, name) for name in names}
            for learner in self._learners
        ]

    def is_due(self, learner: Learner) -> bool:
        """Return whether a member waits for a meeting. Then it waits for all members to end it."""
        is_there = learner.position >= self._next or learner.state.diverged
        return is_there or bool(self._late())

    def can_rescue(self, learner: Learner) -> bool:
        """Return whether a later meeting can replace a member by one that has not diverged."""
        total = learner.config.total_episodes or learner.config.total_steps
        assert total is not None
        others = (other for other in self._learners if other is not learner)
        return self._next < total and not all(other.state.diverged for other in others)

    @property
    def _next(self) -> int:
        """The position of the next meeting. Periods in which no member learned have no meetings."""
        start, period = self._exchange.start, self._exchange.period
        meetings = self._record.meetings
        if not meetings:
            return start
        return start + (meetings[-1].at - start) // period * period + period

    def _late(self) -> list[int]:
        """Return the members that a stopped run has not yet changed as the last meeting decided."""
        n_meetings = len(self._record.meetings)
        return [
            n for n, learner in enumerate(self._learners) if learner.state.meetings < n_meetings
        ]

    def meet(self) -> None:
        """Rank the members, replace the worst by copies of the best, and change their settings."""
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
                # The source is one of the best members, which the meeting leaves unchanged.
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
        """Return the number by which the exchange ranks a member. It is minus infinity for a member
        that has no episodes yet, has diverged, or has skipped episodes."""
        if learner.state.diverged:
            return -math.inf
        if self._exchange.rank_by == "evaluation":
            # All members play the same episodes, so members with equal policies score equally.
            mean = learner.evaluate(SeedStream.RANKING, self._learners[0].config.seed)
            return -math.inf if math.isnan(mean) else mean
        latest = learner.state.recent_mean(learner.config.environment.variants, RANKED_EPISODES)
        if latest is None or learner.state.has_skipped(RANKED_EPISODES):
            return -math.inf
        return latest.mean


def perturbed(settings: Values, exchange: ExchangeConfig, random: np.random.Generator) -> Values:
    """Return settings of which each has changed with the probability `mutation_rate`.

    A changed setting is multiplied or divided, with equal probabilities, by a number that is
    uniform between `perturb_min` and `perturb_max`. For a share x, 1 - x is multiplied or divided.
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
    """Return which member copies which member, and the settings of all members from then on.

    Of members with equal scores, the member with the lower number ranks higher. A member without a
    score has minus infinity, and is among the worst. holds: whether each member holds its budgets.
    Members that hold their budgets rank above members that do not.
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
    if not math.isfinite(gap):  # A member without a score has minus infinity.
        return other > score
    return gap > max(exchange.replace_gap_absolute, exchange.replace_gap * abs(score))
