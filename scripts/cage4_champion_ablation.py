"""What each ingredient of CAGE-4's champion brings, and what hidden information costs.

Every run is the recipe of `train-champion --env workflow_rl/CAGE4-v0` with something changed. The
last networks of each run are scored: nothing is chosen. Rows are added to --json as runs end. Runs
that the file has are left out, so that the command can be stopped and called again.
"""

from __future__ import annotations

import json
import statistics
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import click
import numba
import numpy as np
import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(Path(__file__).resolve().parent))

from champion_ablation import run_all
from prettytable import PrettyTable
from score_cage4_teams import held_hosts

import workflow_rl.cage4.champion.episodes as playing
from workflow_rl import jit
from workflow_rl.cage4.agent import batched
from workflow_rl.cage4.agent.memory import (
    FIRST_ZONE,
    N_CLOCK,
    N_HOSTS,
    ZONE_COUNT,
)
from workflow_rl.cage4.champion.config import ChampionConfig
from workflow_rl.cage4.champion.recipe import Training
from workflow_rl.cage4.compiled.simulator import BatchedSimulator
from workflow_rl.cage4.scenario4 import PROCESSES
from workflow_rl.output_files import require_writable
from workflow_rl.reporting.text_table import text_table

FIRST_SEED, SCORING_EPISODES = 6_000_000, 1000
"""The episodes that score. Nothing else plays them."""
EVENT_FEATURES = [0, 1, 2, 4]
"""A host exists, is a server, has an attack or a doubtful event that nothing was done about."""


def events_alone(m: Any, agent: int, options: Any) -> bool:
    """`memory.find_options` for an agent that concludes nothing: it treats hosts with events."""
    n, found = ZONE_COUNT[agent] * N_HOSTS, False
    options[:] = False
    options[0] = True
    for i in range(n):
        zone, host = FIRST_ZONE[agent] + i // N_HOSTS, i % N_HOSTS
        options[1 + i] = m.shell[zone, host] or m.doubt[zone, host]
        options[1 + n + i] = options[1 + i]
        found |= options[1 + i]
    return found


def every_host(m: Any, agent: int, options: Any) -> bool:
    """`memory.find_options` without an action set."""
    n = ZONE_COUNT[agent] * N_HOSTS
    options[0] = True
    for i in range(n):
        options[1 + i] = m.exists[FIRST_ZONE[agent] + i // N_HOSTS, i % N_HOSTS]
        options[1 + n + i] = options[1 + i]
    return True


def compile_again(**names: Any) -> None:
    """Compile `batched.decide` with other callees, without the copy on disk."""
    for name, value in names.items():
        setattr(batched, name, value)
    decide: Any = batched.decide
    batched.decide = numba.njit(**jit.OPTIONS)(decide.py_func)


def without_conclusions(training: Training) -> None:
    compile_again(find_options=jit.compiled(events_alone))
    for learner in training.learners:
        keep_rows(learner.w["host"], EVENT_FEATURES)
        for name in ("host_context", "mixed_context", "wait_context"):
            keep_rows(learner.w[name], range(N_CLOCK))


def keep_rows(w: torch.Tensor, rows: Sequence[int]) -> None:
    """Hide all inputs of a layer but some."""
    kept = torch.zeros(len(w), 1)
    kept[list(rows)] = 1
    with torch.no_grad():
        w *= kept
    w.register_hook(lambda gradient: gradient * kept)


def without_action_set(training: Training) -> None:
    compile_again(find_options=jit.compiled(every_host))


def each_host_alone(training: Training) -> None:
    for learner in training.learners:
        keep_rows(learner.w["mixed_pool"], [])


def one_network(training: Training) -> None:
    zone, headquarters = training.learners
    headquarters.w = zone.w
    headquarters._steps["actor"] = zone._steps["actor"]


class TrueEvents(BatchedSimulator):
    """Events show the hosts where red is root or next becomes root, and nothing else."""

    def reset(self, seeds: Any = None, chosen: Any = None) -> Any:
        return self._with_truth(super().reset(seeds, chosen))

    def step(self, *arguments: Any) -> Any:
        observations, *others = super().step(*arguments)
        return self._with_truth(observations), *others

    def _with_truth(self, observations: Any) -> Any:
        shown, held = observations.copy(), held_hosts(self)
        shown[:, PROCESSES] = shown[:, PROCESSES + N_HOSTS] = held
        return shown


def true_state(training: Training) -> None:
    playing.BatchedSimulator = TrueEvents  # type: ignore[misc]
    batched._memory.LEAD = 0  # Where nothing is hidden, no Restore needs to be forced.
    compile_again()


CHANGES: dict[str, Callable[[Training], None]] = {
    "recipe": lambda training: None,
    "no conclusions: events alone": without_conclusions,
    "no action set": without_action_set,
    "each host alone": each_host_alone,
    "one network for all agents": one_network,
    "sees the true state": true_state,
}


def measured(change: str, episodes: int, seed: int) -> dict[str, Any]:
    """Train with one change, and score the last networks."""
    config = ChampionConfig(seed=seed, total_episodes=episodes)
    training = Training(config)
    CHANGES[change](training)
    training.copy_the_rules()
    while training.updates < config.updates:
        training.update()
    seeds = range(FIRST_SEED, FIRST_SEED + SCORING_EPISODES)
    totals = playing.totals_of(training.weights, seeds)
    return {
        "variant": change,
        "config": config.to_dict(),
        "mean": float(totals.mean()),
        "median": float(np.median(totals)),
    }


def rows_of(rows: list[dict[str, Any]], change: str, episodes: int) -> dict[int, dict[str, Any]]:
    """Return the rows of a change by seed, if the recipe has not changed since."""
    of_change = {row["config"]["seed"]: row for row in rows if row["variant"] == change}
    return {
        seed: row
        for seed, row in of_change.items()
        if row["config"] == ChampionConfig(seed=seed, total_episodes=episodes).to_dict()
    }


def table(rows: list[dict[str, Any]], episodes: int) -> PrettyTable:
    """Return the median and the range of the seeds' means."""
    lines = []
    for change in CHANGES:
        if seeded := rows_of(rows, change, episodes).values():
            means = [row["mean"] for row in seeded]
            ends = f"{min(means):.1f} to {max(means):.1f}"
            medians = statistics.median(row["median"] for row in seeded)
            lines.append(
                [change, len(seeded), f"{statistics.median(means):.1f}", ends, f"{medians:.0f}"]
            )
    headings = ["", "seeds", "median of the means", "range", "median episode"]
    return text_table(headings, lines, markdown=True)


@click.command(context_settings={"show_default": True})
@click.option("--variant", "changes", type=click.Choice(list(CHANGES)), multiple=True,
              default=list(CHANGES))  # fmt: skip
@click.option("--seeds", type=click.IntRange(1), default=3, help="Runs of each variant.")
@click.option("--episodes", type=click.IntRange(200), default=2400, help="Episodes of training.")
@click.option("--jobs", type=click.IntRange(1), default=2, help="Runs at a time, a core each.")
@click.option("--json", "path", type=click.Path(path_type=Path), required=True,
              metavar="FILE")  # fmt: skip
def main(changes: tuple[str, ...], seeds: int, episodes: int, jobs: int, path: Path) -> None:
    """Train every variant, and print a table of the scores."""
    require_writable(path, "--json")
    rows: list[dict[str, Any]] = json.loads(path.read_text()) if path.exists() else []
    todo = [
        (change, episodes, seed)
        for seed in range(seeds)
        for change in changes
        if seed not in rows_of(rows, change, episodes)
    ]
    run_all(measured, todo, rows, path, jobs)
    click.echo(table(rows, episodes))


if __name__ == "__main__":
    main()
