"""Store digests of episodes of CAGE Challenge 4 on the official CybORG 4, sped up.

The file lets the compiled simulator be tested where there is no CybORG:

    python -m tests.kept.store_cage4_digests --cyborg4 cage-challenge-4
"""

import itertools
import os
from pathlib import Path

import click
import numpy as np

from tests.kept.cage4_digests import STORED_TEAMS, episode_digests, stored_name
from workflow_rl.cage.comparison import ComparedEpisode
from workflow_rl.cage4.cyborg.checkout import VARIABLE, CheckoutError
from workflow_rl.cage4.cyborg.simulators import make_simulator
from workflow_rl.cage4.scenario.scenario4 import MAX_STEPS, RED_AGENTS

FILE = Path(__file__).parent / "cage4_digests.npz"


@click.command()
@click.option(
    "--cyborg4",
    type=click.Path(path_type=Path, resolve_path=True),
    help="The checkout of CybORG 4.",
)
@click.option("--seed", type=click.IntRange(0), default=1000, help="Of the first episode.")
def main(cyborg4: Path | None, seed: int) -> None:
    """Store one episode of each pair of a scripted team and red agents."""
    if cyborg4 is not None:
        os.environ[VARIABLE] = str(cyborg4)
    arrays = {}
    try:
        simulators = {red: make_simulator("cyborg", red) for red in RED_AGENTS}
    except CheckoutError as error:
        raise click.UsageError(str(error)) from None
    for i, (blue, red) in enumerate(itertools.product(STORED_TEAMS, RED_AGENTS)):
        pair = ComparedEpisode(blue, red, seed + i, MAX_STEPS)
        digests = episode_digests(simulators[red], pair)
        arrays[f"{stored_name(pair)}/steps"] = digests.steps
        arrays[f"{stored_name(pair)}/states"] = digests.states
        print(pair, flush=True)
    np.savez_compressed(FILE, **arrays)  # type: ignore[arg-type]


if __name__ == "__main__":
    main()
