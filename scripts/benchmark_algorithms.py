"""How many real steps PPO, sac and mbpo take to a return, and when that pays.

Trains each on a task with several seeds, in turns, and prints until when the mean return of the
last episodes had reached the target: medians over the seeds, and their ranges. With --slow-ms every
real step takes so much longer, as with `--slow-worker-ms`; seconds are what this machine took.

    python scripts/benchmark_algorithms.py pendulum
    python scripts/benchmark_algorithms.py cage2 --algorithms ppo,sac --updates 80 \\
      --slow-ms 20 --plot pays.png
"""

from __future__ import annotations

import json
import math
import statistics
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import click
import numpy as np
from matplotlib.figure import Figure

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from workflow_rl.async_train_workflow_rl import train_async
from workflow_rl.commands.run_plan import new_config
from workflow_rl.reporting.compare_modes import Run, train_all
from workflow_rl.reporting.harness import machine_name, spread, text_table
from workflow_rl.runs.config import TrainConfig
from workflow_rl.runs.drawing import save_png
from workflow_rl.runs.machine import machine
from workflow_rl.runs.returns import first_reached


class Task(NamedTuple):
    """Options of `train-async` for all algorithms, and by algorithm those that do well.

    targets: returns to reach, as means of the last `window` episodes.
    """

    options: str
    targets: tuple[float, ...]
    window: int
    algorithms: dict[str, str]


BELIEF = "--observation belief --actions useful"
ONE_ENV = "--n-envs 1 --n-workers 1 --num-steps-per-env 50"
TASKS = {
    "pendulum": Task(
        "--env Pendulum-v1",
        (-200.0,),
        10,
        {
            "ppo": "--n-envs 4 --n-workers 2 --num-steps-per-env 400 --total-steps 60800 "
            "--hidden-sizes 64,64 --log-std-init 0.7 --learning-rate 1e-3 --discount 0.9 "
            "--gae-lambda 0.95 --entropy-coef 0 --epochs 10 --minibatch-size 64 "
            "--normalise-obs --normalise-returns",
            "sac": f"{ONE_ENV} --steps-per-update 200 --total-steps 6000 --hidden-sizes 64,64 "
            "--learning-rate 1e-3 --discount 0.95 --gradient-steps 1 --warm-up-steps 400",
            "mbpo": f"{ONE_ENV} --steps-per-update 200 --total-steps 4000 --hidden-sizes 64,64 "
            "--learning-rate 1e-3 --discount 0.95 --gradient-steps 4 --warm-up-steps 400 "
            "--imagined-share 0.8 --imagined-rollouts 4 --rollout-length-final 1 "
            "--model-hidden-sizes 64,64",
        },
    ),
    "hopper": Task(
        "--env Hopper-v5",
        (1500.0,),
        10,
        {
            "ppo": "--n-envs 4 --n-workers 1 --num-steps-per-env 512 --total-steps 600064 "
            "--hidden-sizes 64,64 --activation tanh --learning-rate 3e-4 --discount 0.99 "
            "--gae-lambda 0.95 --entropy-coef 0 --epochs 10 --minibatch-size 64 "
            "--normalise-obs --normalise-returns",
            "sac": f"{ONE_ENV} --steps-per-update 500 --total-steps 120000 --hidden-sizes 128,128 "
            "--learning-rate 1e-3 --discount 0.99 --gradient-steps 3 --warm-up-steps 2000 "
            "--batch-size 128 --target-rate 0.005",
            "mbpo": f"{ONE_ENV} --steps-per-update 500 --total-steps 40000 --hidden-sizes 128,128 "
            "--learning-rate 5e-4 --discount 0.99 --gradient-steps 8 --warm-up-steps 2000 "
            "--imagined-share 0.8 --batch-size 128 --target-rate 0.005 --target-entropy -0.33 "
            "--imagined-rollouts 8 --imagined-updates 10 --rollout-length-final 2 "
            "--model-patience 3 --model-epochs 30",
        },
    ),
    "cage2": Task(
        "--simulator compiled --red-agent B_lineAgent --n-envs 12 --n-workers 12 "
        "--episodes-per-update 12",
        (-60.0, -30.0),
        100,
        {
            "ppo": "--total-episodes 2000",
            "ppo with belief": f"{BELIEF} --total-episodes 900",
            "sac": f"{BELIEF} --total-episodes 180",
            "mbpo": f"{BELIEF} --total-episodes 180 --gradient-steps 0.66 --warm-up-steps 1200 "
            "--imagined-share 0.75 --imagined-rollouts 4 --rollout-length-final 1 "
            "--model-members 3 --model-elites 2 --model-hidden-sizes 64,64 --model-patience 2",
        },
    ),
}


def config_of(task: Task, name: str, slow_ms: float) -> TrainConfig:
    """Return the config of an algorithm on a task; "ppo with belief" is PPO."""
    options = f"--algorithm {name.split()[0]} {task.options} {task.algorithms[name]}"
    if slow_ms:
        options += f" --slow-worker-ms {slow_ms} --slow-worker-share 1"
    with train_async.make_context("train-async", options.split()) as context:
        return new_config("async", context.params)


def reached(run: Run, target: float, window: int) -> tuple[float, float, float]:
    """Return episodes, real steps and seconds until the target; infinity if it was not reached."""
    row = first_reached(run.metrics, target, window)
    if row is None:
        return math.inf, math.inf, math.inf
    return row["episodes"], row["env_steps"], row["wall_seconds"]


class Measured(NamedTuple):
    """Medians until the first target.

    slow_ms: milliseconds that a real step took longer. n_workers: how many took steps at once.
    """

    slow_ms: float
    steps: float
    seconds: float
    n_workers: int

    def line(self) -> tuple[float, float]:
        """Return seconds if steps took no longer, and further seconds for each millisecond."""
        slope = 1e-3 * self.steps / self.n_workers
        return self.seconds - slope * self.slow_ms, slope


def draw(measured: dict[str, Measured], target: float) -> Figure:
    """Draw seconds to the target against the cost of a real step: points and lines through them."""
    figure = Figure(figsize=(7, 4.5), layout="constrained")
    axes = figure.subplots()
    costs = np.geomspace(1e-3, 100, 200)
    for name, one in measured.items():
        at_0, slope = one.line()
        (line,) = axes.plot(costs, at_0 + slope * costs, label=name)
        axes.plot(max(one.slow_ms, costs[0]), one.seconds, "o", color=line.get_color())
    axes.set(xscale="log", yscale="log", xlabel="milliseconds a real step takes longer")
    axes.set(ylabel=f"seconds until the mean return is {target:g}")
    (first, first_slope), *others = (one.line() for one in measured.values())
    for at_0, slope in others:
        if (at_0 - first) * (first_slope - slope) > 0:
            crossing = (at_0 - first) / (first_slope - slope)
            axes.axvline(crossing, color="0.7", linestyle=":")
            axes.annotate(f" {crossing:.1f} ms", (crossing, axes.get_ylim()[0]), va="bottom")
    axes.legend()
    axes.grid(alpha=0.3)
    return figure


@click.command(help=__doc__, context_settings={"show_default": True})
@click.argument("task", type=click.Choice(list(TASKS)))
@click.option("--algorithms", help="Separated by commas; all of the task's unless given.")
@click.option("--seeds", default=5, type=click.IntRange(1))
@click.option("--slow-ms", "slow", multiple=True, default=[0.0], help="May be given again.")
@click.option("--updates", type=int, help="After which a run ends, if it has not before.")
@click.option("--json", "json_path", type=Path, help="Where to write the numbers.")
@click.option("--plot", type=Path, help="Where to draw seconds to the first target.")
def main(
    task: str,
    algorithms: str | None,
    seeds: int,
    slow: Sequence[float],
    updates: int | None,
    json_path: Path | None,
    plot: Path | None,
) -> None:
    chosen = TASKS[task]
    names = algorithms.split(",") if algorithms else list(chosen.algorithms)
    if unknown := set(names) - chosen.algorithms.keys():
        raise click.UsageError(f"--algorithms {min(unknown)}: there are {[*chosen.algorithms]}")
    rows: list[list[str]] = []
    numbers: list[dict[str, Any]] = []
    measured: dict[str, Measured] = {}
    for cost in sorted(set(slow)):
        configs = {name: config_of(chosen, name, cost) for name in names}
        with tempfile.TemporaryDirectory() as folder:
            runs = train_all(configs, seeds, Path(folder), quiet=False, last_update=updates)
        for name in names:
            for target in chosen.targets:
                until = [reached(run, target, chosen.window) for run in runs[name]]
                columns = list(zip(*until, strict=True))
                rows.append([name, f"+{cost:g} ms", f"{target:g}", *map(spread, columns)])
                entry = {"algorithm": name, "target": target, "slow_ms": cost, "seeds": until}
                numbers.append(entry)
                if target == chosen.targets[0]:
                    _, steps, seconds = map(statistics.median_low, columns)
                    measured[name] = Measured(cost, steps, seconds, configs[name].n_workers or 1)
    headings = ["algorithm", "a step", "to", "episodes", "real steps", "seconds"]
    click.echo(text_table(headings, rows, markdown=True))
    click.echo(machine_name())
    if json_path is not None:
        content = {"task": task, "reached": numbers, "machine": machine()}
        json_path.write_text(json.dumps(content, indent=1) + "\n")
    if plot is not None and all(math.isfinite(one.steps) for one in measured.values()):
        save_png(draw(measured, chosen.targets[0]), plot)


if __name__ == "__main__":
    main()
