"""How many real steps PPO, sac, mbpo and the presets of mbpo take to a return.

Trains each on a task with several seeds, in turns, and prints until when the mean return of the
last episodes had reached the target: medians over the seeds, and their ranges. With --slow-ms every
real step takes so much longer, as with `--slow-worker-ms`; seconds are what this machine took.
With --runs the runs are kept. A run that has ended is not trained again; an interrupted run
begins anew.

    python scripts/benchmark_algorithms.py pendulum
    python scripts/benchmark_algorithms.py cage2 --algorithms ppo,sac --updates 80 --slow-ms 20
"""

from __future__ import annotations

import functools
import math
import statistics
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import click
import numpy as np
from matplotlib.figure import Figure

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from workflow_rl.async_train_workflow_rl import train_async
from workflow_rl.commands.training_options import new_config
from workflow_rl.measuring.benchmark import in_turns, machine_name, spread
from workflow_rl.reporting.drawing import save_png
from workflow_rl.runs.config import TrainConfig
from workflow_rl.runs.folder import is_finished, read_config, read_metrics
from workflow_rl.runs.loop import train_policy
from workflow_rl.runs.presets import PRESETS
from workflow_rl.runs.return_curves import Metrics, first_reached
from workflow_rl.text_table import text_table


class Task(NamedTuple):
    """Options of `train-async` for all algorithms, and by algorithm or preset those that do well.

    targets: returns to reach, as means of the last `window` episodes.
    """

    options: str
    targets: tuple[float, ...]
    window: int
    algorithms: dict[str, str]


COLUMNS = ("episodes", "env_steps", "wall_seconds")
BELIEF = "--observation belief --actions by-host"
TWELVE = "--episodes-per-update 12"
ONE_ENV = "--n-envs 1 --n-workers 1 --num-steps-per-env 50"
FREE_RUNNING = (
    "--n-envs 1 --n-workers 1 --total-steps 5000 --hidden-sizes 64,64 --discount 0.95 "
    "--gradient-steps 4 --warm-up-steps 400 --imagined-share 0.8 --model-every 200"
)
TASKS = {
    "pendulum": Task(
        "--env Pendulum-v1",
        (-200.0,),
        10,
        {
            "ppo": "--n-envs 4 --n-workers 2 --num-steps-per-env 400 --total-steps 60800 "
            "--hidden-sizes 64,64 --learning-rate 1e-3 --discount 0.9 "
            "--gae-lambda 0.95 --entropy-coef 0 --epochs 10 --minibatch-size 64 "
            "--normalise-obs --normalise-returns",
            "sac": f"{ONE_ENV} --steps-per-update 200 --total-steps 6000 --hidden-sizes 64,64 "
            "--learning-rate 1e-3 --discount 0.95 --gradient-steps 1 --warm-up-steps 400",
            "mbpo": f"{ONE_ENV} --steps-per-update 200 --total-steps 4000 --hidden-sizes 64,64 "
            "--learning-rate 1e-3 --discount 0.95 --gradient-steps 4 --warm-up-steps 400 "
            "--imagined-share 0.8 --imagined-rollouts 4 --rollout-length-final 1 "
            "--model-hidden-sizes 64,64",
            "mbpo-continuous": FREE_RUNNING,
            "mbpo-batch": FREE_RUNNING,
        },
    ),
    "hopper": Task(
        "--env Hopper-v5",
        (1000.0, 1500.0, 2000.0),
        10,
        {
            "ppo": "--n-envs 4 --n-workers 1 --num-steps-per-env 512 --total-steps 600064 "
            "--hidden-sizes 64,64 --activation tanh --learning-rate 3e-4 --discount 0.99 "
            "--gae-lambda 0.95 --entropy-coef 0 --epochs 10 --minibatch-size 64 "
            "--normalise-obs --normalise-returns",
            "sac": "--preset sac-control --total-steps 150000 --target-entropy -0.33",
            "mbpo": f"{ONE_ENV} --steps-per-update 500 --total-steps 40000 --hidden-sizes 128,128 "
            "--learning-rate 5e-4 --discount 0.99 --gradient-steps 8 --warm-up-steps 2000 "
            "--imagined-share 0.8 --batch-size 128 --target-rate 0.005 --target-entropy -0.33 "
            "--imagined-rollouts 8 --imagined-updates 10 --rollout-length-final 2 "
            "--model-patience 3 --model-epochs 30",
        },
    ),
    "cage2": Task(
        "--simulator compiled --red-agent B_lineAgent --n-envs 12 --n-workers 12",
        (-60.0, -30.0),
        100,
        {
            "ppo": f"{TWELVE} --total-episodes 2000",
            "ppo with belief": f"{TWELVE} {BELIEF} --total-episodes 900",
            "sac": f"{TWELVE} {BELIEF} --total-episodes 180",
            "mbpo": f"{TWELVE} {BELIEF} --total-episodes 180 --gradient-steps 0.66 "
            "--warm-up-steps 1200 --imagined-share 0.75 --imagined-rollouts 4 "
            "--rollout-length-final 1 "
            "--model-members 3 --model-elites 2 --model-hidden-sizes 64,64 --model-patience 2",
            "mbpo-continuous": "--total-episodes 200",
            "mbpo-batch": "--total-episodes 200",
        },
    ),
}


def config_of(task: Task, name: str, slow_ms: float) -> TrainConfig:
    """Return the config of an algorithm or a preset on a task; "ppo with belief" is PPO."""
    chosen = f"--preset {name}" if name in PRESETS else f"--algorithm {name.split()[0]}"
    options = f"{chosen} {task.options} {task.algorithms[name]}"
    if slow_ms:
        options += f" --slow-worker-ms {slow_ms:g} --slow-worker-share 1 --worker-timeout 600"
    with train_async.make_context("train-async", options.split()) as context:
        return new_config("async", context.params)


def trained(config: TrainConfig, path: Path, last_update: int | None, seed: int) -> Metrics:
    """Return the metrics of a run, which is trained unless the folder has this run, ended."""
    config = config.changed(seed=seed)
    if path.exists():
        if read_config(path).to_dict() != config.to_dict():
            raise click.UsageError(f"{path} is a run of other settings: give other --runs")
        if not (is_finished(path) or len(read_metrics(path)) == last_update):
            raise click.UsageError(f"{path} is a run that was stopped: remove it, or finish it")
    if not path.exists():
        config.environment.check()  # Compiles what its workers would each compile.
        train_policy(config, path, quiet=True, last_update=last_update)
    return read_metrics(path)


def until(metrics: Metrics, target: float, window: int) -> tuple[float, ...]:
    """Return COLUMNS of the update that reached the target, or infinities."""
    row = first_reached(metrics, target, window)
    return tuple(math.inf if row is None else row[column] for column in COLUMNS)


def draw(path: Path, seconds: dict[str, dict[float, list[float]]], target: float) -> None:
    """Draw seconds to the target by the cost of a step: seconds[algorithm][milliseconds]."""
    figure = Figure(figsize=(7, 4.2), layout="constrained")
    axes = figure.subplots()
    for name, by_cost in seconds.items():
        middle = np.array([statistics.median(of) for of in by_cost.values()])
        ends = np.array([[min(of), max(of)] for of in by_cost.values()])
        axes.errorbar(
            list(by_cost), middle, np.abs(ends - middle[:, None]).T, fmt="o-", label=name, capsize=3
        )
    axes.set(xlabel="added to each real step, ms", ylabel=f"seconds to {target:g}", yscale="log")
    costs = sorted({cost for of in seconds.values() for cost in of})
    axes.set_xscale("log" if costs[0] else "symlog")
    axes.set_xticks(costs, [f"{cost:g}" for cost in costs])
    axes.minorticks_off()
    axes.grid(alpha=0.3)
    axes.legend()
    save_png(figure, path)


@click.command(help=__doc__, context_settings={"show_default": True})
@click.argument("task", type=click.Choice(list(TASKS)))
@click.option("--algorithms", help="Separated by commas; all of the task's unless given.")
@click.option("--seeds", default=5, type=click.IntRange(1))
@click.option("--slow-ms", "slow", multiple=True, default=[0.0], help="May be given again.")
@click.option("--updates", type=int, help="After which a run ends, if it has not before.")
@click.option("--runs", type=click.Path(path_type=Path), help="Folder that keeps the runs.")
@click.option("--png", type=click.Path(path_type=Path), help="Seconds by the cost of a step.")
def main(
    task: str,
    algorithms: str | None,
    seeds: int,
    slow: Sequence[float],
    updates: int | None,
    runs: Path | None,
    png: Path | None,
) -> None:
    chosen = TASKS[task]
    names = algorithms.split(",") if algorithms else list(chosen.algorithms)
    if unknown := set(names) - chosen.algorithms.keys():
        raise click.UsageError(f"--algorithms {min(unknown)}: there are {[*chosen.algorithms]}")
    costs = sorted(set(slow))
    with tempfile.TemporaryDirectory() as folder:
        turns = {
            (name, cost): functools.partial(_turn, task, name, cost, runs or Path(folder), updates)
            for cost in costs
            for name in names
        }
        ended = in_turns(turns, seeds, quiet=False)
    rows: list[list[str]] = []
    for (name, cost), metrics in ended.items():
        for target in chosen.targets:
            reached = [until(run, target, chosen.window) for run in metrics]
            columns = map(spread, zip(*reached, strict=True))
            rows.append([name, f"+{cost:g} ms", f"{target:g}", *columns])
    headings = ["algorithm", "a step", "to", "episodes", "real steps", "seconds"]
    click.echo(text_table(headings, rows, markdown=True))
    click.echo(machine_name())
    if png is not None:
        target = chosen.targets[0]
        drawn: dict[str, dict[float, list[float]]] = {name: {} for name in names}
        for (name, cost), metrics in ended.items():
            seconds = [until(run, target, chosen.window)[2] for run in metrics]
            drawn[name][cost] = seconds
        draw(png, drawn, target)


def _turn(
    task: str, name: str, cost: float, folder: Path, last_update: int | None, seed: int
) -> Metrics:
    path = folder / f"{task}-{name.replace(' ', '-')}-{cost:g}-ms-seed-{seed}"
    return trained(config_of(TASKS[task], name, cost), path, last_update, seed)


if __name__ == "__main__":
    main()
