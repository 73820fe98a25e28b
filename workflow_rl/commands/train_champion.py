"""The command `train-champion`: train the strongest agent, choose it, score it."""

from __future__ import annotations

import json
import shlex
import time
from pathlib import Path

import click

from workflow_rl.commands.clear import ClearCommand
from workflow_rl.commands.errors import training_errors, usage_errors
from workflow_rl.commands.options import COUNT, EPISODES, PATH, SEED
from workflow_rl.output_files import write_text

TOTAL_EPISODES = 120_000
_OPTIONS: list[click.Parameter] = [
    click.Option(["--run-dir"], type=PATH, required=True, metavar="FOLDER",
                 help="Folder of the run. It is new or empty, or the one in which this command "
                      "was stopped before; then the command goes on."),
    click.Option(["--seed"], type=SEED, default=0, show_default=True, metavar="N",
                 help="The same seed gives the same agent."),
    click.Option(["--total-episodes"], type=COUNT, default=TOTAL_EPISODES,
                 show_default=True, metavar="N", help="Episodes of training."),
    click.Option(["--selection-episodes"], type=click.IntRange(32, 1_000_000), default=8000,
                 show_default=True, metavar="N",
                 help="Episodes against each attacker that compare the last candidates."),
    click.Option(["--episodes"], type=EPISODES, default=1000, show_default=True,
                 metavar="N", help="Episodes in each cell of the final score."),
    click.Option(["--quiet"], is_flag=True, help="No progress bars."),
]  # fmt: skip


@click.command(params=_OPTIONS, cls=ClearCommand)
def train_champion(
    run_dir: Path,
    seed: int,
    total_episodes: int,
    selection_episodes: int,
    episodes: int,
    quiet: bool,
) -> None:
    """Train the strongest agent for CAGE-2, choose it among its candidates, and score it.

    The agent plays on what Blue sees and concludes alone. Episodes that serve nothing else compare
    the candidates. The final score is csle-cyborg's, on further episodes.

    Example: train-champion --run-dir runs/champion
    """
    from workflow_rl.cage2.agent.card import CARD_FILE
    from workflow_rl.cage2.agent.champion import (
        AGENT_FILE,
        card_of,
        choose_champion,
        recipe,
        train_recipe,
    )
    from workflow_rl.commands.evaluate import evaluate
    from workflow_rl.runs.folder import RunDirError

    command = (
        f"workflow-rl train-champion --seed {seed} --total-episodes {total_episodes} "
        f"--selection-episodes {selection_episodes} --episodes {episodes}"
    )
    again = f"{command} --run-dir {shlex.quote(str(run_dir))}"
    try:
        with usage_errors({}), training_errors(again, run_dir):
            config = recipe(seed, total_episodes)
            summary = train_recipe(config, run_dir, quiet)
            start = time.perf_counter()
            candidates = choose_champion(run_dir, selection_episodes, quiet)
    except RunDirError as error:
        raise click.BadParameter(str(error), param_hint="--run-dir") from None
    best = candidates[0]
    click.echo(
        f"chosen: {best.path.relative_to(run_dir)} of {len(candidates)}, "
        f"{best.score.mean:.2f} ± {1.96 * best.score.error:.2f} in {best.episodes} episodes "
        "against each attacker"
    )
    end = time.perf_counter()
    flags = ["--quiet"] if quiet else []
    evaluate.main([str(run_dir), "--episodes", str(episodes), *flags], standalone_mode=False)
    seconds = {
        "training": summary["wall_seconds"],
        "choosing": end - start,
        "scoring": time.perf_counter() - end,
    }
    card = card_of(run_dir, command, candidates, seconds)
    write_text(run_dir / CARD_FILE, json.dumps(card, indent=2) + "\n")
    click.echo(
        f"agent: {run_dir / AGENT_FILE}\n"
        f"card: {run_dir / CARD_FILE} ({sum(seconds.values()):.0f} s in all)"
    )
