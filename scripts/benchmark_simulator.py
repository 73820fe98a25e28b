"""Steps per second of csle-cyborg, as published and sped up, and of the compiled simulator.

They take turns, round by round. In the compiled simulator Blue acts at random (actions drawn 10,000
at a time), or as an untrained network of the default size says, on one core and on all; in the
others at random on one core. Resets are part of the time: episodes have 100 steps, and a tenth of
the envs begins one every tenth step.
"""

from __future__ import annotations

import os
import sys
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from typing import Any

import click

sys.path.insert(0, str(Path(__file__).resolve().parent))
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
# A core is a core: NumPy starts no threads of its own beside the workers.
os.environ.update(OPENBLAS_NUM_THREADS="1", OMP_NUM_THREADS="1", MKL_NUM_THREADS="1")

from measure_simulators import (
    POLICIES,
    measured_speeds,
    speed_rows,
    speed_variants,
)
from simulator_charts import best_batches, speed_figure, speed_table

from workflow_rl.cage2.scenario2 import RED_AGENTS
from workflow_rl.commands.outputs import output_options, require_outputs, write_outputs
from workflow_rl.measuring.turns import machine_name
from workflow_rl.runs.config import usable_cores

SIZES = (1, 10, 100, 1_000, 10_000, 100_000)
OPTIONS: list[click.Parameter] = [
    click.Option(["--compiled-envs"], type=click.IntRange(1), multiple=True, default=SIZES,
                 show_default=True, metavar="N",
                 help="Envs of the compiled simulator, of all workers together; may be given "
                      "again."),
    click.Option(["--red-agent", "red_agents"], type=click.Choice(RED_AGENTS), multiple=True,
                 default=RED_AGENTS[:2], show_default=True, help="May be given again."),
    click.Option(["--seconds"], type=click.FloatRange(0, min_open=True), default=2.5,
                 show_default=True, metavar="X",
                 help="Time for each line of the table, in all rounds together."),
    click.Option(["--rounds"], type=click.IntRange(1), default=5, show_default=True, metavar="N"),
    *output_options("Write the table as a list of rows.", "Draw the table as a chart."),
]  # fmt: skip


@click.command(help=__doc__, params=OPTIONS)
def main(**options: Any) -> None:
    require_outputs(options)
    rounds, seconds = options["rounds"], options["seconds"] / options["rounds"]
    rows: list[dict[str, Any]] = []
    for red_agent in dict.fromkeys(options["red_agents"]):
        counts = [1, usable_cores()]
        variants = speed_variants(red_agent, options["compiled_envs"], POLICIES, counts)
        try:
            rows += speed_rows(variants, measured_speeds(variants, rounds, seconds, seed=0))
        except (BrokenProcessPool, MemoryError):
            raise click.ClickException(
                f"--compiled-envs {max(options['compiled_envs'])}: a worker process died; "
                "so many envs may need more memory than there is"
            ) from None
    click.echo(speed_table(rows))
    for sentence in best_batches(rows):
        click.echo(sentence)
    click.echo(
        f"Medians of {rounds} turns of {seconds:g} s, ratios within each round, on "
        f"{machine_name()}. The compiled simulator takes {rows[-1]['bytes_per_env']:,} bytes an "
        "env and one worker process a core."
    )
    write_outputs(options, rows, lambda: speed_figure(rows), ("rows", "chart"))


if __name__ == "__main__":
    main()
