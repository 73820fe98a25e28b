"""Does a population pay? Its best member against as many runs of their own, from the same draws.

Both begin with the same poor settings, drawn log-uniformly, and play as many episodes each; in the
one the worst take over from the best, in the other nobody does. Prints a table, and writes
`docs/figures/population.json`; exits with 1 unless in every repetition the best member does better
than the median of the independent runs.

    python scripts/check_population.py --repetitions 5
"""

from __future__ import annotations

import json
import statistics
import sys
import tempfile
from pathlib import Path
from typing import Any

import click
from prettytable import PrettyTable, TableStyle
from tqdm import tqdm

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from workflow_rl.commands.train_population import train_population  # noqa: E402
from workflow_rl.runs.machine import machine  # noqa: E402
from workflow_rl.runs.population_figure import figure_of_folder  # noqa: E402

RANGES = {"learning-rate": "1e-6:1e-1", "entropy-coef": "1e-4:1", "discount": "0.5:0.999"}
ALONE = ["--replace-fraction", "0", "--mutation-rate", "0"]


def returns_of(path: Path, seed: int, members: int, episodes: int, more: list[str]) -> list[float]:
    """The mean return of each member's last 300 training episodes."""
    arguments = ["--simulator", "compiled", "--red-agent", "B_lineAgent", "--quiet"]
    arguments += ["--n-envs", "24", "--n-policies", str(members), "--seed", str(seed)]
    arguments += ["--total-episodes", str(episodes), "--run-dir", str(path)]
    for name, ends in RANGES.items():
        arguments += ["--range", f"{name}={ends}"]
    train_population.main([*arguments, *more], standalone_mode=False)
    summary = json.loads((path / "summary.json").read_text())
    return [policy["return_mean_last_300"] for policy in summary["policies"]]


@click.command()
@click.option("--repetitions", default=5, show_default=True)
@click.option("--members", default=8, show_default=True)
@click.option("--episodes", default=1200, show_default=True, help="Of each member.")
@click.option("--json", "json_path", type=Path, default=ROOT / "docs/figures/population.json")
@click.option("--plot", type=Path, help="Where to draw the first repetition's population.")
def main(repetitions: int, members: int, episodes: int, json_path: Path, plot: Path | None) -> None:
    """Train them and compare."""
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as folder:
        for repetition in tqdm(range(repetitions), unit="repetition"):
            # Members have the seeds from this one on: none is used twice.
            seed = 1000 * repetition
            path = Path(folder) / str(repetition)
            together = returns_of(path, seed, members, episodes, [])
            alone = returns_of(Path(folder) / f"{repetition}-alone", seed, members, episodes, ALONE)
            rows.append({"seed": seed, "population": together, "independent": alone})
            if plot is not None and repetition == 0:
                figure_of_folder(path).savefig(plot, dpi=120)
    content = {"members": members, "episodes": episodes, "ranges": RANGES, "runs": rows}
    json_path.write_text(json.dumps({**content, "machine": machine()}, indent=1) + "\n")
    table = PrettyTable(
        ["seed", "population: best", "its median", "independent: best", "their median", "pays"],
        align="r",
    )
    table.set_style(TableStyle.SINGLE_BORDER)
    pays = []
    for row in rows:
        together, alone = row["population"], row["independent"]
        pays.append(max(together) > statistics.median(alone))
        figures = [max(together), statistics.median(together), max(alone), statistics.median(alone)]
        table.add_row([row["seed"], *(f"{one:.1f}" for one in figures), pays[-1]], divider=False)
    click.echo(table)
    click.echo(f"the best member beats the median of {members} runs: {sum(pays)} of {len(pays)}")
    sys.exit(0 if all(pays) else 1)


if __name__ == "__main__":
    main()
