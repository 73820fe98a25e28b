"""What each ingredient of the champion's recipe brings, and what not seeing all costs.

Every run is the recipe of `train-champion` with something changed, scored by the agent that it ends
with: nothing is chosen. Scores are the nine cells' sum, of fresh episodes of the compiled
simulator against each attacker. Rows are added to --json as runs end, and runs that it has already
are left out, so that the command can be stopped and called again.
"""

from __future__ import annotations

import csv
import json
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import Any

import click
import numpy as np
from prettytable import PrettyTable, TableStyle
from tqdm import tqdm

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from workflow_rl.cage2.agent.champion import RECIPE, TOTAL_EPISODES, as_arguments
from workflow_rl.cage2.env.environment import Cage2
from workflow_rl.cage2.scoring.selection import ATTACKERS, scores_of_episodes
from workflow_rl.output_files import require_writable, write_text
from workflow_rl.runs.saved_agent import load_saved

ROOT = Path(__file__).resolve().parent.parent

Options = dict[str, Any]

# Not those that train-champion chooses on, whose seed is 0.
SCORING_SEED = 153
SCORING_EPISODES = 3000
CURVE_POINTS = 60

VARIANTS: dict[str, tuple[Options, ...]] = {
    "recipe": ({},),
    "no belief": ({"observation": "table"},),
    "no opening": ({"opening": ()},),
    "all 145 actions": ({"actions": "all"},),
    "discount 0.99, lambda 0.95": ({"discount": 0.99, "gae-lambda": 0.95},),
    "constant entropy bonus": ({"entropy-coef-final": None},),
    "64-64 networks": ({"hidden-sizes": "64,64"},),
    "minibatches of steps": ({"minibatches-of": "steps"},),
    "200 episodes an update": (
        {"n-envs": 200, "episodes-per-update": 200, "minibatch-size": 5000},
    ),
    # One for each attacker, as if it were known who that is.
    "two specialists": tuple({"red-agent": red_agent} for red_agent in ATTACKERS),
    "sees the true state": ({"observation": "true-state"},),
}
"""What is changed of the recipe; None takes an option away."""


def train(options: Options, episodes: int, seed: int, folder: Path) -> None:
    """One run, on one core: the same weights as on any number."""
    given = {
        **{**RECIPE, **options},
        **{"total-episodes": episodes, "seed": seed, "run-dir": folder},
        **{"n-workers": 1, "learner-threads": 1},
    }
    arguments = [*as_arguments(given), "--quiet"]
    command = [sys.executable, "-m", "workflow_rl", "train-async", *arguments]
    subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.DEVNULL)


def key(variant: str, episodes: int) -> dict[str, Any]:
    """What a row says of its runs: it does not count once the recipe is another."""
    recipes = [as_arguments({**RECIPE, **options}) for options in VARIANTS[variant]]
    return {"variant": variant, "episodes": episodes, "recipes": recipes}


def rows_of(rows: list[dict[str, Any]], variant: str, episodes: int) -> list[dict[str, Any]]:
    """Those of the recipe as it is."""
    wanted = key(variant, episodes).items()
    return [row for row in rows if all(row.get(name) == value for name, value in wanted)]


def measured(variant: str, episodes: int, seed: int) -> dict[str, Any]:
    """Train and score one of VARIANTS."""
    row = {**key(variant, episodes), "seed": seed}
    cells, curves = {}, []
    for options in VARIANTS[variant]:
        with tempfile.TemporaryDirectory() as folder:
            train(options, episodes, seed, Path(folder) / "run")
            curves.append(list(curve(Path(folder) / "run" / "metrics.csv")))
            policy, environment = load_saved(Path(folder) / "run", "latest")
        assert isinstance(environment, Cage2)
        # A specialist's own cells alone.
        red_agents = (environment.red_agent,) if environment.red_agent in ATTACKERS else ATTACKERS
        for red_agent in red_agents:
            scores = scores_of_episodes(
                policy, environment, red_agent, SCORING_EPISODES, SCORING_SEED
            )
            cells[red_agent] = scores.mean(axis=0).tolist()
    return {**row, "cells": cells, "total": sum(map(sum, cells.values())), "curves": curves}


def curve(metrics: Path) -> Iterator[tuple[float, float, float]]:
    """Episodes, seconds and mean return of the training episodes, in a few points."""
    with metrics.open() as file:
        rows = list(csv.DictReader(file))
    for part in np.array_split(np.arange(len(rows)), min(CURVE_POINTS, len(rows))):
        last = rows[part[-1]]
        mean = float(np.mean([float(rows[n]["return_mean"]) for n in part]))
        yield float(last["episodes"]), float(last["wall_seconds"]), mean


def table(rows: list[dict[str, Any]], episodes: int) -> PrettyTable:
    """A line a variant: the median total of its seeds, their range, and cells' means."""
    result = PrettyTable(
        ["", "seeds", "median", "range", "B_line 30/50/100", "Meander 30/50/100"], align="r"
    )
    result.set_style(TableStyle.MARKDOWN)
    result.align[""] = "l"
    for variant in VARIANTS:
        its = rows_of(rows, variant, episodes)
        if not its:
            continue
        totals = [row["total"] for row in its]
        means = [np.mean([row["cells"][red] for row in its], axis=0) for red in ATTACKERS]
        result.add_row(
            [
                *(variant, len(its), f"{statistics.median(totals):.1f}"),
                f"{min(totals):.1f} to {max(totals):.1f}",
                *(" / ".join(f"{cell:.2f}" for cell in mean) for mean in means),
            ]
        )
    return result


def draw(rows: list[dict[str, Any]], episodes: int, path: Path) -> None:
    """Training returns of the variants with one run a seed: median and range, against episodes, and
    against seconds of one core."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(12, 4.5), layout="constrained")
    panels = figure.subplots(1, 2, sharey=True)
    for variant, changes in VARIANTS.items():
        its = rows_of(rows, variant, episodes)
        if len(changes) > 1 or not its:
            continue
        curves = np.array([row["curves"][0] for row in its])
        middle, returns = np.median(curves, axis=0), curves[:, :, 2]
        low, high = returns.min(axis=0), returns.max(axis=0)
        colour = f"C{len(panels[0].lines)}"
        for column, axes in enumerate(panels):
            axes.plot(middle[:, column], middle[:, 2], color=colour, label=variant)
            axes.fill_between(middle[:, column], low, high, color=colour, alpha=0.2)
    panels[0].set(xlabel="episodes", ylabel="return of a training episode", ylim=(-40, -10))
    panels[1].set(xlabel="seconds on one core")
    panels[0].legend()
    for axes in panels:
        axes.grid(alpha=0.3)
    figure.suptitle("Median and range of the seeds")
    figure.savefig(path, dpi=120)


@click.command(context_settings={"show_default": True})
@click.option(
    "--variant",
    "variants",
    type=click.Choice(list(VARIANTS)),
    multiple=True,
    default=list(VARIANTS),
)
@click.option("--seeds", type=click.IntRange(1), default=3, help="Runs of each.")
@click.option("--episodes", type=click.IntRange(400), default=TOTAL_EPISODES, help="Of training.")
@click.option("--jobs", type=click.IntRange(1), default=2, help="Runs at a time, a core each.")
@click.option("--plot", type=click.Path(path_type=Path), metavar="FILE", help="Draw the curves.")
@click.option("--json", "path", type=click.Path(path_type=Path), required=True,
              metavar="FILE")  # fmt: skip
def main(
    variants: tuple[str, ...],
    seeds: int,
    episodes: int,
    jobs: int,
    plot: Path | None,
    path: Path,
) -> None:
    """Train every variant, and print a table of what they score."""
    require_writable(path, "--json")
    rows: list[dict[str, Any]] = json.loads(path.read_text()) if path.exists() else []
    todo = [
        (variant, episodes, seed)
        for seed in range(seeds)
        for variant in variants
        if seed not in [row["seed"] for row in rows_of(rows, variant, episodes)]
    ]
    with ThreadPoolExecutor(jobs) as pool, tqdm(total=len(todo), unit="run") as bar:
        try:
            for future in as_completed([pool.submit(measured, *run) for run in todo]):
                rows.append(future.result())
                write_text(path, json.dumps(rows) + "\n")
                bar.update()
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise
    click.echo(table(rows, episodes))
    if plot is not None:
        draw(rows, episodes, plot)


if __name__ == "__main__":
    main()
