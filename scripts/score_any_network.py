"""Train the preset any-network and specialists, and score them in networks that it never saw.

The networks are seven variants of CAGE-2's, in which Blue has no decoys (Nyberg and Johnson 2024,
"Structural Generalization in Autonomous Cyber Incident Response with Message-Passing Neural
Networks and Reinforcement Learning", arXiv 2407.05775; the hosts that each lacks are those of the
scenario files of their repository, github.com/kasanari/incident-response-rl-gnn), Scenario 2
itself, and one of 20 and one of 30 hosts. A specialist learns one of them with the same settings.

    python scripts/score_any_network.py runs/any-network --jobs 5
    python scripts/score_any_network.py runs/any-network --table

Runs that are finished are not trained again, and scores are appended to scores.jsonl. With --scored
0, agents are trained alone; the same command without it scores them later, on any machine.
"""

from __future__ import annotations

import functools
import json
import subprocess
import sys
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from statistics import median
from typing import Any

import click

from workflow_rl import TrainConfig
from workflow_rl.cage.recipe import train_recipe
from workflow_rl.cage2.env.environment import Cage2
from workflow_rl.cage2.presets import ANY_NETWORK
from workflow_rl.cage2.scenario.family import ScenarioFamily
from workflow_rl.cage2.scenario.loading import scenario_text
from workflow_rl.cage2.scenario.scenario import Scenario
from workflow_rl.cage2.scoring.players import load_blue
from workflow_rl.cage2.scoring.protocol import evaluate_blue

LACKING: dict[str, tuple[str, ...]] = {
    "variant0": (),
    "variant1": ("User3",),
    "variant2": ("User3", "User4"),
    "variant3": ("User2", "Op_Host1", "Op_Host2"),
    "variant4": ("User1", "User2", "User3", "Op_Host1"),
    "variant5": ("User1", "User3", "User4", "Op_Host1", "Op_Host2"),
    "variant6": ("User2", "User3", "User4", "Op_Host0", "Op_Host1", "Op_Host2"),
}
LARGE = {"hosts20": (9, 6, 5), "hosts30": (15, 8, 7)}


def variant(lacking: tuple[str, ...]) -> Scenario:
    """Return Scenario 2 without some hosts and without decoys."""
    scenario = Scenario.scenario2().let_blue(("Sleep", "Monitor", "Analyse", "Remove", "Restore"))
    for host in lacking:
        scenario = scenario.remove_host(host)
    return scenario


def large(user: int, enterprise: int, operational: int) -> Scenario:
    """Return a network of these sizes, drawn as the preset's are."""
    family = ScenarioFamily.from_text(preset_scenario())
    hosts = {"User": user, "Enterprise": enterprise, "Operational": operational}
    sizes = {subnet: [n, n] for subnet, n in hosts.items()}
    return ScenarioFamily.from_ranges({**family.ranges, "hosts": sizes, "decoys": [True]}).draw(0)


@functools.cache
def preset_scenario() -> str:
    """Return the family of the preset."""
    return scenario_text(ANY_NETWORK["env_args"]["scenario"])


@functools.cache
def networks() -> Mapping[str, Scenario]:
    """Return what is scored by name."""
    made = {name: variant(lacking) for name, lacking in LACKING.items()}
    made |= {name: large(*sizes) for name, sizes in LARGE.items()}
    return {**made, "scenario2": Scenario.scenario2()}


def train(folder_of_all: Path, name: str, episodes: int, threads: int, device: str) -> None:
    """Train one agent: any-SEED, or NETWORK-SEED for a specialist."""
    what, _, seed = name.rpartition("-")
    scenario = preset_scenario() if what == "any" else networks()[what].text
    given = {
        **{key: value for key, value in ANY_NETWORK.items() if key != "settings"},
        "env": Cage2.env_id,
        "env_args": {**Cage2().args, **ANY_NETWORK["env_args"], "scenario": scenario},
        "ppo": ANY_NETWORK["settings"],
        "seed": int(seed),
        "total_episodes": episodes,
        "n_workers": 1,
        "learner_threads": threads,
        "device": device,
    }
    train_recipe(TrainConfig("async", **given), folder_of_all / name)


def score(run_dir: Path, network: str, episodes: int, seed: int) -> list[dict[str, Any]]:
    """Return a row for each cell of a run's last agent in a network."""
    blue = load_blue(run_dir / "checkpoint.safetensors", networks()[network])
    cells = evaluate_blue(blue, episodes, seed, n_workers=1).cells
    return [
        {"agent": run_dir.name, "network": network, "red_agent": cell.red_agent}
        | {"steps": cell.max_steps, "mean": cell.mean, "std": cell.std, "episodes": episodes}
        | {"seed": seed}
        for cell in cells
    ]


def table(rows: list[dict[str, Any]]) -> str:
    """Return a line for each network: the sum of the nine cells, median over seeds with range, of
    any-network and of specialists."""
    totals: dict[tuple[str, str], dict[str, float]] = {}
    for row in rows:
        kind = "any" if row["agent"].startswith("any-") else "specialist"
        of = totals.setdefault((row["network"], kind), {})
        of[row["agent"]] = of.get(row["agent"], 0.0) + row["mean"]
    lines = []
    for network in networks():
        parts = [f"{network:10}"]
        for kind in ("any", "specialist"):
            found = sorted(totals.get((network, kind), {}).values())
            spread = f"({found[0]:.1f} to {found[-1]:.1f}, {len(found)} seeds)" if found else ""
            parts.append(f"{kind} {median(found):.1f} {spread}" if found else f"{kind} none")
        lines.append("  ".join(parts))
    return "\n".join(lines)


@click.command(help=__doc__)
@click.argument("folder", type=click.Path(path_type=Path))
@click.option("--jobs", default=2, help="Runs at once.")
@click.option("--threads", default=1, help="Threads of each learner.")
@click.option("--device", default="cpu")
@click.option("--seeds", default=5, help="Of any-network.")
@click.option("--first-seed", default=101, help="Of any-network.")
@click.option("--specialists", default=3, help="Seeds of each specialist.")
@click.option("--episodes", default=20_000, help="Of any-network.")
@click.option("--of-specialists", default=6000, help="Episodes of each specialist.")
@click.option("--scored", default=100, help="Episodes of a cell, or 0.")
@click.option("--seconds", default=1e9, help="Begin no run after these.")
@click.option("--table", "is_shown", is_flag=True, help="Print the scores there are.")
@click.option("--one", hidden=True)
def main(
    folder: Path,
    jobs: int,
    threads: int,
    device: str,
    seeds: int,
    first_seed: int,
    specialists: int,
    episodes: int,
    of_specialists: int,
    scored: int,
    seconds: float,
    is_shown: bool,
    one: str | None,
) -> None:
    path = folder / "scores.jsonl"
    if one:
        is_any = one.startswith("any-")
        train(folder, one, episodes if is_any else of_specialists, threads, device)
        if not scored:
            return
        played = networks() if is_any else [one.rpartition("-")[0]]
        seed = int(time.time())
        rows = [row for name in played for row in score(folder / one, name, scored, seed)]
        with path.open("a") as file:
            file.write("".join(json.dumps(row) + "\n" for row in rows))
        return
    if not is_shown:
        folder.mkdir(parents=True, exist_ok=True)
        by_size = sorted(networks(), key=lambda name: -len(networks()[name].hosts))
        names = [f"any-{seed}" for seed in range(first_seed, first_seed + seeds)]
        names += [f"{name}-{seed}" for seed in range(1, specialists + 1) for name in by_size]
        began = time.monotonic()

        def run(name: str) -> None:
            is_scored = path.exists() and f'"{name}"' in path.read_text()
            if is_scored or time.monotonic() - began > seconds:
                return
            with (folder / f"{name}.log").open("w") as log:
                words = [sys.executable, *sys.argv, "--one", name]
                ended = subprocess.run(words, stdout=log, stderr=log, check=False).returncode
            click.echo(f"{time.monotonic() - began:.0f} s: {name}")
            if ended:
                raise click.ClickException(f"{name} failed: see {log.name}")

        with ThreadPoolExecutor(jobs) as pool:
            list(pool.map(run, names))
    if path.exists():
        click.echo(table([json.loads(line) for line in path.read_text().splitlines()]))


if __name__ == "__main__":
    main()
