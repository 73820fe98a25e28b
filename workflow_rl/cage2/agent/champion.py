"""The recipe of the strongest agent: how it is trained, chosen, and described on a card."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from agents.policies.archive import MOST_BYTES
from workflow_rl.cage2.agent.card import evaluation_of
from workflow_rl.cage2.env.environment import Cage2
from workflow_rl.cage2.scoring.selection import Candidate, choose
from workflow_rl.output_files import sha256_of
from workflow_rl.runs.checkpoint import load_checkpoint, save_checkpoint
from workflow_rl.runs.config import TrainConfig
from workflow_rl.runs.export import write_policy
from workflow_rl.runs.folder import (
    RunDirError,
    is_finished,
    kept_name,
    read_config,
    read_summary,
)
from workflow_rl.runs.learner import usable_device
from workflow_rl.runs.loop import stopped_by_signals, train
from workflow_rl.runs.machine import environment
from workflow_rl.runs.saved_agent import load_saved

ENV_ARGS: dict[str, Any] = {
    # The belief is all that Blue can know; the action set leaves out actions that do nothing.
    "simulator": "compiled",
    "observation": "belief",
    "actions": "by-host",
    # One agent plays against all red agents, and is never told which one attacks.
    "red_agent": "attackers",
    # Decoys can keep Red off no host in User but User2, and only if they are there before Red
    # scans the host.
    "opening": ("DecoyFemitter User2", "DecoyTomcat User2", "DecoyApache User2"),
}
PPO: dict[str, Any] = {
    "hidden_sizes": (128, 128),
    "minibatch_size": 10_000,
    "minibatches_of": "observations",
    "epochs": 4,
    "learning_rate": 2e-3,
    # What matters shows within some 30 steps; a lambda of 0.95 gives up hosts that pay off later.
    "discount": 0.97,
    "gae_lambda": 0.97,
    "entropy_coef": 0.01,
    "entropy_coef_final": 0.0,
}
RUN: dict[str, Any] = {"n_envs": 400, "episodes_per_update": 400, "learner_threads": 2}
PLAYS_WITH = "by-host-timed"
"""The action set of play. Training leaves the clock out, which the agent does not see."""
TOTAL_EPISODES = 120_000
N_CANDIDATES = 30
AGENT_FILE = "champion.npz"


def recipe(
    seed: int,
    total_episodes: int = TOTAL_EPISODES,
    env_args: Mapping[str, Any] | None = None,
    ppo: Mapping[str, Any] | None = None,
    **run: Any,
) -> TrainConfig:
    """Return the config of a champion's run, with other arguments where they are given."""
    run = {**RUN, **run}
    n_updates = total_episodes // run["episodes_per_update"]
    # The candidates are checkpoints of the last half.
    given: dict[str, Any] = {
        "env": Cage2.env_id,
        "env_args": {**dict(Cage2().args), **ENV_ARGS, **(env_args or {})},
        "ppo": {**PPO, **(ppo or {})},
        "seed": seed,
        "total_episodes": total_episodes,
        "keep_every": max(1, n_updates // (2 * N_CANDIDATES)),
    }
    return TrainConfig("async", **{**given, **run})


def train_recipe(config: TrainConfig, run_dir: Path, quiet: bool = True) -> dict[str, Any]:
    """Train in a new folder, or go on with this run in its own. Returns the run's summary.

    Raises RunDirError if the folder holds another run, CheckpointError, and what ends a training.
    """
    resumed = None
    if (run_dir / "checkpoint.pt").exists():
        _require_same_run(config, run_dir)
        resumed = load_checkpoint(run_dir / "checkpoint.pt")
    if resumed is None or not is_finished(run_dir):
        config = dataclasses.replace(config, device=usable_device(config.device))
        train(config, run_dir, resumed, quiet=quiet, watch=stopped_by_signals)
    return read_summary(run_dir)


def _require_same_run(config: TrainConfig, run_dir: Path) -> None:
    before = read_config(run_dir).to_dict()
    for name, value in config.to_dict().items():
        if name not in config.free_on_resume and before.get(name) != value:
            raise RunDirError(
                f"{run_dir} holds another run, whose {name} is {before.get(name)} and not {value}: "
                "choose another folder"
            )


def choose_champion(run_dir: Path, episodes: int, quiet: bool = True) -> list[Candidate]:
    """Make the best candidate of a finished run best.pt and AGENT_FILE. Returns all, best first.

    episodes: how many the last candidates play against each attacker. Raises CheckpointError.
    """
    rounds = [episodes // 16, episodes // 4, episodes]
    candidates = choose(_candidates(run_dir), rounds, quiet, PLAYS_WITH)
    chosen = load_checkpoint(candidates[0].path)
    config = {**chosen.config, "actions": PLAYS_WITH}
    save_checkpoint(run_dir / "best.pt", dataclasses.replace(chosen, config=config))
    policy, its_environment = load_saved(run_dir / "best.pt")
    write_policy(policy.parameters, its_environment, run_dir / AGENT_FILE)
    return candidates


def _candidates(run_dir: Path) -> list[Path]:
    """Return the run's last checkpoints, each agent once."""
    kept, last = sorted(run_dir.glob("kept/*.pt"))[-N_CANDIDATES:], run_dir / "checkpoint.pt"
    if run_dir / kept_name(load_checkpoint(last).training.updates) in kept:
        return kept
    return [*kept, last]


def card_of(
    run_dir: Path, command: str, candidates: Sequence[Candidate], seconds: Mapping[str, float]
) -> dict[str, Any]:
    """Return how the agent in a run's folder was made, and what it scores: see `card.read_card`."""
    best = candidates[0]
    return {
        "command": command,
        "config": json.loads((run_dir / "config.json").read_text()),
        "plays_with": PLAYS_WITH,
        "made_with": environment(),
        "seconds": dict(seconds),
        "selection": {
            "candidates": len(candidates),
            "chosen": str(best.path.relative_to(run_dir)),
            "episodes_against_each": best.episodes,
            "mean": best.score.mean,
            "standard_error": best.score.error,
        },
        "agent_sha256": sha256_of(run_dir / AGENT_FILE, MOST_BYTES),
        "evaluation": evaluation_of(json.loads((run_dir / "evaluation.json").read_text())),
    }
