"""The challenge's evaluation as the challenge ran it: one `random.seed` for all nine cells.

Each episode depends on all episodes before it, so that everything runs in one process. It plays
csle-cyborg with the speed-ups: the returns are those of an exported folder's `evaluation.py`.
"""

from __future__ import annotations

import json
import math
import statistics
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
from tqdm import tqdm

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from agents.policies.numpy_policy import Actor
from workflow_rl.cage2.cyborg.speedups import SpedUpSimulator
from workflow_rl.cage2.scenario2 import HORIZONS, RED_AGENTS
from workflow_rl.cage2.scoring.loading import load_actor
from workflow_rl.cage2.scoring.scores import with_interval
from workflow_rl.output_files import require_writable, write_text
from workflow_rl.runs.checkpoint import CheckpointError
from workflow_rl.runs.saved_agent import saved_path


def returns(
    simulator: SpedUpSimulator, actor: Actor, red_agent: str, n_steps: int, episodes: int
) -> Iterator[float]:
    """Play `episodes` episodes in turn and yield the return of each."""
    for _ in range(episodes):
        obs, total = simulator.reset(None, red_agent), 0.0
        actor.reset(0)
        for _ in range(n_steps):
            (action,), _ = actor.act(obs[None])
            obs, reward = simulator.step(int(action))
            total += reward
        yield total


@click.command(context_settings={"show_default": True})
@click.argument("agent", type=click.Path(path_type=Path))
@click.option("--episodes", type=click.IntRange(2), default=1000, help="Episodes in each cell.")
@click.option("--seed", type=click.IntRange(0), default=153, help="The one random seed.")
@click.option("--json", "path", type=click.Path(path_type=Path), metavar="FILE")
@click.option("--quiet", is_flag=True, help="No progress bar.")
def main(agent: Path, episodes: int, seed: int, path: Path | None, quiet: bool) -> None:
    """Score AGENT (a run, a checkpoint, a policy file, champion) as the challenge did."""
    if path is not None:
        require_writable(path, "--json")
    try:
        actor = load_actor(saved_path(agent))
    except CheckpointError as error:
        raise click.UsageError(str(error)) from None
    simulator = SpedUpSimulator()
    cells: list[dict[str, Any]] = []
    kinds = [(n_steps, red_agent) for n_steps in HORIZONS for red_agent in RED_AGENTS]
    with tqdm(total=len(kinds) * episodes, unit="ep", disable=quiet or None) as bar:
        for n_steps, red_agent in kinds:
            # The challenge makes CybORG anew for every cell, which draws two networks.
            simulator.reset(None if cells else seed, red_agent)
            simulator.reset(None, red_agent)
            played = []
            for one in returns(simulator, actor, red_agent, n_steps, episodes):
                played.append(one)
                bar.update()
            # The challenge resets after the last episode of a cell too.
            simulator.reset(None, red_agent)
            mean = statistics.mean(played)
            interval = 1.96 * statistics.stdev(played) / math.sqrt(episodes)
            cell = {"max_steps": n_steps, "red_agent": red_agent, "episodes": episodes}
            cells.append({**cell, "mean": mean, "interval_95": interval, "returns": played})
            bar.write(f"{n_steps:3} {red_agent:16} {mean:8.2f} ± {interval:.2f}")
    total = sum(cell["mean"] for cell in cells)
    interval = math.hypot(*(cell["interval_95"] for cell in cells))
    click.echo(f"total {with_interval(total, interval, places=2)}, random.seed({seed})")
    if path is not None:
        scores = {"seed": seed, "total": total, "total_interval_95": interval, "cells": cells}
        write_text(path, json.dumps(scores) + "\n")


if __name__ == "__main__":
    main()
