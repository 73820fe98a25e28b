"""Steps per second of csle-cyborg as published and sped up, on one core, in one run.

The simulators take turns, round by round, so that a noisy machine slows both. Blue acts at random;
resets are part of the time. Reported is the median over the rounds.
"""

from __future__ import annotations

import json
import statistics
import sys
import time
from pathlib import Path
from typing import Any

import click
import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from workflow_rl.cyborg_env import CyborgEnv
from workflow_rl.output_files import require_writable, write_text
from workflow_rl.scenario2 import ACTION_NAMES, RED_AGENTS

SIMULATORS = {"stock": "cyborg-stock", "cyborg": "cyborg"}
MAX_STEPS = 100


def steps_per_second(env: CyborgEnv, seconds: float, seed: int) -> float:
    """Play whole episodes, numbered from `seed`, until `seconds` have passed."""
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


def measure(red_agent: str, seconds: float, rounds: int, seed: int) -> list[dict[str, Any]]:
    """One row a simulator."""
    envs = {
        name: CyborgEnv(red_agent, MAX_STEPS, simulator) for name, simulator in SIMULATORS.items()
    }
    for env in envs.values():
        steps_per_second(env, 0.0, seed)
    rates: dict[str, list[float]] = {name: [] for name in envs}
    for _ in range(rounds):
        for name, env in envs.items():
            rates[name].append(steps_per_second(env, seconds / rounds, seed))
    return [
        {
            "simulator": name,
            "red_agent": red_agent,
            "policy": "random",
            "n_envs": 1,
            "steps_per_second": statistics.median(rates[name]),
            "rounds": rates[name],
        }
        for name in envs
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
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True)
@click.option("--json", "json_path", type=click.Path(dir_okay=False, path_type=Path))
def main(
    seconds: float, rounds: int, red_agents: tuple[str, ...], seed: int, json_path: Path | None
) -> None:
    if json_path is not None:
        require_writable(json_path, "--json")
    rows = []
    click.echo(f"{'red agent':<16} {'stock':>10} {'cyborg':>10} {'ratio':>7}   (steps/s, one core)")
    for red_agent in red_agents:
        stock, sped_up = measure(red_agent, seconds, rounds, seed)
        rows += [stock, sped_up]
        rates = [row["steps_per_second"] for row in (stock, sped_up)]
        click.echo(
            f"{red_agent:<16} {rates[0]:>10,.0f} {rates[1]:>10,.0f} {rates[1] / rates[0]:>6.1f}x"
        )
    if json_path is not None:
        write_text(json_path, json.dumps(rows, indent=2) + "\n")


if __name__ == "__main__":
    main()
