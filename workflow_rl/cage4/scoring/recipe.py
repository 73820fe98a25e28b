"""The recipe of CAGE Challenge 4's champion: the preset's run, a choice, and a card."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from workflow_rl.agents.policies.archive import MOST_BYTES
from workflow_rl.cage.recipe import last_agents, train_recipe
from workflow_rl.cage4.scoring.selection import ranked_teams
from workflow_rl.environments.guest import Chosen
from workflow_rl.output_files import sha256_of
from workflow_rl.runs.checkpoint import load_checkpoint, save_checkpoint
from workflow_rl.runs.config import TrainConfig
from workflow_rl.runs.export import write_policy
from workflow_rl.runs.machine import environment
from workflow_rl.runs.saved_agent import load_saved

PRESET = "cage4-champion"
AGENT_FILE = "champion.npz"
N_CANDIDATES = 12


class Cage4Recipe:
    """See `environments.guest.ChampionRecipe`."""

    def train(self, run_dir: Path, seed: int, total_episodes: int, quiet: bool) -> float:
        """Train the team of the preset."""
        config = TrainConfig("async", preset=PRESET, seed=seed, total_episodes=total_episodes)
        seconds: float = train_recipe(config, run_dir, quiet)["wall_seconds"]
        return seconds

    def choose(self, run_dir: Path, episodes: int, quiet: bool) -> Chosen:
        """Make the best of the last agents best.pt and AGENT_FILE."""
        paths = last_agents(run_dir, N_CANDIDATES)
        rounds = [max(2, n) for n in (episodes // 4, episodes)]
        best = ranked_teams(paths, rounds, quiet)[0]
        save_checkpoint(run_dir / "best.pt", load_checkpoint(best))
        policy, trained_on = load_saved(run_dir / "best.pt")
        write_policy(policy.parameters, trained_on, run_dir / AGENT_FILE)
        return Chosen(str(best.relative_to(run_dir)), len(paths), rounds[-1])

    def agent(self, run_dir: Path) -> Path:
        """Return the run's folder, in which the agent is best.pt."""
        return run_dir

    def card(
        self, run_dir: Path, command: str, chosen: Chosen, seconds: Mapping[str, float]
    ) -> dict[str, Any]:
        """Return how the agent was made, and what it scores."""
        evaluation = json.loads((run_dir / "evaluation.json").read_text())
        return {
            "command": command,
            "config": json.loads((run_dir / "config.json").read_text()),
            "made_with": environment(),
            "seconds": dict(seconds),
            "selection": chosen._asdict(),
            "agent_sha256": sha256_of(run_dir / AGENT_FILE, MOST_BYTES),
            "evaluation": evaluation,
        }
