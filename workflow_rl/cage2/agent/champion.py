"""The recipe of the strongest agent, as one command: train, choose, score, and write a card."""

from __future__ import annotations

import dataclasses
import json
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from agents.policies.archive import MOST_BYTES
from workflow_rl.cage2.scoring.evaluation import evaluate
from workflow_rl.cage2.scoring.selection import Candidate, choose
from workflow_rl.commands.export import write_policy
from workflow_rl.commands.options import (
    COUNT,
    EPISODES,
    PATH,
    SEED,
    GroupedCommand,
    training_options,
)
from workflow_rl.commands.run_plan import new_config
from workflow_rl.commands.train import run_command
from workflow_rl.output_files import sha256_of, write_text
from workflow_rl.runs.checkpoint import CheckpointError, load_checkpoint, save_checkpoint
from workflow_rl.runs.folder import (
    RunDirError,
    is_finished,
    kept_name,
    read_config,
    read_summary,
)
from workflow_rl.runs.machine import environment
from workflow_rl.runs.saved_agent import load_saved

RECIPE: dict[str, Any] = {
    # All that Blue can know, and no action that does nothing.
    "simulator": "compiled",
    "observation": "belief",
    "actions": "by-host",
    # One agent for all red agents, which is never told who attacks.
    "red-agent": "attackers",
    # User2 is the one host in User that decoys can keep, if they are there when Red scans it.
    "opening": ("DecoyFemitter User2", "DecoyTomcat User2", "DecoyApache User2"),
    "n-envs": 400,
    "episodes-per-update": 400,
    "hidden-sizes": "128,128",
    "minibatch-size": 10_000,
    "minibatches-of": "observations",
    "learner-threads": 2,
    "epochs": 4,
    "learning-rate": 2e-3,
    # What matters shows within some 30 steps; 0.95 lets go of hosts that pay later.
    "discount": 0.97,
    "gae-lambda": 0.97,
    "entropy-coef": 0.01,
    "entropy-coef-final": 0.0,
}
PLAYS_WITH = "by-host-timed"
"""The agent learns without the clock, which it does not see, and plays by it."""
TOTAL_EPISODES = 120_000
N_CANDIDATES = 30
AGENT_FILE = "champion.npz"


@click.command(cls=GroupedCommand, hidden=True)
@training_options
def _train(**options: Any) -> None:
    run_command("async", options, choose=False)


_OPTIONS: list[click.Parameter] = [
    click.Option(["--run-dir"], type=PATH, required=True, metavar="FOLDER",
                 help="Where the run is kept: a folder that is new or empty, or one that this "
                      "command was stopped in, which it goes on with."),
    click.Option(["--seed"], type=SEED, default=0, show_default=True, metavar="N",
                 help="The same seed gives the same agent."),
    click.Option(["--total-episodes"], type=COUNT, default=TOTAL_EPISODES,
                 show_default=True, metavar="N", help="Of training."),
    click.Option(["--selection-episodes"], type=click.IntRange(32, 1_000_000), default=8000,
                 show_default=True, metavar="N",
                 help="That the last candidates are compared on, against each attacker."),
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

    It plays on what Blue sees and concludes alone. Candidates are compared on episodes of their
    own; the score is that of csle-cyborg, on others again.
    """
    arguments = recipe(seed, total_episodes, run_dir)
    flags = ["--quiet"] if quiet else []
    try:
        if (run_dir / "checkpoint.pt").exists():
            _require_same_recipe(run_dir, arguments)
            arguments = ["--resume", str(run_dir)]
        if not is_finished(run_dir):
            _train.main([*arguments, *flags], standalone_mode=False)
        summary = read_summary(run_dir)
        start = time.perf_counter()
        rounds = [selection_episodes // 16, selection_episodes // 4, selection_episodes]
        candidates = choose(_candidates(run_dir), rounds, quiet, PLAYS_WITH)
        best = candidates[0]
        chosen = load_checkpoint(best.path)
        config = {**chosen.config, "actions": PLAYS_WITH}
        save_checkpoint(run_dir / "best.pt", dataclasses.replace(chosen, config=config))
        policy, environment = load_saved(run_dir / "best.pt")
        write_policy(policy.parameters, environment, run_dir / AGENT_FILE)
    except SystemExit:
        click.echo("to go on, give the same command again", err=True)
        raise
    except (RunDirError, CheckpointError) as error:
        raise click.UsageError(str(error)) from None
    click.echo(
        f"chosen: {best.path.relative_to(run_dir)} of {len(candidates)}, "
        f"{best.score.mean:.2f} ± {1.96 * best.score.error:.2f} in {best.episodes} episodes "
        "against each attacker"
    )
    end = time.perf_counter()
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
    write_text(run_dir / "card.json", json.dumps(card, indent=2) + "\n")
    click.echo(
        f"agent: {run_dir / AGENT_FILE}\n"
        f"card: {run_dir / 'card.json'} ({sum(seconds.values()):.0f} s in all)"
    )


def _candidates(run_dir: Path) -> list[Path]:
    """The run's last checkpoints, each agent once."""
    kept, last = sorted(run_dir.glob("kept/*.pt"))[-N_CANDIDATES:], run_dir / "checkpoint.pt"
    if run_dir / kept_name(load_checkpoint(last).training.updates) in kept:
        return kept
    return [*kept, last]


def _require_same_recipe(run_dir: Path, arguments: list[str]) -> None:
    before = read_config(run_dir).to_dict()
    with _train.make_context("train-champion", arguments) as context:
        config = new_config("async", context.params)
    for name, value in config.to_dict().items():
        if name not in config.free_on_resume and before.get(name) != value:
            raise click.BadParameter(
                f"{run_dir} holds another run, whose {name} is {before.get(name)} and not {value}: "
                "choose another folder",
                param_hint="--run-dir",
            )


def recipe(seed: int, total_episodes: int, run_dir: Path) -> list[str]:
    """The arguments of `train-async` that it comes to."""
    n_updates = total_episodes // RECIPE["episodes-per-update"]
    given = {
        **RECIPE,
        "total-episodes": total_episodes,
        # The candidates are those of the last half.
        "keep-every": max(1, n_updates // (2 * N_CANDIDATES)),
        "seed": seed,
        "run-dir": run_dir,
    }
    return as_arguments(given)


def as_arguments(options: Mapping[str, Any]) -> list[str]:
    """A tuple gives an option several times, None not at all."""
    return [
        word
        for name, value in options.items()
        for one in (value if isinstance(value, tuple) else (value,))
        if one is not None
        for word in (f"--{name}", str(one))
    ]


def card_of(
    run_dir: Path,
    command: str,
    candidates: list[Candidate],
    seconds: dict[str, float],
) -> dict[str, Any]:
    """How the agent in a run's folder was made, and what it scores."""
    scores = json.loads((run_dir / "evaluation.json").read_text())
    cells = [
        {name: cell[name] for name in ("max_steps", "red_agent", "episodes", "mean", "interval_95")}
        for cell in scores["cells"]
    ]
    best = candidates[0]
    return {
        "command": command,
        "training": json.loads((run_dir / "config.json").read_text()),
        "plays_with": PLAYS_WITH,
        "made_with": environment(),
        "seconds": seconds,
        "selection": {
            "candidates": len(candidates),
            "chosen": str(best.path.relative_to(run_dir)),
            "episodes_against_each": best.episodes,
            "mean": best.score.mean,
            "standard_error": best.score.error,
        },
        "agent_sha256": sha256_of(run_dir / AGENT_FILE, MOST_BYTES),
        "simulator": scores["simulator"],
        "evaluation_seed": scores["seed"],
        "total": scores["total"],
        "total_interval_95": scores["total_interval_95"],
        "cells": cells,
    }
