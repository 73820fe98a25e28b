"""The choice of a run's best team, by scores on episodes that are used only for this choice."""

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from workflow_rl.agents.policies.team_policy import TeamPolicy
from workflow_rl.cage.playing import play
from workflow_rl.cage.selection import save_best_candidate
from workflow_rl.cage4.env.environment import Cage4
from workflow_rl.cage4.scenario.scenario4 import COUNTED_STEPS, MAX_STEPS
from workflow_rl.environments.episode import SeedStream, episode_spec
from workflow_rl.errors import UserError
from workflow_rl.evaluation.intervals import Mean, mean_of
from workflow_rl.runs.saved_agent import load_saved

AT_ONCE = 100
LEAST_TO_CHOOSE, EPISODES_TO_CHOOSE = 20, 400
_NOT_COUNTED = MAX_STEPS - 1 - COUNTED_STEPS


def totals_of(
    team: TeamPolicy, environment: Cage4, episodes: int, seed: int = 0
) -> NDArray[np.float64]:
    """Return the total reward of each episode `[episodes]`, without the last step's reward.

    environment: the environment of the team's training.
    """
    actor = team.parameters.player()
    specs = [
        episode_spec(seed, number, environment.variants, SeedStream.SELECTION)
        for number in range(episodes)
    ]
    played = play(environment.make_envs, actor, specs, AT_ONCE)
    return np.array([trajectory.reward[:-_NOT_COUNTED].sum() for trajectory in played])


def _team_of(path: Path) -> tuple[TeamPolicy, Cage4]:
    team, environment = load_saved(path)
    if not isinstance(environment, Cage4) or not isinstance(team, TeamPolicy):
        raise UserError(f"{path} was not trained on CAGE-4")
    return team, environment


def team_score(path: Path, episodes: int, seed: int = 0) -> Mean:
    """Return the mean total reward of a checkpoint's team. Raises UserError."""
    return mean_of([totals_of(*_team_of(path), episodes, seed)])


def choose_best_candidate(run_path: Path, quiet: bool = True) -> str | None:
    """Save the best candidate of a finished run as best.safetensors: see `save_best_candidate`.

    Returns a message for the user. Returns None if the run's episodes are not the challenge's, or
    if there is only one candidate. Raises UserError.
    """
    _, environment = _team_of(run_path / "checkpoint.safetensors")
    if environment.max_steps != MAX_STEPS or not environment.steps_together:
        return None
    chosen = save_best_candidate(run_path, LEAST_TO_CHOOSE, EPISODES_TO_CHOOSE, team_score, quiet)
    if chosen is None:
        return None
    update, mean = chosen
    return f"from update {update}. Mean total reward: {mean.told(1)}."
