"""What each way of collecting costs and brings: all train on the same budget of episodes.

Modes take turns within every seed, so that a machine that is slower for a minute, or shared, does
not decide the outcome.
"""

from __future__ import annotations

import contextlib
import json
import logging
import math
import re
import statistics
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import click
from tqdm import tqdm

from workflow_rl.collection.rollout import NotFiniteError
from workflow_rl.collection.workers import StopRequested, TooManyFailuresError
from workflow_rl.commands.options import (
    COUNT,
    EPISODES,
    PATH,
    FiniteRange,
    chosen_env,
    env_options,
    guest_options,
    plain_option,
    spelling,
)
from workflow_rl.commands.train import warn_if_results_vary
from workflow_rl.environments.environment import described, guests
from workflow_rl.output_files import require_writable, require_writable_folder, write_text
from workflow_rl.reporting.compare_modes_report import (
    RETURN_WINDOW,
    alf_table,
    modes_figure,
    modes_table,
)
from workflow_rl.runs.config import (
    ConfigError,
    TrainConfig,
    usable_cores,
)
from workflow_rl.runs.folder import RunDirError, read_metrics
from workflow_rl.runs.learning_curve import running_mean
from workflow_rl.runs.machine import environment
from workflow_rl.runs.presets import PRESETS

# Of the same algorithm: whatever differs is how they collect.
ON_POLICY = tuple(name for name, settings in PRESETS.items() if "algorithm" not in settings)
DEFAULT_MODES = ("sync", "async", "lag-1", *ON_POLICY)
REFERENCE = "async"

_log = logging.getLogger(__name__)

_LAG = re.compile(r"lag-([1-9]\d*)(-vtrace)?")


class Run(NamedTuple):
    """A finished run: the rows of its metrics.csv and its summary.json."""

    metrics: Sequence[Mapping[str, float]]
    summary: Mapping[str, Any]


def mode_config(name: str, **settings: Any) -> TrainConfig:
    """The config of a mode, with these fields of TrainConfig besides. Raises ConfigError.

    "sync" has a barrier at every step, "async" has not, and both learn between collections.
    "lag-N" is "async" that collects while learning, always with the weights of N updates ago;
    "lag-N-vtrace" corrects for that. All others are presets.
    """
    lag = _LAG.fullmatch(name)
    own: dict[str, Any]
    if name in ("sync", "async"):
        own = {}
    elif lag is not None:
        own = {
            "async_rl": True,
            "num_batches_to_accumulate": int(lag[1]),
            "settings": {"correction": "vtrace" if lag[2] else "none"},
        }
    elif name in ON_POLICY:
        own = {"preset": name}
    else:
        known = ", ".join(["sync", "async", "lag-N", "lag-N-vtrace", *ON_POLICY])
        raise ConfigError("modes", f"{name!r} is not one of {known}, where N is 1 or greater")
    if "num_steps_per_env" in PRESETS.get(name, {}):
        settings = {**settings, "episodes_per_update": None}
    return TrainConfig("sync" if name == "sync" else "async", **settings, **own)


def alf_configs(envs_per_actor: int, n_actors: int, **settings: Any) -> dict[str, TrainConfig]:
    """ALF's two ways with K = envs_per_actor, by name. Raises ConfigError.

    Asynchronous is the preset "alf": every actor has K envs, and an update takes one actor's
    unroll. Synchronous is the same without overlap: K envs in all, spread over the actors. So an
    update has K unrolls in both.
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
    configs: Mapping[str, TrainConfig],
    n_seeds: int,
    folder: Path,
    quiet: bool = True,
    last_update: int | None = None,
) -> dict[str, list[Run]]:
    """Every config's runs by its name, with seeds 0 to n_seeds - 1, kept in `folder`; they end
    with their budget, or with this update.

    Raises StopRequested, TooManyFailuresError, RunDirError.
    """
    from workflow_rl.runs.loop import train

    runs: dict[str, list[Run]] = {name: [] for name in configs}
    with tqdm(total=n_seeds * len(configs), unit="run", disable=quiet or None) as progress_bar:
        for seed in range(n_seeds):
            # Every other seed backwards: a machine that slows down steadily favours nobody.
            for name in list(configs)[:: 1 if seed % 2 == 0 else -1]:
                progress_bar.set_description(f"{name} seed {seed}")
                config = configs[name].changed(seed=seed)
                path = folder / f"{name}-seed-{seed}"
                summary = train(config, path, quiet=True, last_update=last_update)
                if skipped := summary["skipped_episodes"]:
                    _log.warning(
                        "%d episodes of %s could not be played: its returns are of the others",
                        *(len(skipped), path.name),
                    )
                runs[name].append(Run(read_metrics(path), summary))
                progress_bar.update()
    return runs


def reached(metrics: Sequence[Mapping[str, float]], target_return: float) -> tuple[float, float]:
    """Episodes and wall seconds until the mean of the last RETURN_WINDOW reached it; inf if never.

    Counted are whole updates, and means over fewer episodes do not count.
    """
    means = running_mean(metrics, RETURN_WINDOW)
    for row, mean in zip(metrics, means, strict=True):
        if row["episodes"] >= RETURN_WINDOW and mean >= target_return:
            return row["episodes"], row["wall_seconds"]
    return math.inf, math.inf


def seconds_per_update_and_eps(metrics: Sequence[Mapping[str, float]]) -> tuple[float, float]:
    """ALF's T, the mean seconds between two updates, and EPS, unrolls (or episodes) in a second.

    The first update is left out, if there are more: workers warm up before it.
    """
    rows = metrics[1:] or metrics
    seconds = [row["seconds_per_update"] for row in rows]
    unrolls = [row["eps"] * row["seconds_per_update"] for row in rows]
    return statistics.mean(seconds), sum(unrolls) / sum(seconds)


def make_rows(runs: Mapping[str, Sequence[Run]], target_return: float) -> list[dict[str, Any]]:
    """One row a mode, as the JSON file has them: medians over the seeds.

    A seed that does not reach the target counts as infinitely slow; where the median is, it is
    None. x_async: ratios of the medians to those of mode "async", None without one.
    """
    rows = [_row(name, its_runs, target_return) for name, its_runs in runs.items()]
    reference = next((row for row in rows if row["mode"] == REFERENCE), None)
    for row in rows:
        for what in ("episodes", "seconds"):
            own = row[f"{what}_to_target"]
            other = reference and reference[f"{what}_to_target"]
            row[f"{what}_to_target_x_async"] = own / other if own and other else None
    return rows


def _row(name: str, runs: Sequence[Run], target_return: float) -> dict[str, Any]:
    def median_of(field: str) -> float:
        return statistics.median(run.summary[field] for run in runs)

    def median_mean(column: str) -> float:
        return statistics.median(
            statistics.mean(row[column] for row in run.metrics) for run in runs
        )

    speeds = [seconds_per_update_and_eps(run.metrics) for run in runs]
    targets = [reached(run.metrics, target_return) for run in runs]
    episodes, seconds = zip(*targets, strict=True)
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
        "return_mean_last_300": median_of("return_mean_last_300"),
        "target_return": target_return,
        "seeds_at_target": sum(map(math.isfinite, episodes)),
        "episodes_to_target": _finite(statistics.median(episodes)),
        "seconds_to_target": _finite(statistics.median(seconds)),
        "episodes_to_target_by_seed": [_finite(number) for number in episodes],
        "seconds_to_target_by_seed": [_finite(number) for number in seconds],
        "return_mean_last_300_by_seed": [run.summary["return_mean_last_300"] for run in runs],
        "seeds": [run.summary["seed"] for run in runs],
    }


def _finite(number: float) -> float | None:
    """None for infinity, which JSON does not know."""
    return number if math.isfinite(number) else None


def make_alf_rows(
    runs: Mapping[str, Sequence[Run]], envs_per_actor: Iterable[int]
) -> list[dict[str, Any]]:
    """ALF's table, a row for each K: medians over the seeds, and of the ratios within each seed."""
    rows = []
    for k in envs_per_actor:
        row: dict[str, Any] = {"envs_per_actor": k}
        speeds = {}
        for way in ("sync", "async"):
            speeds[way] = [seconds_per_update_and_eps(run.metrics) for run in runs[_alf(k, way)]]
            row[f"{way}_seconds_per_update"] = statistics.median(t for t, _ in speeds[way])
            row[f"{way}_eps"] = statistics.median(eps for _, eps in speeds[way])
        row["n_actors"] = runs[_alf(k, "async")][0].summary["n_workers"]
        row["ratio"] = statistics.median(
            eps / sync_eps
            for (_, eps), (_, sync_eps) in zip(speeds["async"], speeds["sync"], strict=True)
        )
        rows.append(row)
    return rows


def _alf(envs_per_actor: int, way: str) -> str:
    return f"alf-{envs_per_actor}-{way}"


def _fastest_option(*names: str, **settings: Any) -> click.Option:
    for guest in guests.values():
        name = names[0].lstrip("-").replace("-", "_")
        settings["default"] = guest.fastest.get(name, settings.get("default"))
    return plain_option(*names, **settings)


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
                 help="Of the modes that collect complete episodes.  [default: the trainers']"),
    click.Option(["--target-return"], type=FiniteRange(), show_default="CAGE-2: -60",
                 metavar="X",
                 help=f"Return that the mean of {RETURN_WINDOW} episodes has to reach."),
    *env_options(plain_option),
    *guest_options(_fastest_option),
    click.Option(["--run-root"], type=PATH, metavar="FOLDER",
                 help="Keep all run folders here.  [default: they are deleted]"),
    click.Option(["--json", "json_path"], type=PATH, metavar="FILE",
                 help="Write the tables, every seed's figures included."),
    click.Option(["--png", "png_path"], type=PATH, metavar="FILE",
                 help="Draw the modes' returns against episodes and against wall time."),
    click.Option(["--quiet"], is_flag=True, help="No progress bar."),
]  # fmt: skip


@click.command("compare-modes", params=_OPTIONS)
def compare_modes(**options: Any) -> None:
    """Train in each mode on the same budget of episodes, and compare speed and learning.

    Example: compare-modes --modes async --modes lag-1 --modes alf --seeds 5 --png modes.png

    ALF's table: compare-modes --envs-per-actor 32 --envs-per-actor 48 --envs-per-actor 96
    """
    from agents.algorithm import DivergedError

    logging.basicConfig(format="%(levelname)s: %(message)s")
    _check_outputs(options)
    ks = list(dict.fromkeys(options["envs_per_actor"]))
    names = list(dict.fromkeys(options["names"])) or ([] if ks else list(DEFAULT_MODES))
    if options["target_return"] is None:
        guest = guests.get(options["env"])
        if names and guest is None:
            raise click.BadParameter(
                f"give the return that modes are to reach on {options['env']}",
                param_hint="--target-return",
            )
        options["target_return"] = None if guest is None else guest.target_return
    if options["png_path"] is not None and not names:
        raise click.BadParameter("only modes are drawn: give --modes as well", param_hint="--png")
    own = {field: options[field] for field in ("n_envs", "n_workers", "episodes_per_update")}
    try:
        shared = {
            **chosen_env(options),
            "total_episodes": options["total_episodes"],
            "total_steps": options["total_steps"],
        }
        configs = {name: mode_config(name, **shared, **own) for name in names}
        for k in ks:
            configs |= alf_configs(k, options["n_workers"] or usable_cores(), **shared)
        warn_if_results_vary(next(iter(configs.values())))
        with contextlib.ExitStack() as stack:
            folder = options["run_root"]
            if folder is None:
                folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
            runs = train_all(configs, options["n_seeds"], folder, options["quiet"])
    except ConfigError as error:
        hint = spelling(error.field_name)
        hint = {"--n-workers": "--n-actors"}.get(hint, hint)
        raise click.BadParameter(error.message, param_hint=hint) from None
    except RunDirError as error:
        raise click.UsageError(str(error)) from None
    except StopRequested as stop:
        raise SystemExit(128 + stop.signal_number) from None
    except (TooManyFailuresError, NotFiniteError, DivergedError) as error:
        click.echo(f"Error: {error}", err=True)
        raise SystemExit(1) from None
    _report({name: runs[name] for name in names}, runs, ks, next(iter(configs.values())), options)


def _check_outputs(options: Mapping[str, Any]) -> None:
    for option in ("json", "png"):
        if options[f"{option}_path"] is not None:
            require_writable(options[f"{option}_path"], f"--{option}")
    folder = options["run_root"]
    if folder is not None:
        require_writable_folder(folder, "--run-root")
        if any(folder.iterdir()):
            raise click.BadParameter(
                f"{folder} is not empty: choose another folder", param_hint="--run-root"
            )


def _report(
    mode_runs: Mapping[str, Sequence[Run]],
    runs: Mapping[str, Sequence[Run]],
    ks: Sequence[int],
    config: TrainConfig,
    options: Mapping[str, Any],
) -> None:
    rows = make_rows(mode_runs, options["target_return"])
    alf_rows = make_alf_rows(runs, ks)
    budget = (
        f"{config.total_steps} steps"
        if config.total_episodes is None
        else f"{config.total_episodes} episodes"
    )
    settings = (
        f"{options['n_seeds']} seeds of {budget} on {usable_cores()} cores: "
        f"{described(config.environment)}."
    )
    if rows:
        click.echo(modes_table(rows))
        click.echo(
            f"Medians of {settings} T: seconds from one update to the next. EPS: unrolls, which "
            "differ in length, or else episodes, learned from in a second. dropped: steps. return: "
            f"mean of the last 300 episodes. Reached: by the mean of the last {RETURN_WINDOW}, in "
            f"the median; in brackets, how many times {REFERENCE}'s."
        )
    if alf_rows:
        click.echo(alf_table(alf_rows))
        click.echo(
            f"Medians of {settings} An update learns from K unrolls; async: "
            f"{alf_rows[0]['n_actors']} actors of K envs each, sync: K envs in all, spread over as "
            "many workers."
        )
    if options["json_path"] is not None:
        content = {
            "modes": rows,
            "alf": alf_rows,
            "settings": {
                name: value for name, value in options.items() if not isinstance(value, Path)
            },
            "environment": environment(),
        }
        write_text(options["json_path"], json.dumps(content, indent=2) + "\n")
        click.echo(f"tables: {options['json_path']}")
    if options["png_path"] is not None:
        curves = {name: [run.metrics for run in mode] for name, mode in mode_runs.items()}
        figure = modes_figure(curves, options["target_return"])
        figure.savefig(options["png_path"], dpi=120, format="png")
        click.echo(f"figure: {options['png_path']}")
