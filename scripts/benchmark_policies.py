"""What several policies in one run cost: env steps/s of them together against one policy's.

Rounds of one and of several, one after another, of as many episodes each in all; the seconds are
those of the training. Prints a table with the median ratio within the rounds.

    python scripts/benchmark_policies.py --rounds 5
"""

from __future__ import annotations

import statistics
import sys
import tempfile
from pathlib import Path

import click
from prettytable import PrettyTable, TableStyle
from tqdm import tqdm

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from workflow_rl.runs.config import TrainConfig
from workflow_rl.runs.learner import Beginning, Learner
from workflow_rl.runs.loop import train_together


def steps_per_second(simulator: str, n_policies: int, episodes: int, seed: int) -> float:
    """Of all the policies of one run together."""
    with tempfile.TemporaryDirectory() as folder:
        learners = [
            Learner(
                Beginning(
                    TrainConfig(
                        "async",
                        24,
                        env_args={"simulator": simulator},
                        total_episodes=episodes // n_policies,
                        seed=seed + number,
                    ),
                    Path(folder) / str(number),
                )
            )
            for number in range(n_policies)
        ]
        summaries = train_together(learners, quiet=True)
    return sum(one["env_steps"] for one in summaries) / max(
        one["wall_seconds"] for one in summaries
    )


@click.command()
@click.option("--rounds", default=5, show_default=True)
@click.option("--policies", default=4, show_default=True)
@click.option("--episodes", default=1920, show_default=True, help="On the compiled simulator.")
@click.option("--cyborg-episodes", default=480, show_default=True, help="On CybORG.")
def main(rounds: int, policies: int, episodes: int, cyborg_episodes: int) -> None:
    """Measure them in turn."""
    table = PrettyTable(["simulator", "one policy", f"{policies} policies", "ratio"], align="r")
    table.set_style(TableStyle.SINGLE_BORDER)
    for simulator, total in (("compiled", episodes), ("cyborg", cyborg_episodes)):
        pairs = [
            [steps_per_second(simulator, n, total, 10 * number) for n in (1, policies)]
            for number in tqdm(range(rounds), simulator)
        ]
        one, several = (statistics.median(column) for column in zip(*pairs, strict=True))
        ratios = sorted(pair[1] / pair[0] for pair in pairs)
        spread = f"{statistics.median(ratios):.2f} ({ratios[0]:.2f} to {ratios[-1]:.2f})"
        table.add_row([simulator, f"{one:,.0f}", f"{several:,.0f}", spread])
    click.echo(table)


if __name__ == "__main__":
    main()
