"""Train in each mode of collecting on the same budget of episodes, and compare speed and learning.

\b
python scripts/compare_modes.py --modes async --modes lag-1 --modes alf --seeds 5 --png modes.png

ALF's table:

\b
python scripts/compare_modes.py --envs-per-actor 32 --envs-per-actor 48 --envs-per-actor 96
"""

from __future__ import annotations

import contextlib
import logging
import math
import re
import statistics
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import click
import numpy as np
from matplotlib import colormaps
from matplotlib.figure import Figure
from prettytable import PrettyTable

from workflow_rl.commands.benchmark import output_options, require_outputs, write_outputs
from workflow_rl.commands.options import (
    COUNT,
    EPISODES,
    PATH,
    FiniteRange,
    blaming,
    env_options,
    spelling,
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
from workflow_rl.errors import ConfigError
from workflow_rl.machine_facts import environment, usable_cores
from workflow_rl.measuring.benchmark import in_turns, machine_name, median_ratio
from workflow_rl.output_files import require_writable_folder
from workflow_rl.reporting import learning_curve
from workflow_rl.reporting.learning_curve import scale_returns
from workflow_rl.runs.config import TrainConfig
from workflow_rl.runs.folder import read_metrics
from workflow_rl.runs.hints import warn_if_results_vary
from workflow_rl.runs.loop import train_policy
from workflow_rl.runs.presets import PRESETS
from workflow_rl.runs.return_curves import Metrics, first_reached, on_one_axis, running_mean
from workflow_rl.text_table import text_table

# Presets of the same algorithm: they differ in how they collect alone.
ON_POLICY = tuple(name for name, settings in PRESETS.items() if "algorithm" not in settings)
DEFAULT_MODES = ("sync", "async", "lag-1", *ON_POLICY)
REFERENCE = "async"
RETURN_WINDOW = 100
"""How many episodes a mean return is of that is compared with the target, and drawn."""
TARGET_RETURNS = {"workflow_rl/CAGE2-v0": -60.0}
"""The mean returns that runs should reach, by environment."""

Row = Mapping[str, Any]

_log = logging.getLogger(__name__)

_LAG = re.compile(r"lag-([1-9]\d*)(-vtrace)?")


class ModeRun(NamedTuple):
    """A finished run. summary: the content of its summary.json."""

    metrics: Metrics
    summary: Mapping[str, Any]


def mode_config(name: str, **settings: Any) -> TrainConfig:
    """Return the config of a mode, with these further fields of TrainConfig. Raises ConfigError.

    "sync" has a barrier at every step and "async" has none; both learn between collections.
    "lag-N" is "async" that collects while learning, always with the weights of N updates ago;
    "lag-N-vtrace" corrects for that. All other names are presets.
    """
    lag = _LAG.fullmatch(name)
    chosen: dict[str, Any] = {}
    if lag is not None:
        chosen = {
            "async_rl": True,
            "num_batches_to_accumulate": int(lag[1]),
            "settings": {"correction": "vtrace" if lag[2] else "none"},
        }
    elif name in ON_POLICY:
        chosen = {"preset": name}
    elif name not in ("sync", "async"):
        known = ", ".join(["sync", "async", "lag-N", "lag-N-vtrace", *ON_POLICY])
        raise ConfigError("modes", f"{name!r} is not one of {known}, where N is 1 or greater")
    if "num_steps_per_env" in PRESETS.get(name, {}):
        settings = {**settings, "episodes_per_update": None}
    return TrainConfig("sync" if name == "sync" else "async", **settings, **chosen)


def alf_configs(envs_per_actor: int, n_actors: int, **settings: Any) -> dict[str, TrainConfig]:
    """Return ALF's two ways with K = envs_per_actor, by name. Raises ConfigError.

    The asynchronous way is the preset "alf": every actor has K envs, and an update takes one
    actor's unroll. The synchronous way does not overlap, and has K envs in all, spread over the
    actors. So an update learns from K unrolls in both.
    """
    n_steps = PRESETS["alf"]["num_steps_per_env"]
    return {
        f"alf-{envs_per_actor}-sync": TrainConfig(
            "async",
            n_envs=envs_per_actor,
            n_workers=min(n_actors, envs_per_actor),
            num_steps_per_env=n_steps,
            steps_per_update=envs_per_actor * n_steps,
            **settings,
        ),
        f"alf-{envs_per_actor}-async": mode_config(
            "alf", n_envs=n_actors * envs_per_actor, n_workers=n_actors, **settings
        ),
    }


def train_all(
    configs: Mapping[str, TrainConfig], n_seeds: int, folder: Path, quiet: bool = True
) -> dict[str, list[ModeRun]]:
    """Train every config with seeds 0 to n_seeds - 1 in turns, and return its runs by its name.

    folder: where the runs are kept.

    Raises StopRequested, TooManyFailuresError, UserError.
    """
    turns = {name: partial(_trained, name, config, folder) for name, config in configs.items()}
    return in_turns(turns, n_seeds, quiet)


def _trained(name: str, config: TrainConfig, folder: Path, seed: int) -> ModeRun:
    path = folder / f"{name}-seed-{seed}"
    config = config.changed(seed=seed)
    summary = train_policy(config, path, quiet=True, draw=learning_curve.plot_learning_curve)
    if skipped := summary["skipped_episodes"]:
        _log.warning(
            "%d episodes of %s could not be played: its returns are of the others",
            *(len(skipped), path.name),
        )
    return ModeRun(read_metrics(path), summary)


def reached(metrics: Metrics, target_return: float) -> tuple[float, float]:
    """Return the episodes and wall seconds until the target was reached, or infinities.

    The mean of the last RETURN_WINDOW episodes has to reach the target. Updates count as a whole.
    """
    row = first_reached(metrics, target_return, RETURN_WINDOW)
    return (math.inf, math.inf) if row is None else (row["episodes"], row["wall_seconds"])


def seconds_per_update_and_eps(metrics: Metrics) -> tuple[float, float]:
    """Return ALF's T, the mean seconds between two updates, and EPS, unrolls or episodes a second.

    The first of several updates is left out: workers warm up before it.
    """
    rows = metrics[1:] or metrics
    seconds = [row["seconds_per_update"] for row in rows]
    unrolls = [row["eps"] * row["seconds_per_update"] for row in rows]
    return statistics.mean(seconds), sum(unrolls) / sum(seconds)


def mode_rows(runs: Mapping[str, Sequence[ModeRun]], target_return: float) -> list[dict[str, Any]]:
    """Return a row for each mode, as the JSON file has them: medians over the seeds.

    A seed that does not reach the target counts as infinitely slow, and None stands for infinity.
    x_async: ratios of the medians to those of mode "async", None without that mode.
    """
    rows = [_row(name, its_runs, target_return) for name, its_runs in runs.items()]
    reference = next((row for row in rows if row["mode"] == REFERENCE), None)
    for row in rows:
        for what in ("episodes", "seconds"):
            needed = row[f"{what}_to_target"]
            other = reference and reference[f"{what}_to_target"]
            row[f"{what}_to_target_x_async"] = needed / other if needed and other else None
    return rows


def _row(name: str, runs: Sequence[ModeRun], target_return: float) -> dict[str, Any]:
    def median_of(field: str) -> float:
        return statistics.median(run.summary[field] for run in runs)

    def median_mean(column: str) -> float:
        return statistics.median(
            statistics.mean(row[column] for row in run.metrics) for run in runs
        )

    speeds = [seconds_per_update_and_eps(run.metrics) for run in runs]
    targets = [reached(run.metrics, target_return) for run in runs]
    episodes, seconds = zip(*targets, strict=True)
    # None if no episode has ended.
    returns = [run.summary["return_mean_recent"] for run in runs]
    last = [-math.inf if mean is None else mean for mean in returns]
    return {
        "mode": name,
        "n_seeds": len(runs),
        "episodes_per_second": median_of("episodes_per_second_run"),
        "eps": statistics.median(eps for _, eps in speeds),
        "seconds_per_update": statistics.median(seconds for seconds, _ in speeds),
        "worker_utilisation": median_of("worker_utilisation_run"),
        "learner_idle": statistics.median(
            run.summary["learner_idle_seconds"] / run.summary["wall_seconds"] for run in runs
        ),
        "policy_lag_mean": median_mean("policy_lag_mean"),
        "policy_lag_max": max(row["policy_lag_max"] for run in runs for row in run.metrics),
        "stale_fraction": median_mean("stale_fraction"),
        "dropped_steps": median_of("dropped_steps"),
        "return_mean_recent": _finite(statistics.median(last)),
        "target_return": target_return,
        "seeds_at_target": sum(map(math.isfinite, episodes)),
        "episodes_to_target": _finite(statistics.median(episodes)),
        "seconds_to_target": _finite(statistics.median(seconds)),
        "episodes_to_target_by_seed": [_finite(number) for number in episodes],
        "seconds_to_target_by_seed": [_finite(number) for number in seconds],
        "return_mean_recent_by_seed": returns,
        "seeds": [run.summary["seed"] for run in runs],
    }


def _finite(number: float) -> float | None:
    """Return None for infinity, which JSON does not have."""
    return number if math.isfinite(number) else None


def make_alf_rows(
    runs: Mapping[str, Sequence[ModeRun]], envs_per_actor: Iterable[int]
) -> list[dict[str, Any]]:
    """Return a row of ALF's table for each K: medians over the seeds, ratios within each seed."""
    rows = []
    for k in envs_per_actor:
        row: dict[str, Any] = {"envs_per_actor": k}
        eps = {}
        for way in ("sync", "async"):
            its_runs = runs[f"alf-{k}-{way}"]
            speeds = [seconds_per_update_and_eps(run.metrics) for run in its_runs]
            seconds, eps[way] = zip(*speeds, strict=True)
            row[f"{way}_seconds_per_update"] = statistics.median(seconds)
            row[f"{way}_eps"] = statistics.median(eps[way])
            row["n_actors"] = its_runs[0].summary["n_workers"]
        row["ratio"] = median_ratio(eps["async"], eps["sync"])
        rows.append(row)
    return rows


def modes_table(rows: Sequence[Row]) -> PrettyTable:
    """Return a line for each mode."""
    target = rows[0]["target_return"]
    columns: dict[str, Callable[[Row], str]] = {
        "mode": lambda row: row["mode"],
        "episodes/s": lambda row: f"{row['episodes_per_second']:.1f}",
        "T (s)": lambda row: f"{row['seconds_per_update']:.4f}",
        "EPS": lambda row: f"{row['eps']:.1f}",
        "utilisation": lambda row: f"{row['worker_utilisation']:.1%}",
        "learner idle": lambda row: f"{row['learner_idle']:.1%}",
        "lag": lambda row: f"{row['policy_lag_mean']:.1f}, max {row['policy_lag_max']:g}",
        "stale": lambda row: f"{row['stale_fraction']:.1%}",
        "dropped": lambda row: f"{row['dropped_steps']:g}",
        "return": lambda row: _or_none(row["return_mean_recent"]),
        f"reach {target:g}": lambda row: f"{row['seeds_at_target']} of {row['n_seeds']}",
        "in episodes": lambda row: _to_target(row, "episodes", ".0f"),
        "in seconds": lambda row: _to_target(row, "seconds", ".2f"),
    }
    return text_table(list(columns), [[cell(row) for cell in columns.values()] for row in rows])


def _or_none(mean: float | None) -> str:
    return "no episode ended" if mean is None else f"{mean:.1f}"


def _to_target(row: Row, what: str, form: str) -> str:
    number, ratio = row[f"{what}_to_target"], row[f"{what}_to_target_x_async"]
    if number is None:
        return "not reached"
    return format(number, form) + (f" ({ratio:.2f} x)" if ratio is not None else "")


def alf_table(rows: Sequence[Row]) -> PrettyTable:
    """Return a line for each number of envs an actor has."""
    cells = []
    for row in rows:
        speeds = []
        for way in ("sync", "async"):
            speeds += [f"{row[f'{way}_seconds_per_update']:.4f}", f"{row[f'{way}_eps']:.1f}"]
        cells.append([row["envs_per_actor"], *speeds, f"{row['ratio']:.2f}"])
    headings = ["K", "sync T (s)", "sync EPS", "async T (s)", "async EPS", "ratio"]
    return text_table(headings, cells, left=0)


def modes_figure(runs: Mapping[str, Sequence[Metrics]], target_return: float) -> Figure:
    """Draw each mode's median return over its seeds against episodes and against wall time.

    runs: the metrics of every seed, by the name of the mode. A band reaches from the worst seed to
    the best.
    """
    figure = Figure(figsize=(12, 5), layout="constrained")
    by_episodes, by_seconds = figure.subplots(1, 2, sharey=True)
    palette = colormaps["tab10" if len(runs) <= 10 else "tab20"]
    for index, (name, its_runs) in enumerate(runs.items()):
        for axes, column in ((by_episodes, "episodes"), (by_seconds, "wall_seconds")):
            x, returns = on_one_axis(its_runs, column, partial(running_mean, window=RETURN_WINDOW))
            if not len(x):
                continue
            colour = palette(index % palette.N)
            axes.fill_between(
                x, returns.min(axis=0), returns.max(axis=0), color=colour, alpha=0.15, linewidth=0
            )
            axes.plot(
                x,
                np.median(returns, axis=0),
                color=colour,
                # sync and async learn exactly the same: the wider line shows behind the other.
                linewidth=1.8 if index else 5,
                linestyle="--" if name.endswith("-vtrace") else "-",
                label=name,
            )
    by_episodes.set(xlabel="episodes", ylabel="episode return")
    by_seconds.set(xlabel="wall time (seconds)")
    for axes in (by_episodes, by_seconds):
        axes.set_xlim(left=0)
        label = f"target: {target_return:g}"
        axes.axhline(target_return, color="black", linewidth=1, linestyle=":", label=label)
        scale_returns(axes)
    figure.legend(*by_episodes.get_legend_handles_labels(), loc="outside right center")
    n_seeds = max(map(len, runs.values()))
    figure.suptitle(
        f"Mean return of the last {RETURN_WINDOW} episodes: "
        f"median, worst and best of {n_seeds} seeds"
    )
    return figure


def _named(look: Look) -> Named:
    """Return the environment's options."""
    env_id = named_env(look)
    return Named(env_id, guest_options(env_id))


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
    *env_options(),
    click.Option(["--run-root"], type=PATH, metavar="FOLDER",
                 help="Keep all run folders here.  [default: they are deleted]"),
    *output_options("Write the tables, every seed's figures included.",
                    "Draw the modes' returns against episodes and against wall time."),
]  # fmt: skip


@click.command(help=__doc__, params=_OPTIONS, cls=OpenCommand, named=_named)
def main(**options: Any) -> None:
    _check_outputs(options)
    ks = list(dict.fromkeys(options["envs_per_actor"]))
    names = list(dict.fromkeys(options["names"])) or ([] if ks else list(DEFAULT_MODES))
    _choose_target(options, names)
    sizes = {field: options[field] for field in ("n_envs", "n_workers", "episodes_per_update")}
    with blaming(_spelled), contextlib.ExitStack() as stack:
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
    """Fill in the target return of a known environment. Raises click.BadParameter."""
    if options["target_return"] is None:
        target = TARGET_RETURNS.get(options["env"])
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


if __name__ == "__main__":
    main()
