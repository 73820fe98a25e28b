"""The command `compare-modes`: ways of collecting, trained on the same budget."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from workflow_rl.commands.guest_options import chosen_env, guest_options
from workflow_rl.commands.open_command import Look, Named, OpenCommand, named_env
from workflow_rl.commands.options import (
    COUNT,
    EPISODES,
    PATH,
    FiniteRange,
    env_options,
    plain_option,
    spelling,
)
from workflow_rl.commands.outputs import (
    errors_in_one_line,
    output_options,
    require_outputs,
    write_outputs,
)
from workflow_rl.commands.train import warn_if_results_vary
from workflow_rl.environments.environment import described
from workflow_rl.environments.guests import guests
from workflow_rl.measuring.compare_modes import (
    DEFAULT_MODES,
    ON_POLICY,
    REFERENCE,
    ModeRun,
    alf_configs,
    make_alf_rows,
    mode_config,
    mode_rows,
    train_all,
)
from workflow_rl.measuring.compare_modes_report import (
    RETURN_WINDOW,
    alf_table,
    modes_figure,
    modes_table,
)
from workflow_rl.measuring.turns import machine_name
from workflow_rl.output_files import require_writable_folder
from workflow_rl.runs.config import TrainConfig, usable_cores
from workflow_rl.runs.machine import environment


def _named(look: Look) -> Named:
    """Return the environment's options."""
    env_id = named_env(look)
    return Named(env_id, guest_options(guests[env_id]) if env_id in guests else [])


_OPTIONS: list[click.Parameter] = [
    click.Option(["--modes", "names"], multiple=True, metavar="MODE",
                 help="sync, async, lag-N (collects while learning, with the weights of exactly N "
                      f"updates ago), lag-N-vtrace, or a preset: {', '.join(ON_POLICY)}. May be "
                      f"given again.  [default: {', '.join(DEFAULT_MODES[:3])} and the presets; "
                      "none with --envs-per-actor]"),
    click.Option(["--envs-per-actor"], type=EPISODES, multiple=True, metavar="K",
                 help="Measure ALF's table for actors of K envs. May be given again."),
    click.Option(["--n-actors", "n_workers"], type=EPISODES, metavar="N",
                 help="Worker processes.  [default: one a core; sync without the compiled "
                      "simulator: one an env]"),
    click.Option(["--n-envs"], type=EPISODES, default=24, show_default=True, metavar="N",
                 help="Environments of every mode."),
    click.Option(["--seeds", "n_seeds"], type=EPISODES, default=3, show_default=True, metavar="N",
                 help="Runs of every mode, with seeds 0 to N - 1; medians are reported."),
    click.Option(["--total-episodes"], type=COUNT, metavar="N",
                 help="Episodes of every run.  [default: the trainers']"),
    click.Option(["--total-steps"], type=COUNT, metavar="N",
                 help="Env steps of every run, instead of episodes."),
    click.Option(["--episodes-per-update"], type=EPISODES, metavar="N",
                 help="Episodes of an update, in modes that collect complete episodes.  "
                      "[default: the trainers']"),
    click.Option(["--target-return"], type=FiniteRange(), show_default="CAGE-2: -60",
                 metavar="X",
                 help=f"Return that the mean of {RETURN_WINDOW} episodes has to reach."),
    *env_options(plain_option),
    click.Option(["--run-root"], type=PATH, metavar="FOLDER",
                 help="Keep all run folders here.  [default: they are deleted]"),
    *output_options("Write the tables, every seed's figures included.",
                    "Draw the modes' returns against episodes and against wall time."),
]  # fmt: skip


@click.command("compare-modes", params=_OPTIONS, cls=OpenCommand, named=_named)
def compare_modes(**options: Any) -> None:
    """Train in each mode on the same budget of episodes, and compare speed and learning.

    Example: compare-modes --modes async --modes lag-1 --modes alf --seeds 5 --png modes.png

    ALF's table: compare-modes --envs-per-actor 32 --envs-per-actor 48 --envs-per-actor 96
    """
    _check_outputs(options)
    ks = list(dict.fromkeys(options["envs_per_actor"]))
    names = list(dict.fromkeys(options["names"])) or ([] if ks else list(DEFAULT_MODES))
    _choose_target(options, names)
    sizes = {field: options[field] for field in ("n_envs", "n_workers", "episodes_per_update")}
    with errors_in_one_line(_spelled), contextlib.ExitStack() as stack:
        budget = {field: options[field] for field in ("total_episodes", "total_steps")}
        shared = {**chosen_env(options), **budget}
        configs = {name: mode_config(name, **shared, **sizes) for name in names}
        for k in ks:
            configs |= alf_configs(k, options["n_workers"] or usable_cores(), **shared)
        warn_if_results_vary(next(iter(configs.values())))
        folder = options["run_root"]
        if folder is None:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        runs = train_all(configs, options["n_seeds"], folder, options["quiet"])
    _report({name: runs[name] for name in names}, runs, ks, next(iter(configs.values())), options)


def _spelled(field_name: str) -> str:
    return "--n-actors" if field_name == "n_workers" else spelling(field_name)


def _check_outputs(options: Mapping[str, Any]) -> None:
    require_outputs(options)
    folder = options["run_root"]
    if folder is not None:
        require_writable_folder(folder, "--run-root")
        if any(folder.iterdir()):
            raise click.BadParameter(
                f"{folder} is not empty: choose another folder", param_hint="--run-root"
            )


def _choose_target(options: dict[str, Any], names: Sequence[str]) -> None:
    """Fill in the guest's target return. Raises click.BadParameter."""
    if options["target_return"] is None:
        guest = guests.get(options["env"])
        target = None if guest is None else guest.target_return
        if names and target is None:
            raise click.BadParameter(
                f"give the return that modes are to reach on {options['env']}",
                param_hint="--target-return",
            )
        options["target_return"] = target
    if options["png_path"] is not None and not names:
        raise click.BadParameter("only modes are drawn: give --modes as well", param_hint="--png")


def _report(
    mode_runs: Mapping[str, Sequence[ModeRun]],
    runs: Mapping[str, Sequence[ModeRun]],
    ks: Sequence[int],
    config: TrainConfig,
    options: Mapping[str, Any],
) -> None:
    rows = mode_rows(mode_runs, options["target_return"])
    alf_rows = make_alf_rows(runs, ks)
    budget = f"{config.total_episodes} episodes"
    if config.total_episodes is None:
        budget = f"{config.total_steps} steps"
    medians = (
        f"Medians of {options['n_seeds']} seeds of {budget} on {machine_name()}: "
        f"{described(config.environment)}."
    )
    told = {name: value for name, value in options.items() if not isinstance(value, Path)}
    content = {"modes": rows, "alf": alf_rows, "settings": told, "environment": environment()}
    curves = {name: [run.metrics for run in its_runs] for name, its_runs in mode_runs.items()}
    written = write_outputs(
        options,
        content,
        lambda: modes_figure(curves, options["target_return"]),
        ("tables", "figure"),
    )
    if rows:
        click.echo(modes_table(rows))
        click.echo(
            f"{medians} T: seconds from one update to the next. EPS: unrolls, which differ in "
            "length, or else episodes, learned from in a second. dropped: steps. return: mean of "
            f"the last episodes. Reached: by the mean of the last {RETURN_WINDOW}, in the "
            f"median; in brackets, how many times {REFERENCE}'s."
        )
    if alf_rows:
        click.echo(alf_table(alf_rows))
        click.echo(
            f"{medians} An update learns from K unrolls; async: {alf_rows[0]['n_actors']} actors "
            "of K envs each, sync: K envs in all, spread over as many workers."
        )
    for line in written:
        click.echo(line)
