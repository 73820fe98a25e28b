"""Does a population pay? Its best member against as many independent runs from the same draws.

Both begin with the same poor settings, drawn log-uniformly, and play as many episodes each. In the
population the worst members take over from the best. Prints a table, writes
docs/figures/population.json, and exits with 1 unless in every repetition the best member does
better than the median of the independent runs.
"""

from __future__ import annotations

import json
import statistics
import sys
import tempfile
from pathlib import Path

import click
from tqdm import tqdm

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from workflow_rl.commands.train_population import train_population  # noqa: E402
from workflow_rl.reporting.harness import text_table  # noqa: E402
from workflow_rl.runs.drawing import save_png  # noqa: E402
from workflow_rl.runs.machine import machine  # noqa: E402
from workflow_rl.runs.population_figure import figure_of_folder  # noqa: E402

RANGES = {"learning-rate": "1e-6:1e-1", "entropy-coef": "1e-4:1", "discount": "0.5:0.999"}
OPTIONS = "--simulator compiled --red-agent B_lineAgent --n-envs 24 --quiet"
KINDS = {"population": [], "independent": ["--replace-fraction", "0", "--mutation-rate", "0"]}


@click.command(help=__doc__, context_settings={"show_default": True})
@click.option("--repetitions", default=5)
@click.option("--members", default=8)
@click.option("--episodes", default=1200, help="Of each member.")
@click.option("--json", "json_path", type=Path, default=ROOT / "docs/figures/population.json")
@click.option("--plot", type=Path, help="Where to draw the first repetition's population.")
def main(repetitions: int, members: int, episodes: int, json_path: Path, plot: Path | None) -> None:
    sizes = f"--n-policies {members} --total-episodes {episodes}"
    options = f"{OPTIONS} {sizes}".split()
    options += [word for name, ends in RANGES.items() for word in ("--range", f"{name}={ends}")]
    runs, rows, pays = [], [], []
    with tempfile.TemporaryDirectory() as folder:
        # Members have the seeds from a repetition's on: no seed is used twice.
        for seed in tqdm(range(0, 1000 * repetitions, 1000), unit="repetition"):
            returns = {}
            for kind, more in KINDS.items():
                path = Path(folder) / f"{kind}-{seed}"
                where = ["--seed", str(seed), "--run-dir", str(path)]
                train_population.main([*options, *where, *more], standalone_mode=False)
                policies = json.loads((path / "summary.json").read_text())["policies"]
                returns[kind] = [policy["return_mean_last_300"] for policy in policies]
            together, alone = returns.values()
            runs.append({"seed": seed, **returns})
            pays.append(max(together) > statistics.median(alone))
            pairs = [(max(own), statistics.median(own)) for own in (together, alone)]
            rows.append([seed, *(f"{one:.1f}" for pair in pairs for one in pair), pays[-1]])
        if plot is not None:
            save_png(figure_of_folder(Path(folder) / "population-0"), plot)
    content = {"members": members, "episodes": episodes, "ranges": RANGES, "runs": runs}
    json_path.write_text(json.dumps({**content, "machine": machine()}, indent=1) + "\n")
    headings = ["seed", "population: best", "its median", "independent: best", "their median"]
    click.echo(text_table([*headings, "pays"], rows, left=0))
    click.echo(f"the best member beats the median of {members} runs: {sum(pays)} of {len(pays)}")
    sys.exit(0 if all(pays) else 1)


if __name__ == "__main__":
    main()
