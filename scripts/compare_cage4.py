"""Compare two simulators of CAGE Challenge 4 in lock-step, over pairs of blue teams and reds.

Prints each first difference in a line, then speeds and how often rare paths were taken. A run that
is stopped goes on from its record.

    python scripts/compare_cage4.py cyborg-stock cyborg --cyborg4 cage-challenge-4 --episodes 2
    python scripts/compare_cage4.py cyborg compiled --episodes 63 --n-workers 2
"""

from __future__ import annotations

import itertools
import sys
from pathlib import Path

import click
from tqdm import tqdm

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from workflow_rl.cage4.agent.scripted import TEAMS
from workflow_rl.cage4.cyborg.checkout import CheckoutError, checkout, use_checkout
from workflow_rl.cage4.interface import MAX_STEPS, RED_AGENTS, SIMULATORS
from workflow_rl.cage4.parity import Pair, comparisons, summary


@click.command()
@click.argument("first", type=click.Choice(SIMULATORS))
@click.argument("second", type=click.Choice(SIMULATORS))
@click.option("--cyborg4", type=click.Path(path_type=Path), help="The checkout of CybORG 4.")
@click.option("--episodes", type=click.IntRange(1), default=1, help="Of each pair of teams.")
@click.option("--seed", type=click.IntRange(0), default=0, help="Of the first episode.")
@click.option("--steps", type=click.IntRange(1), default=MAX_STEPS, help="Played of an episode.")
@click.option("--max-steps", type=click.IntRange(3), default=MAX_STEPS, help="Of an episode.")
@click.option("--state-every", type=click.IntRange(1), default=10, help="Steps between states.")
@click.option("--blue", "blues", type=click.Choice(list(TEAMS)), multiple=True, default=list(TEAMS))
@click.option("--red", "reds", type=click.Choice(RED_AGENTS), multiple=True, default=RED_AGENTS)
@click.option("--record", type=click.Path(path_type=Path), default=Path("cage4-parity.jsonl"))
@click.option("--n-workers", type=click.IntRange(1), default=1)
def main(
    first: str,
    second: str,
    cyborg4: Path | None,
    episodes: int,
    seed: int,
    steps: int,
    max_steps: int,
    state_every: int,
    blues: tuple[str, ...],
    reds: tuple[str, ...],
    record: Path,
    n_workers: int,
) -> None:
    """Compare the simulators FIRST and SECOND."""
    if cyborg4 is not None:
        use_checkout(cyborg4)
    try:
        checkout()
    except CheckoutError as error:
        raise click.UsageError(str(error)) from None
    # The first episode of every pair comes before the second of any.
    rounds = itertools.product(range(episodes), enumerate(itertools.product(blues, reds)))
    n_pairs = len(blues) * len(reds)
    pairs = [
        Pair(blue, red, seed + number * n_pairs + i, min(steps, max_steps))
        for number, (i, (blue, red)) in rounds
    ]
    results = []
    played = comparisons(pairs, (first, second), record, max_steps, state_every, n_workers)
    for result in tqdm(played, total=len(pairs), unit="ep", disable=None):
        results.append(result)
        if result.difference:
            tqdm.write(result.difference)
    print("\n".join(summary(results, (first, second))))
    if any(result.difference for result in results):
        sys.exit(1)


if __name__ == "__main__":
    main()
