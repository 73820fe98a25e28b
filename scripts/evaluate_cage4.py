"""Score the scripted teams of CAGE Challenge 4 by the challenge's own evaluation.

python scripts/evaluate_cage4.py sleep random restore-when-seen --episodes 20
"""

from __future__ import annotations

import sys
from pathlib import Path

import click

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from workflow_rl.cage4.agent.scripted import TEAMS, make_scripted_team
from workflow_rl.cage4.cyborg.checkout import CheckoutError, use_checkout
from workflow_rl.cage4.interface import COMMIT, SIMULATORS
from workflow_rl.cage4.scoring.protocol import EPISODES, Author, evaluate


@click.command()
@click.argument("teams", type=click.Choice(list(TEAMS)), nargs=-1, required=True)
@click.option("--cyborg4", type=click.Path(path_type=Path), help="The checkout of CybORG 4.")
@click.option("--simulator", type=click.Choice(SIMULATORS), default="cyborg")
@click.option("--episodes", type=click.IntRange(2), default=EPISODES)
@click.option("--seed", type=click.IntRange(0), default=0)
@click.option("--out", type=click.Path(path_type=Path), help="A folder for each team's files.")
def main(
    teams: tuple[str, ...],
    cyborg4: Path | None,
    simulator: str,
    episodes: int,
    seed: int,
    out: Path | None,
) -> None:
    """Score TEAMS."""
    if cyborg4 is not None:
        use_checkout(cyborg4)
    print(f"{simulator}, commit {COMMIT[:7]}, seed {seed}, {episodes} episodes")
    for name in teams:
        author = Author(name, "workflow_rl", "script")
        try:
            scores = evaluate(
                make_scripted_team(name), author, simulator, episodes, seed, out and out / name
            )
        except CheckoutError as error:
            raise click.UsageError(str(error)) from None
        print(
            f"{name}: {scores.mean:,.1f} (standard deviation {scores.stdev:,.1f}, "
            f"{min(scores.totals):,} to {max(scores.totals):,})",
            flush=True,
        )


if __name__ == "__main__":
    main()
