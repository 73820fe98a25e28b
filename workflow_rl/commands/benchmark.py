"""The command `benchmark`: collection and training against the machine's ceiling."""

from collections.abc import Mapping, Sequence
from typing import Any

import click

from workflow_rl.commands.options import (
    EPISODES,
    SEED,
    FiniteRange,
    OutputFile,
    env_options,
    plain_option,
    quiet_option,
    under,
)
from workflow_rl.commands.options_by_env import (
    Look,
    Named,
    OpenCommand,
    chosen_env,
    guest_options,
    named_env,
)
from workflow_rl.environments.environment import described
from workflow_rl.environments.source import guests, make_environment
from workflow_rl.measuring.benchmark import (
    VARIANTS,
    benchmark_figure,
    benchmark_table,
    machine_name,
    measured_rows,
)
from workflow_rl.output_files import require_writable, write_json
from workflow_rl.runs.config import TrainConfig

_OPTIONS: list[click.Parameter] = [
    plain_option("--n-envs", type=EPISODES, multiple=True, default=(8, 100),
                 help="Environments; may be given again."),
    *env_options(),
    plain_option("--modes", "names", type=click.Choice(VARIANTS), multiple=True,
                 default=("sync", "sync-packed", "async", "async-training"),
                 help="sync has one env a worker, sync-packed one worker a core; -training are "
                      "whole training runs; steps is the speed of the environments alone, in one "
                      "process a core. May be given again."),
    plain_option("--rounds", type=EPISODES, default=3,
                 help="Turns of every variant; medians are reported."),
    plain_option("--seconds", type=FiniteRange(0, 30, min_open=True), default=3.0,
                 help="Length of a turn, at the speed of the ceiling."),
    plain_option("--episodes", type=EPISODES, show_default="what the ceiling plays in --seconds",
                 help="Episodes of a turn, rounded up to a multiple of the number of envs."),
    plain_option("--seed", type=SEED, default=0, help="Seed of the episodes and of the policy."),
    plain_option("--json", "json_path", type=OutputFile(".json"), metavar="FILE",
                 help="Write the table as a list of rows."),
    plain_option("--png", "png_path", type=OutputFile(".png"), metavar="FILE",
                 help="Draw the table as a bar chart."),
    quiet_option(),
]  # fmt: skip


def _ways(env_id: str) -> Mapping[str, Mapping[str, Any]]:
    """Return the arguments to measure an environment with, by the name of each way."""
    return guests[env_id].measured if env_id in guests else {}


def _varied(env_id: str) -> set[str]:
    return {name for args in _ways(env_id).values() for name in args}


def _named(look: Look) -> Named:
    env_id = named_env(look)
    shared = [option for option in guest_options(env_id) if option.name not in _varied(env_id)]
    if not _ways(env_id):
        return Named(env_id, shared)
    ways = plain_option(
        "--simulator", "simulators", type=click.Choice(list(_ways(env_id))), multiple=True,
        show_default="all", help="A way to play the environment; may be given again.",
    )  # fmt: skip
    return Named(env_id, [*under("Environment", ways), *shared])


@click.command(params=_OPTIONS, cls=OpenCommand, named=_named)
def benchmark(**options: Any) -> None:
    """Measure synchronous and asynchronous collection against the machine's ceiling.

    The ceiling is what free-running processes reach, one a core, that play episodes with the same
    policy and neither learn nor communicate. Variants and ceiling take turns.

    Example: benchmark --n-envs 100 --simulator cyborg --json rates.json --png rates.png
    """
    for option in ("json", "png"):
        if options[f"{option}_path"] is not None:
            require_writable(options[f"{option}_path"], f"--{option}")
    chosen = chosen_env(options)
    simulators = _simulators(chosen, options.get("simulators", ()))
    from workflow_rl.runs.execute import warn_if_results_vary  # With torch.

    warn_if_results_vary(TrainConfig("async", **chosen))
    named = ("n_envs", "names", "rounds", "seconds", "episodes", "seed", "quiet")
    rows = measured_rows(chosen["env"], simulators, **{name: options[name] for name in named})
    written = []
    if options["json_path"] is not None:
        write_json(options["json_path"], rows)
        written.append(f"rows: {options['json_path']}")
    if options["png_path"] is not None:
        from workflow_rl.reporting.learning_curve import save_png

        save_png(benchmark_figure(rows), options["png_path"])
        written.append(f"chart: {options['png_path']}")
    click.echo(benchmark_table(rows))
    environment = make_environment(chosen["env"], next(iter(simulators.values())))
    click.echo(
        f"Medians of {options['rounds']} rounds on {machine_name()}: "
        f"{described(environment, without=_varied(chosen['env']))}."
    )
    for line in written:
        click.echo(line)


def _simulators(chosen: Mapping[str, Any], names: Sequence[str]) -> dict[str, Mapping[str, Any]]:
    """Return the env_args to measure the chosen environment with, by the name of each way."""
    if ways := _ways(chosen["env"]):
        return {name: {**chosen["env_args"], **ways[name]} for name in names or ways}
    return {make_environment(chosen["env"], chosen["env_args"]).label: chosen["env_args"]}
