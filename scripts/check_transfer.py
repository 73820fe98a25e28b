"""Does an agent trained on the compiled simulator score the same on CybORG?

Plays RUN's agent (default: one trained here, against all red agents) by the challenge's protocol,
as `workflow-rl evaluate` does, greedily, three times: on CybORG, on the compiled simulator with the
same seeds, and on it with other seeds. With the same seeds every single return has to be equal.
With other seeds the difference of each cell's means has a 95% interval. Of nine, some leave out 0
in up to 37% of all checks of equal simulators, so the verdict is joint (Bonferroni): the means
differ if some cell's interval of 1 - 0.05/9 leaves out 0, which equal simulators' do with at most
5% of all seeds. Exits with 1 if returns with the same seeds, or means with others, differ.
"""

from __future__ import annotations

import json
import math
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from statistics import NormalDist

import click
from prettytable import PrettyTable, TableStyle

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from workflow_rl.cage2.env.options import require_simulator
from workflow_rl.cage2.scoring.loading import load_actor
from workflow_rl.cage2.scoring.protocol import evaluate_actor
from workflow_rl.cage2.scoring.scores import CellScore, Evaluation, to_dict
from workflow_rl.output_files import require_writable, write_text
from workflow_rl.runs.checkpoint import CheckpointError, checkpoint_path

ERROR_RATE = 0.05


def train(run_dir: Path, episodes: int) -> None:
    """An agent trained on the compiled simulator alone, against all red agents."""
    options = ["--simulator", "compiled", "--red-agent", "mixed", "--quiet"]
    command = [sys.executable, "-m", "workflow_rl", "train-async", *options]
    root = Path(__file__).resolve().parent.parent
    subprocess.run(
        [*command, "--total-episodes", str(episodes), "--run-dir", str(run_dir)],
        cwd=root,
        check=True,
    )


def n_unequal(one: Sequence[CellScore], other: Sequence[CellScore]) -> int:
    """How many episodes of the same seeds have returns that are not equal, bit for bit."""
    return sum(
        a != b
        for cell, same_cell in zip(one, other, strict=True)
        for a, b in zip(cell.returns, same_cell.returns, strict=True)
    )


def standardised(difference: float, interval_95: float) -> float:
    """The difference of two means in standard errors; its 95% interval's half width is given."""
    if interval_95 == 0:
        return 0.0 if difference == 0 else math.inf
    return abs(difference) / (interval_95 / NormalDist().inv_cdf(0.975))


def some_cell_differs(differences: Sequence[tuple[float, float]]) -> bool:
    """Joint test at ERROR_RATE that all means are equal, given (difference, half its 95% interval)
    for each cell (Bonferroni)."""
    limit = NormalDist().inv_cdf(1 - ERROR_RATE / len(differences) / 2)
    return any(standardised(*difference) > limit for difference in differences)


def mean_differences(one: Evaluation, other: Evaluation) -> list[tuple[float, float]]:
    """Of independent episodes, cell by cell: the difference, half the width of its 95% interval."""
    return [
        (b.mean - a.mean, math.hypot(a.interval_95, b.interval_95))
        for a, b in zip(one.cells, other.cells, strict=True)
    ]


def comparison_table(cyborg: Evaluation, compiled: Evaluation) -> PrettyTable:
    """Means with their 95% intervals, and the difference with its own."""
    table = PrettyTable(["steps", "red agent", "CybORG", "compiled", "difference", "95%"])
    table.set_style(TableStyle.SINGLE_BORDER)
    table.align = "r"
    rows = zip(cyborg.cells, compiled.cells, mean_differences(cyborg, compiled), strict=True)
    for a, b, (difference, interval) in rows:
        table.add_row(
            [
                a.max_steps,
                a.red_agent,
                f"{a.mean:.2f} ± {a.interval_95:.2f}",
                f"{b.mean:.2f} ± {b.interval_95:.2f}",
                f"{difference:+.2f} ± {interval:.2f}",
                "" if abs(difference) <= interval else "leaves out 0",
            ],
            divider=a is cyborg.cells[-1],
        )
    totals = [f"{e.total:.2f} ± {e.total_interval_95:.2f}" for e in (cyborg, compiled)]
    difference = compiled.total - cyborg.total
    interval = math.hypot(cyborg.total_interval_95, compiled.total_interval_95)
    outside = "" if abs(difference) <= interval else "leaves out 0"
    table.add_row(["", "total", *totals, f"{difference:+.2f} ± {interval:.2f}", outside])
    return table


@click.command(help=__doc__)
@click.argument("run", type=click.Path(path_type=Path), required=False)
@click.option(
    "--episodes",
    type=click.IntRange(min=2),
    default=1000,
    show_default=True,
    help="Episodes in each cell.",
)
@click.option(
    "--seed",
    type=click.IntRange(min=0),
    default=0,
    show_default=True,
    help="Of the episodes on both simulators; the other ones have the next.",
)
@click.option(
    "--training-episodes",
    type=click.IntRange(min=1),
    default=10_000,
    show_default=True,
    help="Of the agent trained here.",
)
@click.option("--json", "json_path", type=click.Path(dir_okay=False, path_type=Path))
@click.option("--quiet", is_flag=True, help="No progress bars.")
def main(
    run: Path | None,
    episodes: int,
    seed: int,
    training_episodes: int,
    json_path: Path | None,
    quiet: bool,
) -> None:
    if json_path is not None:
        require_writable(json_path, "--json")
    require_simulator("compiled")
    with tempfile.TemporaryDirectory() as folder:
        if run is None:
            run = Path(folder) / "run"
            train(run, training_episodes)
        try:
            policy = load_actor(checkpoint_path(run))
        except CheckpointError as error:
            raise click.UsageError(str(error)) from None
    cyborg, same, other = (
        evaluate_actor(policy, episodes, its_seed, simulator, name=simulator, quiet=quiet)
        for simulator, its_seed in (("cyborg", seed), ("compiled", seed), ("compiled", seed + 1))
    )
    differences = mean_differences(cyborg, other)
    unequal, differs = n_unequal(cyborg.cells, same.cells), some_cell_differs(differences)
    outside = sum(abs(difference) > interval for difference, interval in differences)
    seconds = ", ".join(f"{evaluation.seconds:.0f}" for evaluation in (cyborg, same, other))
    click.echo(comparison_table(cyborg, other))
    click.echo(
        f"{episodes} episodes a cell ({seconds} s).\n"
        f"Same seeds: {unequal} of {episodes * len(differences)} returns differ.\n"
        f"Other seeds: {outside} of {len(differences)} intervals of 95% leave out 0; jointly at "
        f"95% the means {'differ' if differs else 'do not differ'}."
    )
    if json_path is not None:
        played = {"cyborg": cyborg, "compiled, same seeds": same, "compiled, other seeds": other}
        content = {
            name: {"seed": evaluation.seed, "cells": to_dict(evaluation)["cells"]}
            for name, evaluation in played.items()
        }
        write_text(json_path, json.dumps(content, indent=2) + "\n")
    if unequal or differs:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
