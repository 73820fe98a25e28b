"""How policies of one run learn from each other's success: settings, and pure functions.

Jaderberg et al. 2017, "Population based training of neural networks", algorithm 1, with truncation
selection; settings and names as in Sample Factory (Petrenko et al. 2020). Imports no torch.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from workflow_rl.runs.bridge import mistyped
from workflow_rl.runs.config import ConfigError

Settings = dict[str, float]
"""Hyperparameters by their names in PPOConfig."""

SHARES = ("discount", "gae_lambda")
"""Settings whose distance from 1 is what is drawn and perturbed."""
VARIABLE = (
    "learning_rate",
    "entropy_coef",
    "clip_range",
    "value_coef",
    "max_grad_norm",
    "reward_scale",
    *SHARES,
)
RANK_BY = ("training", "evaluation")


# Streams of random numbers besides those of the learners. As spawn keys: SeedSequence takes a
# trailing 0 for nothing, so that [seed, 0, 0] would be the learner's [seed, 0].
_DRAWS, _MEETINGS = 0, 1


class Copy(NamedTuple):
    """The policy `of` took over all that the policy `source` had learned."""

    of: int
    source: int


@dataclass(frozen=True)
class ExchangeConfig:
    """How members of a population learn from each other. Raises ConfigError, naming the field.

    period: episodes (or env steps, where the run is given in them) of each member between meetings,
    or a rollout's, if that is more. start: of the first meeting; None: one period.
    replace_fraction: of the members, rounded up and at most half, how many are the best, and how
    many the worst. One of the worst takes over all that one of the best has learned, and its
    settings, where that is better by more than replace_gap_absolute and by a larger share of its
    own score than replace_gap. mutation_rate: the probability with which each setting of a member
    that is not among the best is multiplied or divided by a number from perturb_min to perturb_max.
    ranges: the smallest and the largest value of each setting that members differ in; they begin
    anywhere between, log-uniformly. rank_by: the mean return of the last 100 training episodes, or
    of the run's evaluation episodes.
    """

    ranges: Mapping[str, tuple[float, float]]
    period: int
    start: int | None = None
    replace_fraction: float = 0.3
    replace_gap: float = 0.1
    replace_gap_absolute: float = 1e-6
    mutation_rate: float = 0.15
    perturb_min: float = 1.1
    perturb_max: float = 1.5
    rank_by: str = "training"

    def __post_init__(self) -> None:
        for name, expected in mistyped(self).items():
            _require(False, name, getattr(self, name), expected)
        if self.start is None:
            object.__setattr__(self, "start", self.period)
        for name in ("period", "start"):
            _require(getattr(self, name) >= 1, name, getattr(self, name), "1 or greater")
        for name in ("replace_fraction", "mutation_rate"):
            _require(0 <= getattr(self, name) <= 1, name, getattr(self, name), "from 0 to 1")
        for name in ("replace_gap", "replace_gap_absolute"):
            _require(getattr(self, name) >= 0, name, getattr(self, name), "0 or greater")
        _require(self.perturb_min >= 1, "perturb_min", self.perturb_min, "1 or greater")
        _require(
            self.perturb_min <= self.perturb_max < math.inf,
            "perturb_max",
            self.perturb_max,
            f"{self.perturb_min:g} (perturb_min) or greater",
        )
        _require(self.rank_by in RANK_BY, "rank_by", self.rank_by, f"one of {', '.join(RANK_BY)}")
        ranges = {str(name): (float(low), float(high)) for name, (low, high) in self.ranges.items()}
        object.__setattr__(self, "ranges", ranges)
        for name, (low, high) in ranges.items():
            _require(name in VARIABLE, "ranges", name, f"one of {', '.join(VARIABLE)}")
            require_range(name, low, high)

    def to_dict(self) -> dict[str, Any]:
        """Plain values, as the population's file keeps them."""
        return {**dataclasses.asdict(self), "ranges": {n: list(r) for n, r in self.ranges.items()}}


def require_range(name: str, low: float, high: float) -> None:
    """Raises ConfigError for ends between which nothing can be drawn in logarithms."""
    _require(
        0 < low <= high < math.inf and (name not in SHARES or high < 1),
        "ranges",
        f"{name}={low:g}:{high:g}",
        f"NAME=SMALLEST:LARGEST, greater than 0{' and less than 1' * (name in SHARES)}",
    )


def _require(condition: bool, name: str, value: Any, expected: str) -> None:
    if not condition:
        raise ConfigError(name, f"{value} is not {expected}")


def drawn(ranges: Mapping[str, tuple[float, float]], seed: int) -> Settings:
    """What a member begins with: log-uniform between the ends, of 1 - x for a share x."""
    random = _random(seed, _DRAWS)
    settings = {}
    for name, ends in sorted(ranges.items()):
        low, high = sorted(1 - end for end in ends) if name in SHARES else ends
        value = float(np.exp(random.uniform(np.log(low), np.log(high))))
        settings[name] = 1 - value if name in SHARES else value
    return settings


def meeting_random(seed: int, number: int) -> np.random.Generator:
    """What a meeting of this number draws from."""
    return _random(seed, _MEETINGS, number)


def _random(seed: int, *stream: int) -> np.random.Generator:
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=stream))


def perturbed(
    settings: Settings, exchange: ExchangeConfig, random: np.random.Generator
) -> Settings:
    """Each setting with the probability `mutation_rate` multiplied, or as likely divided, by a
    number drawn uniformly from `perturb_min` to `perturb_max`; 1 - x instead of a share x."""
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
    settings: Sequence[Settings],
    exchange: ExchangeConfig,
    random: np.random.Generator,
) -> tuple[list[Copy], list[Settings]]:
    """Who takes over from whom, and everybody's settings from then on.

    Of equal scores the member of the lower number is the better. All without a score, which is then
    minus infinity, are among the worst, and none of them among the best.
    """
    n_replaced = min(math.ceil(exchange.replace_fraction * len(scores)), len(scores) // 2)
    ranking = sorted(range(len(scores)), key=lambda member: -scores[member])
    n_unscored = list(scores).count(-math.inf)
    scored = ranking[: len(ranking) - n_unscored]
    best = scored[: max(n_replaced, min(n_unscored, 1))]
    worst = ranking[len(ranking) - max(n_replaced, n_unscored) :]
    copies, after = [], []
    for member, own in enumerate(settings):
        if best and member in worst:
            source = best[random.integers(len(best))]
            if _is_worth_it(scores[member], scores[source], exchange):
                copies.append(Copy(member, source))
                own = settings[source]
        after.append(own if member in best else perturbed(own, exchange, random))
    return copies, after


def _is_worth_it(own: float, other: float, exchange: ExchangeConfig) -> bool:
    gap = other - own
    if not math.isfinite(gap):  # Some have no score yet.
        return other > own
    return gap > max(exchange.replace_gap_absolute, exchange.replace_gap * abs(own))
