"""Steps per second of csle-cyborg, as published and sped up, and of the compiled simulator.

On one core and in one run: they take turns, round by round, so that a noisy machine slows all.
Blue acts at random, resets are part of the time, and the median over the rounds is reported.
"""

from __future__ import annotations

import functools
import json
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import click
import numpy as np
from prettytable import PrettyTable, TableStyle

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from workflow_rl.compiled.simulator import Simulator
from workflow_rl.cyborg_env import CyborgEnv
from workflow_rl.output_files import require_writable, write_text
from workflow_rl.scenario2 import ACTION_NAMES, RED_AGENTS

SIMULATORS = {"stock": "cyborg-stock", "cyborg": "cyborg"}
MAX_STEPS = 100

Play: TypeAlias = Callable[[float, int], float]
"""Plays whole episodes, numbered from a seed, until some seconds have passed: steps per second."""


def play_cyborg(env: CyborgEnv, seconds: float, seed: int) -> float:
    """`Play` one env."""
    random = np.random.default_rng(seed)
    n_steps = 0
    start = time.perf_counter()
    while (passed := time.perf_counter() - start) < seconds or n_steps == 0:
        env.reset(seed=seed)
        for action in random.integers(len(ACTION_NAMES), size=MAX_STEPS).tolist():
            env.step(action)
        n_steps += MAX_STEPS
        seed += 1
    return n_steps / passed


def play_compiled(simulator: Simulator, red_agent: str, seconds: float, seed: int) -> float:
    """`Play` all envs of a compiled simulator in step."""
    random = np.random.default_rng(seed)
    n_envs = len(simulator.states)
    n_steps = 0
    start = time.perf_counter()
    while (passed := time.perf_counter() - start) < seconds or n_steps == 0:
        simulator.reset(np.arange(seed, seed + n_envs), RED_AGENTS.index(red_agent))
        for _ in range(MAX_STEPS):
            simulator.step(random.integers(len(ACTION_NAMES), size=n_envs))
        n_steps += MAX_STEPS * n_envs
        seed += n_envs
    return n_steps / passed


def measure(
    red_agent: str, compiled_envs: Sequence[int], seconds: float, rounds: int, seed: int
) -> list[dict[str, Any]]:
    """One row for each simulator and number of envs."""
    plays: dict[tuple[str, int], Play] = {
        (name, 1): functools.partial(play_cyborg, CyborgEnv(red_agent, MAX_STEPS, simulator))
        for name, simulator in SIMULATORS.items()
    }
    for n_envs in compiled_envs:
        plays["compiled", n_envs] = functools.partial(play_compiled, Simulator(n_envs), red_agent)
    rates: dict[tuple[str, int], list[float]] = {key: [] for key in plays}
    for play in plays.values():
        play(0.0, seed)
    for _ in range(rounds):
        for key, play in plays.items():
            rates[key].append(play(seconds / rounds, seed))
    return [
        {
            "simulator": name,
            "red_agent": red_agent,
            "policy": "random",
            "n_envs": n_envs,
            "steps_per_second": statistics.median(rates[name, n_envs]),
            "rounds": rates[name, n_envs],
        }
        for name, n_envs in plays
    ]


@click.command(help=__doc__)
@click.option(
    "--seconds",
    type=click.FloatRange(min=0, min_open=True),
    default=20.0,
    show_default=True,
    help="Time for each simulator against each red agent.",
)
@click.option("--rounds", type=click.IntRange(min=1), default=5, show_default=True)
@click.option(
    "--red-agent",
    "red_agents",
    type=click.Choice(RED_AGENTS),
    multiple=True,
    default=("B_lineAgent", "RedMeanderAgent"),
    show_default=True,
    help="May be given several times.",
)
@click.option(
    "--compiled-envs",
    type=click.IntRange(min=1),
    multiple=True,
    default=(1, 1000),
    show_default=True,
    help="Envs of the compiled simulator in one batch; may be given several times.",
)
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True)
@click.option("--json", "json_path", type=click.Path(dir_okay=False, path_type=Path))
def main(
    seconds: float,
    rounds: int,
    red_agents: tuple[str, ...],
    compiled_envs: tuple[int, ...],
    seed: int,
    json_path: Path | None,
) -> None:
    if json_path is not None:
        require_writable(json_path, "--json")
    rows: list[dict[str, Any]] = []
    table = PrettyTable(["red agent", "simulator", "envs", "steps/s, one core", "x stock"])
    table.set_style(TableStyle.SINGLE_BORDER)
    table.align = "r"
    for red_agent in red_agents:
        measured = measure(red_agent, compiled_envs, seconds, rounds, seed)
        stock = measured[0]["steps_per_second"]
        for row in measured:
            rate = row["steps_per_second"]
            names = [red_agent, row["simulator"], f"{row['n_envs']:,}"]
            last = row is measured[-1]
            table.add_row([*names, f"{rate:,.0f}", f"{rate / stock:,.1f}"], divider=last)
        rows += measured
    click.echo(table)
    if json_path is not None:
        write_text(json_path, json.dumps(rows, indent=2) + "\n")


if __name__ == "__main__":
    main()
