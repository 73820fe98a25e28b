#!/usr/bin/env python3
"""Simulate how often the 95% interval of a mean holds the true mean.

    python -m workflow_rl evaluate steadfast --env workflow_rl/CAGE4-v0 --episodes 200 \\
      --json runs/cage4.json
    python scripts/simulate_coverage.py runs/cage4.json

Returns are drawn from a normal distribution, from one with rare large losses, and from the episodes
in each file of scores, whose mean is then the true one. Files of CAGE-2 have cells, and are not
taken. Prints the table of docs/explanations/records.md.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Sequence
from pathlib import Path

import click
import numpy as np

from workflow_rl.evaluation.intervals import FloatArray, Mean, mean_of
from workflow_rl.text_table import text_table

SIZES = (5, 10, 100)
N_TRIALS = 20_000


def coverage(means: Sequence[Mean], truth: float) -> float:
    """Return the share of the intervals that hold the true mean."""
    return float(np.mean([abs(mean.mean - truth) <= mean.interval_95 for mean in means]))


def _drawn(random: np.random.Generator, returns: FloatArray, shape: tuple[int, int]) -> FloatArray:
    return random.choice(returns, shape)


def print_table(paths: Sequence[Path]) -> None:
    random = np.random.default_rng(0)
    # Skewness, true mean, and what draws returns of a shape.
    sources: dict[str, tuple[float, float, Callable[[tuple[int, int]], FloatArray]]] = {
        "normal": (0.0, 0.0, lambda shape: random.normal(size=shape)),
        "exponential losses": (-2.0, -1.0, lambda shape: -random.exponential(size=shape)),
    }
    for path in paths:
        returns: FloatArray = np.array(json.loads(path.read_text())["returns"])
        skewness = float((((returns - returns.mean()) / returns.std()) ** 3).mean())
        sources[path.stem] = (
            skewness,
            float(returns.mean()),
            functools.partial(_drawn, random, returns),
        )
    table = text_table(["returns", "skewness", *(f"n = {n}" for n in SIZES)], [], left=1)
    for name, (skewness, truth, draw) in sources.items():
        samples = ([mean_of([row]) for row in draw((N_TRIALS, n))] for n in SIZES)
        shares = [f"{coverage(means, truth):.1%}" for means in samples]
        table.add_row([name, f"{skewness:.1f}", *shares])
    print(table)


@click.command()
@click.argument("scores", nargs=-1, type=click.Path(path_type=Path))
def main(scores: tuple[Path, ...]) -> None:
    """Print how often intervals hold the true mean, also of the returns in files of SCORES."""
    print_table(scores)


if __name__ == "__main__":
    main()
