"""The command `train-champion`: train the strongest agent, choose it, score it."""

from __future__ import annotations

import contextlib
import json
import logging
import time
from collections.abc import Iterator
from pathlib import Path

import click

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


@click.command(params=_OPTIONS)
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
    from workflow_rl.commands.train import warn_if_results_vary

    logging.basicConfig(format="%(levelname)s: %(message)s")
    with _errors():
        config = recipe(seed, total_episodes)
        warn_if_results_vary(config)
        summary = train_recipe(config, run_dir, quiet)
        start = time.perf_counter()
        candidates = choose_champion(run_dir, selection_episodes, quiet)
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
    command = (
        f"workflow-rl train-champion --seed {seed} --total-episodes {total_episodes} "
        f"--selection-episodes {selection_episodes} --episodes {episodes}"
    )
    card = card_of(run_dir, command, candidates, seconds)
    write_text(run_dir / CARD_FILE, json.dumps(card, indent=2) + "\n")
    click.echo(
        f"agent: {run_dir / AGENT_FILE}\n"
        f"card: {run_dir / CARD_FILE} ({sum(seconds.values()):.0f} s in all)"
    )


@contextlib.contextmanager
def _errors() -> Iterator[None]:
    """Turn what ends a training into one line, with how to go on."""
    from agents.ppo.agent import DivergedError
    from workflow_rl.collection.failures import StopRequested, TooManyFailuresError
    from workflow_rl.collection.rollout import NotFiniteError
    from workflow_rl.runs.checkpoint import CheckpointError
    from workflow_rl.runs.config import ConfigError
    from workflow_rl.runs.folder import NotWrittenError, RunDirError

    try:
        yield
    except RunDirError as error:
        raise click.BadParameter(str(error), param_hint="--run-dir") from None
    except (CheckpointError, ConfigError) as error:
        raise click.UsageError(str(error)) from None
    except StopRequested as stop:
        click.echo(f"{stop}; to go on, give the same command again", err=True)
        raise SystemExit(128 + stop.signal_number) from None
    except (TooManyFailuresError, NotFiniteError, NotWrittenError, DivergedError) as error:
        click.echo(f"Error: {error}\nTo go on, give the same command again", err=True)
        raise SystemExit(1) from None
