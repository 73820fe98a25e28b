"""The command that trains a population: policies that learn from each other's success."""

from __future__ import annotations

from typing import Any

import click

from workflow_rl.commands.options import (
    COUNT,
    NOT_NEGATIVE,
    SHARE,
    FiniteRange,
    GroupedCommand,
    Range,
    spelled,
    training_options_and,
)
from workflow_rl.commands.train import run_command
from workflow_rl.runs.config import ConfigError, TrainConfig
from workflow_rl.runs.exchange import RANK_BY, VARIABLE, ExchangeConfig

RANGES = {"learning_rate": (1e-4, 1e-2), "entropy_coef": (1e-3, 1e-1)}
MEETINGS = 20
"""So many fit into a run, unless --period says otherwise."""


def _population_options(option: Any) -> list[Any]:
    return [
        option("--range", "ranges", type=Range(VARIABLE), multiple=True,
               show_default="learning-rate=1e-4:1e-2 and entropy-coef=1e-3:1e-1",
               help="A setting that members differ in, and between what it is drawn for each, "
                    f"log-uniformly; may be given again. One of {spelled(VARIABLE)}."),
        option("--period", type=COUNT, show_default=f"a {MEETINGS}th of the run",
               help="Episodes of each member between meetings, or steps with --total-steps."),
        option("--start", type=COUNT, show_default="one period",
               help="When the first meeting is."),
        option("--replace-fraction", type=SHARE, default=0.3,
               help="How many of the members are the best, and how many the worst."),
        option("--replace-gap", type=NOT_NEGATIVE, default=0.1,
               help="One of the worst takes over from one of the best if that is better by more "
                    "than this share of its own score."),
        option("--replace-gap-absolute", type=NOT_NEGATIVE, default=1e-6,
               help="And by more than this."),
        option("--mutation-rate", type=SHARE, default=0.15,
               help="How likely each setting of a member that is not among the best changes."),
        option("--perturb-min", type=FiniteRange(min=1), default=1.1,
               help="It is multiplied or divided by at least this."),
        option("--perturb-max", type=FiniteRange(min=1), default=1.5, help="And by at most this."),
        option("--rank-by", type=click.Choice(RANK_BY), default="training",
               help="training: the mean return of the last 100 training episodes. evaluation: of "
                    "--eval-episodes greedy ones, the same for all members."),
    ]  # fmt: skip


@click.command("train-population", cls=GroupedCommand)
@training_options_and({"Population": _population_options}, n_policies=8)
def train_population(**options: Any) -> None:
    """Train policies that differ in their settings and learn from each other's success.

    Population-based training (Jaderberg et al. 2017): every so many episodes the worst take over
    what the best have learned, with their settings, which are then changed a little. Members share
    one pool of asynchronous workers. The same seed gives the same weights and the same family
    tree, whatever the number of workers and however often the run is stopped and resumed.

    \b
    Examples:
      train-population --n-policies 8 --simulator compiled --total-episodes 10000
      train-population --env CartPole-v1 --range learning-rate=1e-5:1e-1
    """
    run_command("async", options, exchange_of=lambda config: _exchange(config, options))


def _exchange(config: TrainConfig, options: dict[str, Any]) -> ExchangeConfig:
    if options["n_policies"] < 2:
        raise ConfigError("n_policies", "a population has 2 or more")
    if config.async_rl:
        raise ConfigError(
            "async_rl", "workers collect for one policy while another learns anyway: leave it out"
        )
    total = config.total_episodes or config.total_steps
    assert total is not None
    return ExchangeConfig(
        ranges=dict(options["ranges"]) or RANGES,
        period=options["period"] or max(1, total // MEETINGS),
        **{
            name: options[name]
            for name in (
                "start",
                "replace_fraction",
                "replace_gap",
                "replace_gap_absolute",
                "mutation_rate",
                "perturb_min",
                "perturb_max",
                "rank_by",
            )
        },
    )
