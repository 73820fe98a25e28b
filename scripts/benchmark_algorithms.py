"""How many real steps PPO, sac and mbpo take to a return, and when that pays.

Trains each on a task with several seeds, in turns, and prints until when the mean return of the
last episodes had reached the target: medians over the seeds, and their ranges. With --slow-ms every
real step takes so long, as `--slow-worker-ms` does; seconds are what this machine took.

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
from prettytable import PrettyTable, TableStyle

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

# Before NumPy, which reads what it pins: see `workflow_rl.portable`.
from workflow_rl.reporting.compare_modes import Run, train_all  # noqa: E402
from workflow_rl.runs.config import TrainConfig  # noqa: E402
from workflow_rl.runs.learning_curve import running_mean  # noqa: E402
from workflow_rl.runs.machine import machine  # noqa: E402


class Task(NamedTuple):
    """An environment, the returns to reach as means of the last `window` episodes, and by algorithm
    the settings that were found to do well, of TrainConfig."""

    settings: dict[str, Any]
    targets: tuple[float, ...]
    window: int
    algorithms: dict[str, dict[str, Any]]


BELIEF = {"observation": "belief", "actions": "useful"}
AGAINST_B_LINE = {"simulator": "compiled", "red_agent": "B_lineAgent"}
BY_EPISODES = {"n_envs": 12, "n_workers": 12, "episodes_per_update": 12}
BY_STEPS = {"n_envs": 1, "n_workers": 1, "num_steps_per_env": 50}
OFF_POLICY = {**BY_STEPS, "steps_per_update": 200}
SMALL = {"hidden_sizes": (64, 64), "learning_rate": 1e-3, "discount": 0.95}
TASKS = {
    "pendulum": Task(
        {"env": "Pendulum-v1"},
        (-200.0,),
        10,
        {
            "ppo": {
                "n_envs": 4,
                "n_workers": 2,
                "num_steps_per_env": 400,
                "total_steps": 60_800,
                "ppo": {
                    **{"hidden_sizes": (64, 64), "log_std_init": 0.7, "learning_rate": 1e-3},
                    **{"discount": 0.9, "gae_lambda": 0.95, "entropy_coef": 0.0},
                    **{"epochs": 10, "minibatch_size": 64},
                    **{"normalise_obs": True, "normalise_returns": True},
                },
            },
            "sac": {
                **OFF_POLICY,
                "total_steps": 6000,
                "ppo": SMALL,
                "mbpo": {"gradient_steps": 1.0, "warm_up_steps": 400},
            },
            "mbpo": {
                **OFF_POLICY,
                "total_steps": 4000,
                "ppo": SMALL,
                "mbpo": {
                    **{"gradient_steps": 4.0, "warm_up_steps": 400, "imagined_share": 0.8},
                    **{"imagined_rollouts": 4.0, "rollout_length_final": 1},
                    **{"model_hidden_sizes": (64, 64)},
                },
            },
        },
    ),
    "hopper": Task(
        {"env": "Hopper-v5"},
        (1500.0,),
        10,
        {
            "ppo": {
                "n_envs": 4,
                "n_workers": 1,
                "num_steps_per_env": 512,
                "total_steps": 600_064,
                "ppo": {
                    **{"hidden_sizes": (64, 64), "activation": "tanh", "learning_rate": 3e-4},
                    **{"discount": 0.99, "gae_lambda": 0.95, "entropy_coef": 0.0},
                    **{"epochs": 10, "minibatch_size": 64},
                    **{"normalise_obs": True, "normalise_returns": True},
                },
            },
            "sac": {
                **{**BY_STEPS, "steps_per_update": 500},
                "total_steps": 120_000,
                "ppo": {"hidden_sizes": (128, 128), "learning_rate": 1e-3, "discount": 0.99},
                "mbpo": {
                    **{"gradient_steps": 3.0, "warm_up_steps": 2000},
                    **{"batch_size": 128, "target_rate": 0.005},
                },
            },
            "mbpo": {
                **{**BY_STEPS, "steps_per_update": 500},
                "total_steps": 40_000,
                "ppo": {"hidden_sizes": (128, 128), "learning_rate": 5e-4, "discount": 0.99},
                "mbpo": {
                    **{"gradient_steps": 8.0, "warm_up_steps": 2000, "imagined_share": 0.8},
                    **{"batch_size": 128, "target_rate": 0.005, "target_entropy": -0.33},
                    **{"imagined_rollouts": 8.0, "imagined_updates": 10},
                    **{"rollout_length_final": 2, "model_patience": 3, "model_epochs": 30},
                },
            },
        },
    ),
    "cage2": Task(
        {},
        (-60.0, -30.0),
        100,
        {
            "ppo": {**BY_EPISODES, "env_args": AGAINST_B_LINE, "total_episodes": 2000},
            "ppo with belief": {
                **BY_EPISODES,
                "env_args": {**AGAINST_B_LINE, **BELIEF},
                "total_episodes": 900,
            },
            "sac": {
                **BY_EPISODES,
                "env_args": {**AGAINST_B_LINE, **BELIEF},
                "total_episodes": 180,
            },
            "mbpo": {
                **BY_EPISODES,
                "env_args": {**AGAINST_B_LINE, **BELIEF},
                "total_episodes": 180,
                "mbpo": {
                    **{"gradient_steps": 0.66, "warm_up_steps": 1200, "imagined_share": 0.75},
                    **{"imagined_rollouts": 4.0, "rollout_length_final": 1},
                    **{"model_members": 3, "model_elites": 2, "model_hidden_sizes": (64, 64)},
                    **{"model_patience": 2},
                },
            },
        },
    ),
}


def config_of(task: Task, name: str, slow_ms: float) -> TrainConfig:
    """Of an algorithm on a task; "ppo with belief" is PPO."""
    settings: dict[str, Any] = {**task.settings, **task.algorithms[name]}
    if slow_ms:
        settings |= {"slow_worker_ms": slow_ms, "slow_worker_share": 1.0}
    return TrainConfig("async", algorithm=name.split()[0], **settings)


def reached(run: Run, target: float, window: int) -> tuple[float, float, float]:
    """Episodes, real steps and seconds until then; infinite if never."""
    for row, mean in zip(run.metrics, running_mean(run.metrics, window), strict=True):
        if row["episodes"] >= window and mean >= target:
            return row["episodes"], row["env_steps"], row["wall_seconds"]
    return math.inf, math.inf, math.inf


def spread(numbers: Sequence[float]) -> str:
    """Median and range, "-" for never."""
    shown = ["-" if math.isinf(one) else f"{one:,.0f}" for one in sorted(numbers)]
    median = statistics.median_low(numbers)
    middle = "-" if math.isinf(median) else f"{median:,.0f}"
    return f"{middle} ({shown[0]} to {shown[-1]})"


class Measured(NamedTuple):
    """Until the target, medians: milliseconds a real step took longer, real steps, seconds; and in
    how many workers at once they were taken."""

    slow_ms: float
    steps: float
    seconds: float
    n_workers: int

    def line(self) -> tuple[float, float]:
        """Seconds if a step cost nothing more, and seconds for each millisecond it does."""
        slope = 1e-3 * self.steps / self.n_workers
        return self.seconds - slope * self.slow_ms, slope


def draw(measured: dict[str, Measured], target: float, path: Path) -> None:
    """Seconds to the target against what a real step costs: as measured, and lines through that."""
    import matplotlib.pyplot as plt
    import numpy as np

    figure, axes = plt.subplots(figsize=(7, 4.5))
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
    figure.savefig(path, dpi=120, bbox_inches="tight")


@click.command(help=__doc__)
@click.argument("task", type=click.Choice(list(TASKS)))
@click.option("--algorithms", help="Separated by commas; all of the task's unless given.")
@click.option("--seeds", default=5, show_default=True, type=click.IntRange(1))
@click.option(
    "--slow-ms", "slow", multiple=True, default=[0.0], type=float, help="May be given again."
)
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
    """Measure them in turns."""
    chosen = TASKS[task]
    names = algorithms.split(",") if algorithms else list(chosen.algorithms)
    if unknown := set(names) - chosen.algorithms.keys():
        raise click.UsageError(f"--algorithms {min(unknown)}: there are {[*chosen.algorithms]}")
    table = PrettyTable(["a step", "algorithm", "to", "episodes", "real steps", "seconds"])
    table.set_style(TableStyle.MARKDOWN)
    table.align = "r"
    numbers = []
    measured: dict[str, Measured] = {}
    for cost in sorted(set(slow)):
        configs = {name: config_of(chosen, name, cost) for name in names}
        with tempfile.TemporaryDirectory() as folder:
            runs = train_all(configs, seeds, Path(folder), quiet=False, last_update=updates)
        for name in names:
            for target in chosen.targets:
                until = [reached(run, target, chosen.window) for run in runs[name]]
                columns = list(zip(*until, strict=True))
                table.add_row([f"+{cost:g} ms", name, f"{target:g}", *map(spread, columns)])
                entry = {"algorithm": name, "target": target, "slow_ms": cost, "seeds": until}
                numbers.append(entry)
                if target == chosen.targets[0]:
                    _, steps, seconds = map(statistics.median_low, columns)
                    n_workers = configs[name].n_workers or 1
                    measured[name] = Measured(cost, steps, seconds, n_workers)
    click.echo(table)
    if json_path is not None:
        content = {"task": task, "reached": numbers, "machine": machine()}
        json_path.write_text(json.dumps(content, indent=1) + "\n")
    if plot is not None and all(math.isfinite(one.steps) for one in measured.values()):
        draw(measured, chosen.targets[0], plot)


if __name__ == "__main__":
    main()
