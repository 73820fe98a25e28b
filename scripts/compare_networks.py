"""Compare mlp, entities and graph: five seeds each, on CAGE-2, on a family of networks, on CAGE-4.

On the family, with the settings of the preset any-network, a score is that of the networks which no
training plays. No network has attention between all entities (heads=0): graph has it along edges.

Trains each run by `train-async` in a folder, scores it by `evaluate` on episodes that chose
nothing, and writes a line of JSON for each. What has a line is not done again, and a run that was
stopped goes on. mlp plays no network of another size: on the family it has the return in training
alone.

    python scripts/compare_networks.py --runs runs/networks --jobs 5 --scoring-seed $(date +%s)
    python scripts/compare_networks.py --runs runs/networks --tasks cage2 --networks mlp --seeds 1
"""

from __future__ import annotations

import json
import shlex
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import click

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from workflow_rl.measuring.benchmark import machine_name, spread
from workflow_rl.runs.folder import is_finished, read_metrics
from workflow_rl.text_table import text_table

ROOT = Path(__file__).resolve().parents[1]
NETWORKS = {
    "mlp": "--network mlp",
    "entities": "--network entities --network-arg heads=0",
    "graph": "--network graph --network-arg heads=0",
    "graph-2": "--network graph --network-arg heads=0 --network-arg rounds=2",
}


class Task(NamedTuple):
    """Options of `train-async`, and the episodes of a score."""

    options: str
    episodes: int


TASKS = {
    "cage2": Task("--preset cage2-quick --total-episodes 8000", 300),
    "family": Task("--preset any-network --total-episodes 3000", 100),
    "cage4": Task("--preset cage4-quick", 300),
}


def called(*words: str) -> str:
    """Return what a command of the package wrote, or raise what it complained of."""
    command = [sys.executable, "-m", "workflow_rl", *words]
    said = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if said.returncode:
        raise click.ClickException(f"{shlex.join(words)}: {said.stderr.strip()[-500:]}")
    return said.stdout


def measured(
    task: str, network: str, seed: int, runs: Path, workers: int, scoring: int
) -> dict[str, Any]:
    """Train and score one run. Return its line."""
    path, of_task = runs / f"{task}-{network}-{seed}", TASKS[task]
    options = of_task.options.split()
    options += NETWORKS[network].split()
    if (path / "checkpoint.safetensors").exists() and not is_finished(path):
        called("train-async", "--resume", str(path), "--quiet")
    elif not is_finished(path):
        called("train-async", *options, "--seed", str(seed), "--n-workers", str(workers),
               "--run-dir", str(path), "--quiet")  # fmt: skip
    summary = json.loads((path / "summary.json").read_text())
    line = {
        **{"task": task, "network": network, "seed": seed, "scoring_seed": scoring},
        "return_in_training": summary["return_mean_recent"],
        "update_seconds": statistics.median(row["update_seconds"] for row in read_metrics(path)),
        "wall_seconds": summary["wall_seconds"],
    }
    if (task, network) != ("family", "mlp"):
        file = path / "scored.json"
        called("evaluate", str(path), "--episodes", str(of_task.episodes), "--seed", str(scoring),
               "--n-workers", str(workers), "--json", str(file), "--quiet")  # fmt: skip
        scores = json.loads(file.read_text())
        kind = "total" if "total" in scores else "mean"
        interval = scores["total_interval_95" if kind == "total" else "interval_95"]
        line |= {"score": scores[kind], "interval_95": interval}
    return line


def table(lines: Sequence[dict[str, Any]]) -> str:
    """Return medians and ranges over the seeds."""
    rows = []
    for task, network in dict.fromkeys((line["task"], line["network"]) for line in lines):
        of = [line for line in lines if (line["task"], line["network"]) == (task, network)]
        columns = [
            spread([line[name] for line in of], shown) if name in of[0] else "-"
            for name, shown in (
                ("score", "{:,.1f}".format),
                ("return_in_training", "{:,.1f}".format),
                ("update_seconds", "{:,.2f}".format),
                ("wall_seconds", "{:,.0f}".format),
            )
        ]
        rows.append([task, network, str(len(of)), *columns])
    headings = ["task", "network", "seeds", "score", "in training", "s an update", "s in all"]
    return str(text_table(headings, rows, left=2, markdown=True))


@click.command(help=__doc__, context_settings={"show_default": True})
@click.option("--runs", required=True, type=click.Path(path_type=Path), help="Keeps all.")
@click.option("--tasks", default="cage2,family,cage4")
@click.option("--networks", default="mlp,entities,graph")
@click.option("--seeds", default=5, type=click.IntRange(1))
@click.option("--jobs", default=1, type=click.IntRange(1), help="Runs at a time.")
@click.option("--workers", default=3, type=click.IntRange(1), help="Of each run.")
@click.option("--scoring-seed", type=int, help="By default the time at which a run has ended.")
def main(
    runs: Path,
    tasks: str,
    networks: str,
    seeds: int,
    jobs: int,
    workers: int,
    scoring_seed: int | None,
) -> None:
    runs.mkdir(parents=True, exist_ok=True)
    runs = runs.resolve()
    if unknown := {*tasks.split(",")} - {*TASKS} | {*networks.split(",")} - {*NETWORKS}:
        raise click.UsageError(f"{min(unknown)} is none of {', '.join([*TASKS, *NETWORKS])}")
    file = runs / "networks.jsonl"
    lines = [json.loads(text) for text in file.read_text().splitlines()] if file.exists() else []
    done = {(line["task"], line["network"], line["seed"]) for line in lines}
    asked = [
        (task, network, seed)
        for seed in range(seeds)
        for task in tasks.split(",")
        for network in networks.split(",")
        if (task, network, seed) not in done
    ]

    def one(place: tuple[str, str, int]) -> None:
        line = measured(*place, runs, workers, scoring_seed or int(time.time()))
        lines.append(line)
        with file.open("a") as out:
            out.write(json.dumps(line) + "\n")
        click.echo(json.dumps(line))

    with ThreadPoolExecutor(jobs) as pool:
        for ended in [pool.submit(one, place) for place in asked]:
            ended.result()
    click.echo(table(sorted(lines, key=lambda line: [*TASKS].index(line["task"]))))
    click.echo(machine_name())


if __name__ == "__main__":
    main()
