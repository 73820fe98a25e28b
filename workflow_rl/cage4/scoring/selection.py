"""Which of a run's teams is the best, by scores on episodes that serve nothing else."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from workflow_rl.agents.policies.team_policy import TeamPolicy
from workflow_rl.cage.playing import play
from workflow_rl.cage.recipe import eligible_agents
from workflow_rl.cage.tournament import tournament
from workflow_rl.cage4.env.environment import Cage4
from workflow_rl.cage4.scenario.scenario4 import COUNTED_STEPS, MAX_STEPS
from workflow_rl.environments.episode import SeedStream, episode_spec
from workflow_rl.runs.checkpoint import CheckpointError, load_checkpoint, save_checkpoint
from workflow_rl.runs.intervals import mean_of
from workflow_rl.runs.saved_agent import policy_of, saved_environment

AT_ONCE = 100
LEAST_TO_CHOOSE, EPISODES_TO_CHOOSE = 20, 400
FRESH_SEED = 1
"""Of the episodes that score what those of seed 0 chose."""
_NOT_COUNTED = MAX_STEPS - 1 - COUNTED_STEPS


def totals_of(
    team: TeamPolicy, environment: Cage4, episodes: int, seed: int = 0
) -> NDArray[np.float64]:
    """Return the total reward of each episode `[episodes]`, whose last step does not count.

    environment: the one that the team learned in.
    """
    actor = team.parameters.player()
    specs = [
        episode_spec(seed, number, environment.variants, SeedStream.SELECTION)
        for number in range(episodes)
    ]
    played = play(environment.make_envs, actor, specs, AT_ONCE)
    return np.array([trajectory.reward[:-_NOT_COUNTED].sum() for trajectory in played])


def _team_of(path: Path) -> tuple[TeamPolicy, Cage4]:
    checkpoint = load_checkpoint(path)
    environment = saved_environment(checkpoint, path)
    team = policy_of(checkpoint, path)
    if not isinstance(environment, Cage4) or not isinstance(team, TeamPolicy):
        raise CheckpointError(f"{path} was not trained on CAGE-4")
    return team, environment


def ranked_teams(paths: list[Path], rounds: list[int], quiet: bool = True) -> list[Path]:
    """Return checkpoints, the best first: see `tournament`. Raises CheckpointError."""

    def mean_total(path: Path, episodes: int) -> float:
        return float(totals_of(*_team_of(path), episodes).mean())

    return tournament(paths, rounds, mean_total, quiet)


def choose_best_candidate(run_path: Path, quiet: bool = True) -> str | None:
    """Make best.pt of a finished run the best of its candidates.

    For the candidates see `cage.recipe`. Returns what to tell the user; None if there is nothing to
    choose by. Raises CheckpointError.
    """
    path, paths = run_path / "checkpoint.pt", eligible_agents(run_path)
    _, environment = _team_of(path)
    if len(paths) == 1 or environment.max_steps != MAX_STEPS or not environment.steps_together:
        return None
    played = load_checkpoint(path).training.episodes
    most = min(EPISODES_TO_CHOOSE, max(LEAST_TO_CHOOSE, played // 2))
    rounds = [most] if len(paths) < 4 else [most // 4, most]
    best = load_checkpoint(ranked_teams(paths, rounds, quiet)[0])
    save_checkpoint(run_path / "best.pt", best)
    # The best of several is partly lucky in the episodes that chose it.
    fresh = totals_of(*_team_of(run_path / "best.pt"), most, FRESH_SEED)
    return f"from update {best.training.updates}. Mean total reward: {mean_of([fresh]).told(1)}."
