"""Several policies of one run: what they begin with, and how they exchange settings.

Jaderberg et al. 2017, "Population based training of neural networks", algorithm 1, with truncation
selection. Settings and names are those of Sample Factory (Petrenko et al. 2020). Imports no torch.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple, Self

import numpy as np
from pydantic import Field, model_validator

from workflow_rl.agents.settings import Count, NotNegative, Settings, Share
from workflow_rl.errors import ConfigError

if TYPE_CHECKING:
    from workflow_rl.runs.config import TrainConfig

Values = dict[str, float]
"""Settings of PPO by their names."""

SHARES = ("discount", "gae_lambda")
"""Settings of which the distance from 1 is drawn and perturbed."""
VARIABLE = (
    "learning_rate",
    "entropy_coef",
    "clip_range",
    "value_coef",
    "max_grad_norm",
    "reward_scale",
    *SHARES,
)

# Streams of random numbers besides those of the learners. They are spawn keys: SeedSequence ignores
# a trailing 0, so that [seed, 0, 0] would be the learner's [seed, 0].
_DRAWS, _MEETINGS = 0, 1


class Copy(NamedTuple):
    """The policy `of` took over all that the policy `source` had learned."""

    of: int
    source: int


class ExchangeConfig(Settings):
    """How members of a population learn from each other. Making one raises ConfigError.

    At a meeting, one of the worst members takes over all that one of the best has learned, and its
    settings, if that member is better by more than both gaps.
    """

    ranges: dict[str, Annotated[tuple[float, float], Field(strict=False)]] = Field(
        description="The smallest and the largest value of each setting that members differ in. "
        "Each member begins with a value drawn log-uniformly."
    )
    period: Count = Field(
        description="Number of episodes of each member between meetings; with total_steps, number "
        "of env steps. A rollout may be longer."
    )
    start: Count = Field(  # type: ignore[assignment]
        None, description="Episodes or env steps before the first meeting. By default one period."
    )
    replace_fraction: Share = Field(
        0.3,
        description="Share of the members that count as the best, and share that counts as the "
        "worst. Each is rounded up, and is at most half.",
    )
    replace_gap: NotNegative = Field(
        0.1,
        description="One of the best replaces one of the worst only if its lead is greater than "
        "this share of the worse score.",
    )
    replace_gap_absolute: NotNegative = Field(
        1e-6,
        description="The lead in score must also be greater than this number.",
    )
    mutation_rate: Share = Field(
        0.15,
        description="Probability that a setting changes, in a member that is not among the best.",
    )
    perturb_min: Annotated[float, Field(ge=1)] = Field(
        1.1, description="Smallest factor by which a setting is multiplied or divided."
    )
    perturb_max: Annotated[float, Field(ge=1)] = Field(
        1.5, description="Largest factor by which a setting is multiplied or divided."
    )
    rank_by: Literal["training", "evaluation"] = Field(
        "training",
        description="training: by the mean return of the last 100 training episodes. evaluation: "
        "by that of eval_episodes greedy episodes, the same for all members.",
    )

    def __init__(self, **values: Any) -> None:
        if values.get("start") is None:
            values = {**values, "start": values.get("period")}
        super().__init__(**values)

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        if self.perturb_max < self.perturb_min:
            raise ConfigError(
                "perturb_max",
                f"{self.perturb_max:g} is too small: it must be ",
                "perturb_min",
                f", {self.perturb_min:g}, or greater",
            )
        for name, (low, high) in self.ranges.items():
            if name not in VARIABLE:
                raise ConfigError("ranges", f"{name!r} is not one of {', '.join(VARIABLE)}")
            require_range(name, low, high)
        return self


def require_range(name: str, low: float, high: float) -> None:
    """Raise ConfigError for ends between which nothing can be drawn in logarithms."""
    below_one = name not in SHARES or high < 1
    if not (0 < low <= high < math.inf and below_one):
        raise ConfigError(
            "ranges",
            f"{name}={low:g}:{high:g} is no range: give the smallest and the largest value, "
            f"greater than 0{' and less than 1' * (name in SHARES)}",
        )


def drawn(ranges: Mapping[str, tuple[float, float]], seed: int) -> Values:
    """Return the settings that a member begins with.

    They are log-uniform between the ends. For a share x, 1 - x is log-uniform.
    """
    random = _random(seed, _DRAWS)
    settings = {}
    for name, ends in sorted(ranges.items()):
        low, high = sorted(1 - end for end in ends) if name in SHARES else ends
        value = float(np.exp(random.uniform(np.log(low), np.log(high))))
        settings[name] = 1 - value if name in SHARES else value
    return settings


def member_configs(
    config: TrainConfig, n_policies: int, exchange: ExchangeConfig | None
) -> list[TrainConfig]:
    """Return the configs of several policies, each with a seed of its own. Raises ConfigError.

    exchange: how the policies learn from each other, or None. Each begins with settings drawn from
    the exchange's ranges.
    """
    require_shareable(config)
    if exchange is not None:
        require_variable(config)
        require_same_end(config)
    configs = []
    for seed in range(config.seed, config.seed + n_policies):
        changes: dict[str, Any] = {} if seed == config.seed else {"seed": seed}
        if exchange is not None:
            changes["settings"] = config.settings.changed(**drawn(exchange.ranges, seed))
        configs.append(config.changed(**changes) if changes else config)
    return configs


def require_same_end(config: TrainConfig) -> None:
    """Raise ConfigError if a member could come to its end before the others."""
    for name in ("stop_at_return", "patience"):
        if (value := getattr(config, name)) is not None:
            raise ConfigError(
                name, f"{value} does not go with a population, whose policies end together"
            )


def require_variable(config: TrainConfig) -> None:
    """Raise ConfigError if the algorithm lacks settings that searches and populations vary."""
    missing = [name for name in VARIABLE if name not in type(config.settings).model_fields]
    if missing:
        raise ConfigError(
            "algorithm",
            f"{config.algorithm} does not go with searches and populations: it has no "
            f"{', '.join(missing)}",
        )


def require_shareable(config: TrainConfig) -> None:
    """Raise ConfigError if several policies like this cannot share workers."""
    if config.batching != "exact-lag":
        raise ConfigError(
            "batching",
            f"{config.batching} does not go with several policies: they share workers batch by "
            "batch, with exact-lag",
        )
    if config.num_steps_per_env is not None:
        raise ConfigError(
            "num_steps_per_env",
            f"{config.num_steps_per_env} does not go with several policies: they share envs from "
            "one complete episode to the next",
        )


def meeting_random(seed: int, number: int) -> np.random.Generator:
    """Return the random numbers of the meeting of this number."""
    return _random(seed, _MEETINGS, number)


def _random(seed: int, *stream: int) -> np.random.Generator:
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=stream))


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
    settings: Sequence[Values],
    exchange: ExchangeConfig,
    random: np.random.Generator,
) -> tuple[list[Copy], list[Values]]:
    """Return who takes over from whom, and the settings of all members from then on.

    Of members with equal scores the one with the lower number is the better. A member without a
    score has minus infinity, and is among the worst.
    """
    n_replaced = min(math.ceil(exchange.replace_fraction * len(scores)), len(scores) // 2)
    ranking = sorted(range(len(scores)), key=lambda member: -scores[member])
    n_unscored = list(scores).count(-math.inf)
    scored = ranking[: len(ranking) - n_unscored]
    best = scored[: max(n_replaced, min(n_unscored, 1))]
    worst = ranking[len(ranking) - max(n_replaced, n_unscored) :]
    copies, after = [], []
    for member, values in enumerate(settings):
        if best and member in worst:
            source = best[random.integers(len(best))]
            if _is_worth_it(scores[member], scores[source], exchange):
                copies.append(Copy(member, source))
                values = settings[source]
        after.append(values if member in best else perturbed(values, exchange, random))
    return copies, after


def _is_worth_it(score: float, other: float, exchange: ExchangeConfig) -> bool:
    gap = other - score
    if not math.isfinite(gap):  # Some have no score yet.
        return other > score
    return gap > max(exchange.replace_gap_absolute, exchange.replace_gap * abs(score))
