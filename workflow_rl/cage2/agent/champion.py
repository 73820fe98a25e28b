"""The recipe of the strongest agent: how it is trained, chosen, and described on a card."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from workflow_rl.agents.policies.archive import MOST_BYTES
from workflow_rl.cage.recipe import last_agents, train_recipe
from workflow_rl.cage2.agent.card import evaluation_of
from workflow_rl.cage2.env.environment import Cage2
from workflow_rl.cage2.presets import QUICK
from workflow_rl.cage2.scoring.players import load_trained
from workflow_rl.cage2.scoring.selection import Candidate, rank_candidates
from workflow_rl.environments.guest import Chosen
from workflow_rl.output_files import sha256_of
from workflow_rl.runs import checkpoint, export
from workflow_rl.runs.config import TrainConfig
from workflow_rl.runs.machine import environment

ENV_ARGS: dict[str, Any] = QUICK["env_args"]
PPO: dict[str, Any] = {**QUICK["settings"], "hidden_sizes": (128, 128)}
RUN: dict[str, Any] = {
    "n_envs": QUICK["n_envs"],
    "episodes_per_update": QUICK["episodes_per_update"],
    "learner_threads": 2,
}
PLAYS_WITH = "by-host-timed"
"""The action set of play. Training leaves the clock out, which the agent does not see."""
TOTAL_EPISODES = 80_000
N_CANDIDATES = 30
AGENT_FILE = "champion.npz"


def recipe(
    seed: int,
    total_episodes: int = TOTAL_EPISODES,
    ppo: Mapping[str, Any] | None = None,
    **run: Any,
) -> TrainConfig:
    """Return the config of a champion's run, with other arguments where they are given."""
    run = {**RUN, **run}
    n_updates = total_episodes // run["episodes_per_update"]
    # The candidates are checkpoints of the last half.
    given: dict[str, Any] = {
        "env": Cage2.env_id,
        "env_args": {**dict(Cage2().args), **ENV_ARGS},
        "ppo": {**PPO, **(ppo or {})},
        "seed": seed,
        "total_episodes": total_episodes,
        "keep_every": max(1, n_updates // (2 * N_CANDIDATES)),
    }
    return TrainConfig("async", **{**given, **run})


def choose_champion(run_dir: Path, episodes: int, quiet: bool = True) -> list[Candidate]:
    """Make the best candidate of a finished run best.pt and AGENT_FILE. Returns all, best first.

    episodes: how many the last candidates play against each attacker. Raises CheckpointError.
    """
    rounds = [episodes // 16, episodes // 4, episodes]
    candidates = rank_candidates(last_agents(run_dir, N_CANDIDATES), rounds, quiet, PLAYS_WITH)
    chosen = checkpoint.load_checkpoint(candidates[0].path)
    config = {**chosen.config, "actions": PLAYS_WITH}
    checkpoint.save_checkpoint(run_dir / "best.pt", dataclasses.replace(chosen, config=config))
    policy, its_environment = load_trained(run_dir / "best.pt")
    export.write_policy(policy.parameters, its_environment, run_dir / AGENT_FILE)
    return candidates


class Cage2Recipe:
    """See `environments.guest.ChampionRecipe`."""

    def train(self, run_dir: Path, seed: int, total_episodes: int, quiet: bool) -> float:
        """Train the agent of `recipe`."""
        seconds: float = train_recipe(recipe(seed, total_episodes), run_dir, quiet)["wall_seconds"]
        return seconds

    def choose(self, run_dir: Path, episodes: int, quiet: bool) -> Chosen:
        """Choose as `choose_champion` does. episodes: against each attacker."""
        candidates = choose_champion(run_dir, episodes, quiet)
        best = candidates[0]
        name = str(best.path.relative_to(run_dir))
        return Chosen(name, len(candidates), best.episodes)

    def agent(self, run_dir: Path) -> Path:
        """Return the run's folder, in which the agent is best.pt."""
        return run_dir

    def card(
        self, run_dir: Path, command: str, chosen: Chosen, seconds: Mapping[str, float]
    ) -> dict[str, Any]:
        """Return how the agent was made, and what it scores: see `card.read_card`."""
        return {
            "command": command,
            "config": json.loads((run_dir / "config.json").read_text()),
            "plays_with": PLAYS_WITH,
            "made_with": environment(),
            "seconds": dict(seconds),
            "selection": chosen._asdict(),
            "agent_sha256": sha256_of(run_dir / AGENT_FILE, MOST_BYTES),
            "evaluation": evaluation_of(json.loads((run_dir / "evaluation.json").read_text())),
        }
