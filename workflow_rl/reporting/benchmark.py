"""How fast each way of collecting plays episodes, and how near it comes to what the machine can do.

The ceiling is measured, not assumed: one free-running process a core, each playing episodes with
the same policy and sending nothing. Variants and ceiling take turns within every round, and a
variant is compared with the ceiling of the same round, so that a machine that is slower for a
minute, or shared, does not decide the outcome.
"""

from __future__ import annotations

import functools
import json
import logging
import math
import statistics
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import click
from tqdm import tqdm

from workflow_rl.collection.parallel_env_async import AsyncParallelEnv
from workflow_rl.collection.rollout import utilisation
from workflow_rl.collection.workers import StopRequested, TooManyFailuresError, WorkerError
from workflow_rl.commands.options import (
    EPISODES,
    PATH,
    SEED,
    FiniteRange,
    chosen_env,
    env_options,
    guest_options,
    plain_option,
    spelling,
)
from workflow_rl.environments.environment import described, guests, make_environment
from workflow_rl.environments.episode import EpisodeSpec, SeedStream
from workflow_rl.output_files import require_writable, write_text
from workflow_rl.reporting.benchmark_report import benchmark_figure, benchmark_table
from workflow_rl.runs.config import (
    ConfigError,
    TrainConfig,
    usable_cores,
)
from workflow_rl.runs.machine import environment
from workflow_rl.runs.preflight import warn_if_results_vary
from workflow_rl.runs.spec import EPISODES_PER_UPDATE

if TYPE_CHECKING:
    from agents.policies.numpy_policy import NumpyPolicy
    from workflow_rl.collection.rollout import Collector

VARIANTS = ("sync", "sync-packed", "async", "sync-training", "async-training")
CEILING = "ceiling"


class Variant(NamedTuple):
    """One bar of the chart. name: one of VARIANTS, or CEILING. simulator: one of the ways in
    which a guest is measured, or another environment's name."""

    name: str
    simulator: str
    config: TrainConfig

    @property
    def is_training(self) -> bool:
        """Whether the policy learns meanwhile."""
        return self.name.endswith("-training")


class Rate(NamedTuple):
    """What one measurement gave."""

    episodes_per_second: float
    env_steps_per_second: float
    worker_utilisation: float


Turn: TypeAlias = Callable[[int], Rate]
"""Measures a variant once, in the round of that number."""


def make_variants(
    simulators: Mapping[str, Mapping[str, Any]],
    n_envs: Sequence[int],
    names: Sequence[str],
    episodes: Mapping[str, int],
    **settings: Any,
) -> list[Variant]:
    """Every combination, and each simulator's ceiling first. Raises ConfigError.

    simulators: the env_args of each, by name. episodes: of a turn, at least, by simulator; in whole
    multiples of the number of envs, so that synchronous collection leaves none idle at the end.
    settings: further fields of TrainConfig.
    """
    variants = []
    for simulator, env_args in simulators.items():
        of_env = {**settings, "env_args": env_args}
        variants.append(_ceiling(simulator, episodes[simulator], **of_env))
        for number in n_envs:
            for name in names:
                packed = math.ceil(number / usable_cores()) if name == "sync-packed" else None
                config = TrainConfig(
                    "async" if name.startswith("async") else "sync",
                    number,
                    envs_per_worker=packed,
                    total_episodes=math.ceil(episodes[simulator] / number) * number,
                    episodes_per_update=_rollout_size(number),
                    **of_env,
                )
                variants.append(Variant(name, simulator, config))
    return variants


def _rollout_size(n_envs: int) -> int:
    """The multiple of n_envs that is at least EPISODES_PER_UPDATE."""
    return math.ceil(EPISODES_PER_UPDATE / n_envs) * n_envs


def _ceiling(simulator: str, episodes: int, **settings: Any) -> Variant:
    config = TrainConfig(
        "async",
        usable_cores(),
        total_episodes=episodes,
        episodes_per_update=_rollout_size(usable_cores()),
        **settings,
    )
    return Variant(CEILING, simulator, config)


def episodes_in(seconds: float, simulator: str, **settings: Any) -> int:
    """How many episodes the machine can play in that time: about what a turn should have."""
    with ExitStack() as stack:
        variant = _ceiling(simulator, EPISODES_PER_UPDATE, **settings)
        rate = _prepare(variant, seconds, stack)(0)
    return math.ceil(rate.episodes_per_second * seconds)


def measure(
    variants: Sequence[Variant], rounds: int, seconds: float, quiet: bool = True
) -> list[list[Rate]]:
    """Each variant's rates, one a round. Raises TooManyFailuresError, StopRequested.

    seconds: length of a turn of the ceiling. It has one of half that length before every other
    variant's, and its rate in a round is their mean: the machine's speed throughout the round.
    Workers are started and warmed up before the first round and idle between their turns; only
    training runs start their own, unmeasured.
    """
    ceilings = {v.simulator: index for index, v in enumerate(variants) if v.name == CEILING}
    others = [index for index, v in enumerate(variants) if v.name != CEILING]
    rates: list[list[Rate]] = [[] for _ in variants]
    with ExitStack() as stack:
        turns = [_prepare(variant, seconds / 2, stack) for variant in variants]
        progress_bar = stack.enter_context(
            tqdm(total=rounds * len(others), unit="turn", disable=quiet or None)
        )
        for number in range(rounds):
            ceiling_rates: dict[int, list[Rate]] = {index: [] for index in ceilings.values()}
            # Every other round backwards: a machine that slows down steadily favours nobody.
            for index in others[:: 1 if number % 2 == 0 else -1]:
                variant = variants[index]
                progress_bar.set_description(f"{variant.simulator} {variant.name}")
                ceiling = ceilings[variant.simulator]
                ceiling_rates[ceiling].append(turns[ceiling](number))
                rates[index].append(turns[index](number))
                progress_bar.update()
            for ceiling, measured in ceiling_rates.items():
                rates[ceiling].append(Rate(*map(statistics.mean, zip(*measured, strict=True))))
    return rates


def _prepare(variant: Variant, ceiling_seconds: float, stack: ExitStack) -> Turn:
    from agents.policies.numpy_policy import NumpyPolicy
    from workflow_rl.runs.learner import make_agent
    from workflow_rl.runs.loop import make_collector, make_pool

    config = variant.config
    if variant.is_training:
        _train(config.changed(total_episodes=config.n_envs), 0)
        return functools.partial(_train, config)
    policy = NumpyPolicy(make_agent(config).policy_parameters())
    pool = stack.enter_context(make_pool(config))
    collector = make_collector(pool, config)
    collector.collect(policy, _specs(config, 0)[: config.n_envs])
    if variant.name == CEILING:
        env = AsyncParallelEnv(pool)
        return functools.partial(_run_freely, config, env, policy, ceiling_seconds)
    return functools.partial(_collect, config, collector, policy)


def _specs(config: TrainConfig, number: int) -> list[EpisodeSpec]:
    """The episodes of a round: the same for all variants of equal length."""
    from workflow_rl.runs.batches import episode_specs

    assert config.total_episodes is not None
    first = number * config.total_episodes
    return episode_specs(config, range(first, first + config.total_episodes), SeedStream.BENCHMARK)


def _run_freely(
    config: TrainConfig, env: AsyncParallelEnv, policy: NumpyPolicy, seconds: float, number: int
) -> Rate:
    counts = env.free_run(policy, _specs(config, number), seconds)
    return Rate(
        sum(count.episodes / count.seconds for count in counts),
        sum(count.env_steps / count.seconds for count in counts),
        1.0,
    )


def _collect(
    config: TrainConfig,
    collector: Collector,
    policy: NumpyPolicy,
    number: int,
) -> Rate:
    # In rollouts of a training run's size: at the end of each, some workers wait for others.
    specs, size = _specs(config, number), config.episodes_per_update
    assert size is not None
    rollouts = [collector.collect(policy, specs[n : n + size]) for n in range(0, len(specs), size)]
    seconds = sum(rollout.collect_seconds for rollout in rollouts)
    busy_seconds = sum(rollout.busy_seconds for rollout in rollouts)
    worker_seconds = sum(rollout.worker_seconds for rollout in rollouts)
    return Rate(
        len(specs) / seconds,
        sum(rollout.env_steps for rollout in rollouts) / seconds,
        utilisation(busy_seconds, worker_seconds),
    )


def _train(config: TrainConfig, number: int) -> Rate:
    """A training run as any other, files and all. Its clock leaves out the workers' start."""
    from workflow_rl.runs.loop import train

    config = config.changed(seed=config.seed + number)
    with tempfile.TemporaryDirectory() as folder:
        summary = train(config, Path(folder), quiet=True)
    return Rate(
        summary["episodes_per_second_run"],
        summary["env_steps"] / summary["wall_seconds"],
        summary["worker_utilisation_run"],
    )


def make_rows(variants: Sequence[Variant], rates: Sequence[Sequence[Rate]]) -> list[dict[str, Any]]:
    """One row a variant, as the JSON file has them: medians over the rounds.

    ratio_to_ceiling, speedup_over_sync: medians of the ratios within each round; the latter is None
    where the variant "sync" of the same simulator and number of envs was not measured.
    """
    by_variant = {
        (variant.name, variant.simulator, variant.config.n_envs): rows
        for variant, rows in zip(variants, rates, strict=True)
    }
    ceilings = {
        variant.simulator: rows
        for variant, rows in zip(variants, rates, strict=True)
        if variant.name == CEILING
    }
    made_with = environment()
    return [
        {
            "env": config.env,
            **config.environment.args,
            "mode": "sync" if variant.name == "sync-packed" else variant.name,
            "variant": variant.name,
            "simulator": variant.simulator,
            "n_envs": config.n_envs,
            "n_workers": config.n_workers,
            "envs_per_worker": config.envs_per_worker,
            "episodes_per_second": statistics.median(rate.episodes_per_second for rate in rows),
            "env_steps_per_second": statistics.median(rate.env_steps_per_second for rate in rows),
            "worker_utilisation": statistics.median(rate.worker_utilisation for rate in rows),
            "ratio_to_ceiling": _median_ratio(rows, ceilings[variant.simulator]),
            "speedup_over_sync": _median_ratio(
                rows, by_variant.get(("sync", variant.simulator, config.n_envs))
            ),
            "episodes_per_second_by_round": [rate.episodes_per_second for rate in rows],
            "seed": config.seed,
            **made_with,
        }
        for variant, rows in zip(variants, rates, strict=True)
        for config in [variant.config]
    ]


def _median_ratio(rates: Sequence[Rate], others: Sequence[Rate] | None) -> float | None:
    if others is None:
        return None
    return statistics.median(
        rate.episodes_per_second / other.episodes_per_second
        for rate, other in zip(rates, others, strict=True)
    )


_WAYS = {name: args for guest in guests.values() for name, args in guest.measured.items()}
# What tells the ways apart, and the options that would.
_VARIED = {"stock_simulator", *(name for args in _WAYS.values() for name in args)}

_OPTIONS: list[click.Parameter] = [
    click.Option(["--n-envs"], type=EPISODES, multiple=True, default=(8, 100),
                 metavar="N", help="Environments; may be given again.  [default: 8 and 100]"),
    *env_options(plain_option),
    click.Option(["--simulator", "simulators"], type=click.Choice(list(_WAYS)), multiple=True,
                 help="stock is csle-cyborg as published, cyborg the same sped up; may be given "
                      "again.  [default: both]"),
    *(option for option in guest_options(plain_option) if option.name not in _VARIED),
    click.Option(["--modes", "names"], type=click.Choice(VARIANTS), multiple=True,
                 default=("sync", "sync-packed", "async", "async-training"),
                 help="sync has one env a worker, sync-packed one worker a core; -training are "
                      "whole training runs. May be given again.  [default: all but "
                      "sync-training]"),
    click.Option(["--rounds"], type=EPISODES, default=3, show_default=True,
                 metavar="N", help="Turns of every variant; medians are reported."),
    click.Option(["--seconds"], type=FiniteRange(0, 30, min_open=True), default=3.0,
                 show_default=True, metavar="X",
                 help="Length of a turn, at the speed of the ceiling."),
    click.Option(["--episodes"], type=EPISODES, metavar="N",
                 help="Episodes of a turn, rounded up to a multiple of the number of envs.  "
                      "[default: what the ceiling plays in --seconds]"),
    click.Option(["--seed"], type=SEED, default=0, show_default=True, metavar="N",
                 help="Of the episodes and the policy."),
    click.Option(["--json", "json_path"], type=PATH, metavar="FILE",
                 help="Write the table as a list of rows."),
    click.Option(["--png", "png_path"], type=PATH, metavar="FILE",
                 help="Draw it as a bar chart."),
    click.Option(["--quiet"], is_flag=True, help="No progress bar."),
]  # fmt: skip


@click.command(params=_OPTIONS)
def benchmark(**options: Any) -> None:
    """Measure synchronous and asynchronous collection against the machine's ceiling.

    The ceiling is what free-running processes reach, one a core, that play episodes with the same
    policy and neither learn nor communicate. Variants and ceiling take turns.

    Example: benchmark --n-envs 100 --simulator cyborg --json rates.json --png rates.png
    """
    logging.basicConfig(format="%(levelname)s: %(message)s")
    for option in ("json", "png"):
        if options[f"{option}_path"] is not None:
            require_writable(options[f"{option}_path"], f"--{option}")
    try:
        chosen = chosen_env(options)
        simulators = _simulators(chosen, options["simulators"])
        settings = {"seed": options["seed"], "env": chosen["env"]}
        warn_if_results_vary(TrainConfig("async", **chosen))
        variants = make_variants(
            simulators,
            list(dict.fromkeys(options["n_envs"])),
            list(dict.fromkeys(options["names"])),
            {
                simulator: options["episodes"]
                or episodes_in(options["seconds"], simulator, env_args=env_args, **settings)
                for simulator, env_args in simulators.items()
            },
            **settings,
        )
        rates = measure(variants, options["rounds"], options["seconds"], options["quiet"])
    except ConfigError as error:
        raise click.BadParameter(error.message, param_hint=spelling(error.field_name)) from None
    except StopRequested as stop:
        raise SystemExit(128 + stop.signal_number) from None
    except (TooManyFailuresError, WorkerError) as error:
        click.echo(f"Error: {error}", err=True)
        raise SystemExit(1) from None
    rows = make_rows(variants, rates)
    click.echo(benchmark_table(rows))
    click.echo(
        f"Medians of {options['rounds']} rounds on {rows[0]['cores']} cores: "
        f"{described(variants[0].config.environment, without=_VARIED)}."
    )
    if options["json_path"] is not None:
        write_text(options["json_path"], json.dumps(rows, indent=2) + "\n")
        click.echo(f"rows: {options['json_path']}")
    if options["png_path"] is not None:
        benchmark_figure(rows).savefig(options["png_path"], dpi=120, format="png")
        click.echo(f"chart: {options['png_path']}")


def _simulators(chosen: Mapping[str, Any], names: Sequence[str]) -> dict[str, Mapping[str, Any]]:
    """The env_args to measure the chosen environment with, by name."""
    guest = guests.get(chosen["env"])
    if guest is not None:
        names = list(dict.fromkeys(names)) or list(guest.measured)
        return {name: {**chosen["env_args"], **guest.measured[name]} for name in names}
    if names:
        raise click.BadParameter(
            f"{names[0]} is a simulator of CAGE-2's, and --env is {chosen['env']}",
            param_hint="--simulator",
        )
    return {make_environment(chosen["env"], chosen["env_args"]).label: chosen["env_args"]}
