"""Steps per second of csle-cyborg, as published and sped up, and of the compiled simulator.

They take turns, round by round, so that a noisy machine slows all. Blue acts at random (actions
drawn 10,000 at a time) or as an untrained network of the default size says. Resets are part of
the time: episodes have 100 steps, and a tenth of the envs begins one every tenth step.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from typing import Any

import click

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
# A core is a core: none of numpy's own threads beside the workers.
os.environ.update(OPENBLAS_NUM_THREADS="1", OMP_NUM_THREADS="1", MKL_NUM_THREADS="1")

from workflow_rl.cage2.scenario2 import RED_AGENTS
from workflow_rl.cage2.simulator_speed import POLICIES, cores, make_rows, make_variants, measure
from workflow_rl.cage2.simulator_speed_report import best_batches, speed_figure, speed_table
from workflow_rl.output_files import require_writable, write_text

AGAIN = "May be given several times."


def print_rows(rows: Sequence[dict[str, Any]], rounds: int, seconds: float) -> None:
    click.echo(speed_table(rows))
    for sentence in best_batches(rows):
        click.echo(sentence)
    last = rows[-1]
    click.echo(
        f"Medians of {rounds} turns of {seconds:g} s, ratios within each round. The compiled "
        f"simulator: {last['bytes_per_env']:,} bytes an env; one worker process a core, "
        f"{max(row['cores'] for row in rows)} of {last['usable_cores']} cores at most."
    )


@click.command(help=__doc__)
@click.option(
    "--compiled-envs",
    type=click.IntRange(min=1),
    multiple=True,
    default=(1, 10, 100, 1_000, 10_000, 100_000),
    show_default=True,
    metavar="N",
    help=f"Envs of the compiled simulator, of all workers together. {AGAIN}",
)
@click.option(
    "--cores",
    "core_names",
    type=click.Choice(["one", "all"]),
    multiple=True,
    default=("one", "all"),
    show_default=True,
    help=f"For the compiled simulator; others have one. {AGAIN}",
)
@click.option(
    "--policy",
    "policies",
    type=click.Choice(POLICIES),
    multiple=True,
    default=POLICIES,
    show_default=True,
    help=f"Who plays Blue in the compiled simulator; random in others. {AGAIN}",
)
@click.option(
    "--red-agent",
    "red_agents",
    type=click.Choice(RED_AGENTS),
    multiple=True,
    default=("B_lineAgent", "RedMeanderAgent"),
    show_default=True,
    help=AGAIN,
)
@click.option(
    "--seconds",
    type=click.FloatRange(min=0, min_open=True),
    default=2.5,
    show_default=True,
    metavar="X",
    help="Time for each line of the table, in all rounds together.",
)
@click.option("--rounds", type=click.IntRange(min=1), default=5, show_default=True, metavar="N")
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True, metavar="N")
@click.option(
    "--json",
    "json_path",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Write the table as a list of rows.",
)
@click.option(
    "--png",
    "png_path",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Draw it as a chart.",
)
def main(
    compiled_envs: tuple[int, ...],
    core_names: tuple[str, ...],
    policies: tuple[str, ...],
    red_agents: tuple[str, ...],
    seconds: float,
    rounds: int,
    seed: int,
    json_path: Path | None,
    png_path: Path | None,
) -> None:
    for path, option in ((json_path, "--json"), (png_path, "--png")):
        if path is not None:
            require_writable(path, option)
    rows: list[dict[str, Any]] = []
    for red_agent in dict.fromkeys(red_agents):
        variants = make_variants(red_agent, compiled_envs, policies, cores(core_names))
        try:
            rows += make_rows(variants, measure(variants, rounds, seconds / rounds, seed))
        except (BrokenProcessPool, MemoryError):
            raise click.ClickException(
                f"--compiled-envs {max(compiled_envs)}: a worker process died; "
                "so many envs may need more memory than there is"
            ) from None
    print_rows(rows, rounds, seconds / rounds)
    if json_path is not None:
        write_text(json_path, json.dumps(rows, indent=2) + "\n")
        click.echo(f"rows: {json_path}")
    if png_path is not None:
        speed_figure(rows).savefig(png_path, dpi=120, format="png")
        click.echo(f"chart: {png_path}")


if __name__ == "__main__":
    main()
