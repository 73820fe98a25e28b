"""As good as other libraries, and faster? Both train on the same number of env steps.

The tasks and their settings are in `tasks.py`. Every run is scored by the agent that it ends with:
the mean return of 100 seeded episodes that the agent was not trained on, with the likeliest actions
(BenchMARL: sampled ones). The libraries take turns, seed by seed. Seconds are wall time from the
start of a process, imports included, to the end of training. The other libraries compute with the
processor's own kernels, as their users do; this package with pinned ones. Rows are added to --json
as runs end, and runs that the file has already, with the same settings on the same machine, are
left out, so that the command can be stopped and called again.

The first call installs the libraries and this checkout in `.peers/returns`.

    python scripts/compare_with_peers/compare_returns.py --task "recall 30" --json rows.json
"""

from __future__ import annotations

import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import click
from prettytable import PrettyTable

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "scripts"), str(HERE)]

from client_environments import build_wheel, install  # noqa: E402
from tasks import EPISODES, TASKS, Task  # noqa: E402

from workflow_rl import portable  # noqa: E402
from workflow_rl.measuring.benchmark import machine_name  # noqa: E402
from workflow_rl.output_files import write_text  # noqa: E402
from workflow_rl.text_table import text_table  # noqa: E402

OURS, FORGETFUL = "workflow_rl", "workflow_rl, mlp"
"""The second one learns what needs a memory, and has none."""


def call(python: Path, *words: str, **variables: str) -> str:
    """Return what a program prints. Raises ClickException, with its end, if it fails.

    This process has pinned the kernels. The program has its own choice, and these variables.
    """
    unpinned = {name: text for name, text in os.environ.items() if name not in portable.PINS}
    paths = os.pathsep.join([str(HERE), str(ROOT)])
    done = subprocess.run(
        [str(python), *words],
        cwd=HERE,
        env={**unpinned, "PYTHONPATH": paths, **variables},
        capture_output=True,
        text=True,
    )
    if done.returncode:
        raise click.ClickException(f"{' '.join(words)}:\n{done.stderr[-2000:]}")
    return done.stdout


def train_theirs(python: Path, task: Task, steps: int, seed: int) -> dict[str, Any]:
    """Train with the other library."""
    file = "benchmarl_mappo.py" if task.peer == "MAPPO" else "sb3.py"
    name = next(name for name, known in TASKS.items() if known is task)
    words = (str(HERE / file), name, str(steps), str(seed), str(time.time()))
    shown = call(python, *words, **{portable.NATIVE: "1"})
    row: dict[str, Any] = json.loads(shown.splitlines()[-1])
    return row


def train_forgetful(python: Path, task: Task, steps: int, seed: int) -> dict[str, Any]:
    """Train with this package, but for the memory."""
    return train_ours(python, task._replace(ours=task.ours.replace("gru", "mlp")), steps, seed)


def train_ours(python: Path, task: Task, steps: int, seed: int) -> dict[str, Any]:
    """Train with this package."""
    with tempfile.TemporaryDirectory() as folder:
        run, scores = f"{folder}/run", Path(folder) / "scores.json"
        start = time.perf_counter()
        training = f"--env {task.env} --total-steps {steps} --seed {seed} {task.ours}"
        command = ("-m", "workflow_rl")
        call(python, *command, "train-async", "--run-dir", run, *training.split(), "--quiet")
        seconds = time.perf_counter() - start
        scoring = f"--which latest --episodes {EPISODES} --seed {10_000 + seed}"
        call(python, *command, "evaluate", run, "--json", str(scores), *scoring.split(), "--quiet")
        return {"return": json.loads(scores.read_text())["mean"], "seconds": seconds}


def trainers(task: Task) -> dict[str, Callable[[Path, Task, int, int], dict[str, Any]]]:
    """Return who trains, by name, with a function that trains."""
    more = {FORGETFUL: train_forgetful} if task.peer == "RecurrentPPO" else {}
    return {task.peer: train_theirs, OURS: train_ours, **more}


def settings_of(task: Task, trainer: str) -> str:
    """Return the settings that a row is of."""
    return task.theirs if trainer == task.peer else task.ours


def comparison_table(rows: Sequence[dict[str, Any]]) -> PrettyTable:
    """Return a line for each task and budget: mean and standard error of returns, and seconds."""
    lines = []
    for name, steps in dict.fromkeys((row["task"], row["steps"]) for row in rows):
        peer = TASKS[name].peer
        of = {
            trainer: [
                row
                for row in rows
                if (row["task"], row["steps"], row["trainer"]) == (name, steps, trainer)
            ]
            for trainer in (peer, OURS, FORGETFUL)
        }
        forgetful = of.pop(FORGETFUL)
        if not all(of.values()):
            continue
        seconds = [
            statistics.median([run["seconds"] for run in runs if run["seconds"]] or [math.nan])
            for runs in of.values()
        ]
        lines.append(
            [
                *(name, f"{steps:,}", "/".join(str(len(runs)) for runs in of.values()), peer),
                *(mean_and_error([run["return"] for run in runs]) for runs in of.values()),
                mean_and_error([run["return"] for run in forgetful]) if forgetful else "",
                *(f"{median:.0f}" for median in seconds),
                f"{seconds[0] / seconds[1]:.2f}",
            ]
        )
    headings = ["task", "steps", "seeds", "peer", "its return ± standard error", "our return"]
    headings += ["without memory", "its seconds", "our seconds", "x as fast"]
    return text_table(headings, lines)


def mean_and_error(returns: Sequence[float]) -> str:
    mean = statistics.mean(returns)
    if len(returns) == 1:
        return f"{mean:.2f}"
    return f"{mean:.2f} ± {statistics.stdev(returns) / len(returns) ** 0.5:.2f}"


def peers_python() -> Path:
    """Return the Python that has all libraries, installed if they are not there."""
    environment = ROOT / ".peers" / "returns"
    if (environment / "installed").exists():
        return environment / "bin" / "python"
    with tempfile.TemporaryDirectory() as folder:
        wheel = build_wheel(Path(folder))
        python = install(environment, wheel, HERE / "requirements.txt", is_whole=True)
    (environment / "installed").touch()
    return python


@click.command(help=__doc__, context_settings={"show_default": True})
@click.option("--task", "names", type=click.Choice(list(TASKS)), multiple=True, default=list(TASKS))
@click.option("--seeds", type=click.IntRange(1), default=5, help="Runs of each.")
@click.option("--steps", type=click.IntRange(1), help="Fewer steps, to try it.", show_default="all")
@click.option("--python", type=click.Path(path_type=Path), help="A Python that has all libraries.",
              show_default="that of .peers/returns")  # fmt: skip
@click.option("--json", "path", type=click.Path(path_type=Path), required=True, metavar="FILE")
def main(
    names: tuple[str, ...], seeds: int, steps: int | None, python: Path | None, path: Path
) -> None:
    rows: list[dict[str, Any]] = json.loads(path.read_text()) if path.exists() else []
    python = python.absolute() if python else peers_python()
    for seed in range(seeds):
        for name in names:
            budget = steps or TASKS[name].steps
            for trainer, train in trainers(TASKS[name]).items():
                key = {"task": name, "steps": budget, "trainer": trainer, "seed": seed}
                key |= {"settings": settings_of(TASKS[name], trainer), "machine": machine_name()}
                if any(key.items() <= row.items() for row in rows):
                    continue
                rows.append({**key, **train(python, TASKS[name], budget, seed)})
                click.echo(rows[-1])
                write_text(path, json.dumps(rows, indent=1) + "\n")
    click.echo(comparison_table(rows))
    click.echo(machine_name())


if __name__ == "__main__":
    main()
