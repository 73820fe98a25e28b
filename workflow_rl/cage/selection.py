"""Find the best of many agents, with few episodes for the weaker agents."""

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeAlias

from workflow_rl.evaluation.intervals import Mean
from workflow_rl.progress_bar import Progress
from workflow_rl.runs.checkpoint import save_checkpoint
from workflow_rl.runs.read_checkpoint import load_checkpoint

Score: TypeAlias = Callable[[Path, int, int], Mean]
"""Plays a number of episodes with a checkpoint and a seed. Returns the mean, raises UserError."""
FRESH_SEED = 1
"""The seed of the episodes that score the chosen agent. The agent was chosen with seed 0."""


def tournament(
    agents: Sequence[Path], rounds: Sequence[int], score: Score, quiet: bool = True
) -> list[Path]:
    """Return the agents, best first.

    rounds: for each round, how many episodes every remaining agent plays. The better third of these
    agents goes on to the next round."""
    playing = list(agents)
    out = list[Path]()
    for number, episodes in enumerate(rounds, 1):
        means = dict[Path, float]()
        work = f"choosing the best agent, {episodes} episodes each"
        with Progress(quiet, len(playing), "agent", desc=work) as progress:
            for agent in playing:
                means[agent] = score(agent, episodes, 0).mean
                progress.update()
        ranked = sorted(playing, key=lambda agent: -means[agent])
        n_playing = 0 if number == len(rounds) else math.ceil(len(ranked) / 3)
        # Agents that leave in a later round are better, so they come first.
        out = ranked[n_playing:] + out
        playing = ranked[:n_playing]
    return out


def save_best_candidate(
    run_path: Path, least: int, most: int, score: Score, quiet: bool = True
) -> tuple[int, Mean] | None:
    """Write the best candidate of a finished run to best.safetensors: see `eligible_agents`.

    In the last round, each agent plays half as many episodes as the training, but at least `least`
    and at most `most`. Returns the best agent's number of updates and its score in fresh episodes.
    Returns None if the run has only one candidate."""
    paths = eligible_agents(run_path)
    if len(paths) == 1:
        return None
    trained = load_checkpoint(run_path / "checkpoint.safetensors").training.episodes
    episodes = min(most, max(least, trained // 2))
    rounds = [episodes] if len(paths) < 4 else [episodes // 4, episodes]
    path = tournament(paths, rounds, score, quiet)[0]
    best = load_checkpoint(path)
    # The best of several is partly lucky in the episodes that chose it.
    fresh = score(path, episodes, FRESH_SEED)
    save_checkpoint(run_path / "best.safetensors", best)
    return best.training.updates, fresh


def eligible_agents(run_dir: Path) -> list[Path]:
    """Return the checkpoints that may be the best of a finished run, each agent once.

    These are the agent with the best returns in training and the last agent. The agents that
    --keep-every kept in the second half of the training come with them. Raises UserError."""
    half = load_checkpoint(run_dir / "checkpoint.safetensors").training.updates / 2
    paths = [
        run_dir / "checkpoint.safetensors",
        run_dir / "best.safetensors",
        *sorted(run_dir.glob("kept/*.safetensors")),
    ]
    by_update = dict[int, Path]()
    # If several files hold one agent, the file that is first in `paths` stays.
    for path in reversed(paths):
        updates = load_checkpoint(path).training.updates
        if updates >= half or path.name == "best.safetensors":
            by_update[updates] = path
    return list(by_update.values())
