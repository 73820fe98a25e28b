"""The command that trains a population: policies that learn from each other's success."""

from typing import Any

import click

from workflow_rl.commands.options import plain_option, range_of, setting_options, spelled, under
from workflow_rl.commands.train import run_command
from workflow_rl.commands.training_options import training_command
from workflow_rl.errors import ConfigError
from workflow_rl.runs.config import TrainConfig
from workflow_rl.runs.several_policies import VARIABLE, ExchangeConfig

RANGES = {"learning_rate": (1e-4, 1e-2), "entropy_coef": (1e-3, 1e-1)}
MEETINGS = 20
"""Number of meetings in a run, unless --period is given."""


def _population_options() -> list[click.Option]:
    ranges = plain_option(
        "--range", "ranges", type=range_of(VARIABLE), multiple=True,
        show_default="learning-rate=1e-4:1e-2 and entropy-coef=1e-3:1e-1",
        help="A setting that differs between members, and its range. Each member draws a "
             "value log-uniformly. May be given again. Members do not differ in a setting that "
             f"you give a value. One of {spelled(VARIABLE)}.",
    )  # fmt: skip
    shown = {"period": f"a {MEETINGS}th of the run", "start": "one period"}
    others = ExchangeConfig.model_fields.keys() - {"ranges"}
    return [ranges, *setting_options(ExchangeConfig, others, shown)]


@training_command("train-population", under("Population", *_population_options()), n_policies=8)
def train_population(**options: Any) -> None:
    """Train policies that differ in their settings and learn from each other's success.

    Population-based training (Jaderberg et al. 2017): at every meeting the worst take over what
    the best have learned, with their settings, which are then changed a little. Members share one
    pool of asynchronous workers. The same seed gives the same weights and the same family tree,
    whatever the number of workers and however often the run is stopped and resumed.

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
    given = {name: options[name] for name in ExchangeConfig.model_fields}
    return ExchangeConfig(
        **{
            **given,
            "ranges": _ranges(config, dict(options["ranges"])),
            "period": options["period"] or max(1, total // MEETINGS),
        }
    )


def _ranges(
    config: TrainConfig, asked: dict[str, tuple[float, float]]
) -> dict[str, tuple[float, float]]:
    """Return the ranges that were asked for, or the default ones of what was not given a value.
    Raises ConfigError where a setting has both a value and a range, or nothing has a range."""
    given = config.given.get("settings") or {}
    for name in asked:
        if name in given:
            raise ConfigError(name, "it has a value and a --range: leave one of them out")
    ranges = asked or {name: ends for name, ends in RANGES.items() if name not in given}
    if not ranges:
        raise ConfigError(
            "ranges", f"nothing is left to differ: {spelled(tuple(RANGES))} were given values"
        )
    return ranges
