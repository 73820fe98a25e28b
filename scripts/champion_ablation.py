"""What each ingredient of the champion's recipe brings, and what hidden information costs.

Every run is the recipe of `train-champion` with something changed. The last agent of each run is
scored: nothing is chosen. Scores are the sum of the nine cells, on fresh episodes of the compiled
simulator against each attacker. Rows are added to --json as runs end. Runs that the file has are
left out, so that the command can be stopped and called again.
"""

from __future__ import annotations

import json
import multiprocessing
import statistics
import sys
import tempfile
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import Any

import click
from tqdm import tqdm

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import workflow_rl.portable  # isort: skip  # noqa: F401  # Before anything loads NumPy.

import numpy as np
from prettytable import PrettyTable

from workflow_rl.cage.recipe import train_recipe
from workflow_rl.cage2.agent import champion
from workflow_rl.cage2.env.environment import Cage2
from workflow_rl.cage2.scoring.selection import ATTACKERS, scores_of_episodes
from workflow_rl.collection.local_pool import SAFE_PATH, variables_set
from workflow_rl.output_files import require_writable, write_text
from workflow_rl.reporting.text_table import text_table
from workflow_rl.runs.saved_agent import load_saved

SCORING_SEED = 153
"""The seed of the episodes that score. `train-champion` chooses on those of seed 0."""
SCORING_EPISODES = 3000

CHANGES: dict[str, dict[str, Any]] = {
    "recipe": {},
    "no belief": {"observation": "table"},
    "no opening": {"opening": ()},
    "all 145 actions": {"actions": "all"},
    "sees the true state": {"observation": "true-state"},
}
"""What each run changes of the environment's arguments."""


def key(change: str, episodes: int) -> dict[str, Any]:
    """Return what a row says of its run: a row does not count once the recipe is another."""
    env_args = {**champion.ENV_ARGS, **CHANGES[change]}
    recipe = {"env_args": env_args, "ppo": champion.PPO, "run": champion.RUN}
    row: dict[str, Any] = json.loads(json.dumps({"recipe": recipe}))
    return {"variant": change, "episodes": episodes, **row}


def rows_of(rows: list[dict[str, Any]], change: str, episodes: int) -> list[dict[str, Any]]:
    """Return the rows of the present recipe."""
    wanted = key(change, episodes).items()
    return [row for row in rows if all(row.get(name) == value for name, value in wanted)]


def measured(row: dict[str, Any], seed: int, scoring_episodes: int) -> dict[str, Any]:
    """Train and score the run that `key` describes, on one core."""
    recipe = row["recipe"]
    config = champion.recipe(
        seed,
        row["episodes"],
        recipe["env_args"],
        {**recipe["ppo"], "hidden_sizes": tuple(recipe["ppo"]["hidden_sizes"])},
        **{**recipe["run"], "n_workers": 1, "learner_threads": 1},
    )
    with tempfile.TemporaryDirectory() as folder:
        run = Path(folder) / "run"
        train_recipe(config, run)
        policy, environment = load_saved(run, "latest")
    assert isinstance(environment, Cage2)
    cells = {}
    for red_agent in ATTACKERS:
        scores = scores_of_episodes(policy, environment, red_agent, scoring_episodes, SCORING_SEED)
        cells[red_agent] = scores.mean(axis=0).tolist()
    return {**row, "seed": seed, "cells": cells, "total": sum(map(sum, cells.values()))}


def run_all(
    measured: Callable[..., dict[str, Any]],
    todo: Sequence[tuple[Any, ...]],
    rows: list[dict[str, Any]],
    path: Path,
    jobs: int,
) -> None:
    """Call `measured` with each of `todo` in a process of its own, and add what it returns to the
    rows and to the file."""
    context = multiprocessing.get_context("spawn")
    with (
        variables_set(SAFE_PATH),
        ProcessPoolExecutor(jobs, context, max_tasks_per_child=1) as pool,
        tqdm(total=len(todo), unit="run") as bar,
    ):
        for future in as_completed([pool.submit(measured, *run) for run in todo]):
            rows.append(future.result())
            write_text(path, json.dumps(rows) + "\n")
            bar.update()


def table(rows: list[dict[str, Any]], episodes: int) -> PrettyTable:
    """Return the median and the range of the seeds' totals, and the cells' means."""
    headings = ["", "seeds", "median", "range", "B_line 30/50/100", "Meander 30/50/100"]
    lines = []
    for change in CHANGES:
        if seeded := rows_of(rows, change, episodes):
            totals = [row["total"] for row in seeded]
            ends = f"{min(totals):.1f} to {max(totals):.1f}"
            means = [np.mean([row["cells"][red] for row in seeded], axis=0) for red in ATTACKERS]
            figures = [" / ".join(f"{cell:.2f}" for cell in mean) for mean in means]
            lines.append([change, len(seeded), f"{statistics.median(totals):.1f}", ends, *figures])
    return text_table(headings, lines, markdown=True)


@click.command(context_settings={"show_default": True})
@click.option("--variant", "changes", type=click.Choice(list(CHANGES)), multiple=True,
              default=list(CHANGES))  # fmt: skip
@click.option("--seeds", type=click.IntRange(1), default=3, help="Runs of each variant.")
@click.option("--episodes", type=click.IntRange(champion.RUN["episodes_per_update"]),
              default=champion.TOTAL_EPISODES, help="Episodes of training.")  # fmt: skip
@click.option("--jobs", type=click.IntRange(1), default=2, help="Runs at a time, a core each.")
@click.option("--json", "path", type=click.Path(path_type=Path), required=True,
              metavar="FILE")  # fmt: skip
def main(changes: tuple[str, ...], seeds: int, episodes: int, jobs: int, path: Path) -> None:
    """Train every variant, and print a table of the scores."""
    require_writable(path, "--json")
    rows: list[dict[str, Any]] = json.loads(path.read_text()) if path.exists() else []
    todo = [
        (key(change, episodes), seed, SCORING_EPISODES)
        for seed in range(seeds)
        for change in changes
        if seed not in [row["seed"] for row in rows_of(rows, change, episodes)]
    ]
    run_all(measured, todo, rows, path, jobs)
    click.echo(table(rows, episodes))


if __name__ == "__main__":
    main()
