"""Does an agent trained on the compiled simulator score the same on CybORG?

Plays RUN's agent (default: one trained here, against all red agents) by the challenge's protocol,
greedily, on CybORG and on the compiled simulator with the same seeds. Every single return has to
be equal: exits with 1 if one differs.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

import click

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from workflow_rl.cage2.env.environment import Cage2  # noqa: E402
from workflow_rl.cage2.scoring.loading import load_actor  # noqa: E402
from workflow_rl.cage2.scoring.protocol import evaluate_actor  # noqa: E402
from workflow_rl.reporting.harness import text_table  # noqa: E402
from workflow_rl.runs.checkpoint import CheckpointError, checkpoint_path  # noqa: E402

TRAIN = "train-async --simulator compiled --red-agent mixed --quiet"


@click.command(help=__doc__, context_settings={"show_default": True})
@click.argument("run", type=click.Path(path_type=Path), required=False)
@click.option("--episodes", type=click.IntRange(2), default=1000, help="Episodes in each cell.")
@click.option("--seed", type=click.IntRange(0), default=0, help="Of the episodes.")
@click.option("--training-episodes", default=10_000, help="Of the agent trained here.")
@click.option("--quiet", is_flag=True, help="No progress bars.")
def main(run: Path | None, episodes: int, seed: int, training_episodes: int, quiet: bool) -> None:
    Cage2(simulator="compiled").check()
    with tempfile.TemporaryDirectory() as folder:
        if run is None:
            run = Path(folder) / "run"
            options = ["--total-episodes", str(training_episodes), "--run-dir", str(run)]
            command = [sys.executable, "-m", "workflow_rl", *TRAIN.split(), *options]
            subprocess.run(command, cwd=ROOT, check=True)
        try:
            policy = load_actor(checkpoint_path(run))
        except CheckpointError as error:
            raise click.UsageError(str(error)) from None
    cyborg, compiled = (
        evaluate_actor(policy, episodes, seed, simulator, name=simulator, quiet=quiet)
        for simulator in ("cyborg", "compiled")
    )
    rows, n_unequal = [], 0
    for one, other in zip(cyborg.cells, compiled.cells, strict=True):
        unequal = sum(a != b for a, b in zip(one.returns, other.returns, strict=True))
        means = [f"{cell.mean:.2f} ± {cell.interval_95:.2f}" for cell in (one, other)]
        rows.append([one.max_steps, one.red_agent, *means, unequal])
        n_unequal += unequal
    totals = [f"{both.total:.2f} ± {both.total_interval_95:.2f}" for both in (cyborg, compiled)]
    rows.append(["", "total", *totals, n_unequal])
    headings = ["steps", "red agent", "CybORG", "compiled", "returns that differ"]
    click.echo(text_table(headings, rows, left=0, groups=[*"c" * len(cyborg.cells), "total"]))
    click.echo(f"{n_unequal} of {episodes * len(cyborg.cells)} returns differ.")
    if n_unequal:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
