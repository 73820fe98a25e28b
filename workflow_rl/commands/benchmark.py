"""The command `benchmark`: collection and training against the machine's ceiling."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import click

from workflow_rl.commands.clear import ClearCommand
from workflow_rl.commands.guest_options import chosen_env, guest_options
from workflow_rl.commands.options import (
    EPISODES,
    SEED,
    FiniteRange,
    env_options,
    plain_option,
)
from workflow_rl.commands.outputs import (
    errors_in_one_line,
    output_options,
    require_outputs,
    write_outputs,
)
from workflow_rl.commands.train import warn_if_results_vary
from workflow_rl.environments.environment import described, guests, make_environment
from workflow_rl.reporting.benchmark import VARIANTS, measured_rows
from workflow_rl.reporting.benchmark_report import benchmark_figure, benchmark_table
from workflow_rl.reporting.harness import machine_name
from workflow_rl.runs.config import TrainConfig

_WAYS = {name: args for guest in guests.values() for name, args in guest.measured.items()}
# The arguments in which the ways differ: --simulator gives them, not the guest's own options.
_VARIED = {"stock_simulator", *(name for args in _WAYS.values() for name in args)}

_OPTIONS: list[click.Parameter] = [
    click.Option(["--n-envs"], type=EPISODES, multiple=True, default=(8, 100),
                 metavar="N", help="Environments; may be given again.  [default: 8 and 100]"),
    *env_options(plain_option),
    click.Option(["--simulator", "simulators"], type=click.Choice(list(_WAYS)), multiple=True,
                 help="stock is csle-cyborg as published, cyborg is csle-cyborg sped up; may be "
                      "given again.  [default: both]"),
    *(option for option in guest_options() if option.name not in _VARIED),
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
                 help="Seed of the episodes and of the policy."),
    *output_options("Write the table as a list of rows.", "Draw the table as a bar chart."),
]  # fmt: skip


@click.command(params=_OPTIONS, cls=ClearCommand)
def benchmark(**options: Any) -> None:
    """Measure synchronous and asynchronous collection against the machine's ceiling.

    The ceiling is what free-running processes reach, one a core, that play episodes with the same
    policy and neither learn nor communicate. Variants and ceiling take turns.

    Example: benchmark --n-envs 100 --simulator cyborg --json rates.json --png rates.png
    """
    require_outputs(options)
    with errors_in_one_line():
        chosen = chosen_env(options)
        simulators = _simulators(chosen, options["simulators"])
        warn_if_results_vary(TrainConfig("async", **chosen))
        own = ("n_envs", "names", "rounds", "seconds", "episodes", "seed", "quiet")
        rows = measured_rows(chosen["env"], simulators, **{name: options[name] for name in own})
    click.echo(benchmark_table(rows))
    environment = make_environment(chosen["env"], next(iter(simulators.values())))
    click.echo(
        f"Medians of {options['rounds']} rounds on {machine_name()}: "
        f"{described(environment, without=_VARIED)}."
    )
    write_outputs(options, rows, lambda: benchmark_figure(rows), ("rows", "chart"))


def _simulators(chosen: Mapping[str, Any], names: Sequence[str]) -> dict[str, Mapping[str, Any]]:
    """Return the env_args to measure the chosen environment with, by the name of each way."""
    guest = guests.get(chosen["env"])
    if guest is not None and guest.measured:
        names = names or list(guest.measured)
        for name in set(names) - set(guest.measured):
            raise click.BadParameter(
                f"{name} is not measured on {guest.env_id}: {', '.join(guest.measured)} is",
                param_hint="--simulator",
            )
        return {name: {**chosen["env_args"], **guest.measured[name]} for name in names}
    if names:
        raise click.BadParameter(
            f"{names[0]} is not measured on {chosen['env']}: leave it out",
            param_hint="--simulator",
        )
    return {make_environment(chosen["env"], chosen["env_args"]).label: chosen["env_args"]}
