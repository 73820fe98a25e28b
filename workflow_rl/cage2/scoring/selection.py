"""Which of a run's agents is the best: scored on episodes of their own, enough to tell them apart.

Their seeds are neither those of training nor of any evaluation (`SeedStream.SELECTION`).
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray
from tqdm import tqdm

from agents.policies.numpy_policy import Actor
from workflow_rl.cage2.env.environment import Cage2
from workflow_rl.cage2.scenario2 import HORIZONS, RED_AGENTS
from workflow_rl.collection.player import play_episodes
from workflow_rl.environments.episode import SeedStream, episode_spec

if TYPE_CHECKING:
    from workflow_rl.runs.checkpoint import Checkpoint

ATTACKERS = RED_AGENTS[:2]
"""Against the third, who sleeps, every sensible agent scores 0."""

BLOCK = 500
EPISODES_TO_CHOOSE = 2000
MINIMUM_TO_CHOOSE = 16


class Score(NamedTuple):
    """The cells' means summed, as the challenge does, and the standard error of that."""

    mean: float
    error: float


def score(actor: Actor, environment: Cage2, episodes: int, seed: int = 0) -> Score:
    """Play so many episodes against each attacker of the environment: see `scores_of_episodes`."""
    sums = [
        scores_of_episodes(actor, environment, red_agent, episodes, seed).sum(axis=1)
        for red_agent in attackers(environment)
    ]
    error = math.sqrt(sum(one.var(ddof=1) / episodes for one in sums))
    return Score(float(sum(one.mean() for one in sums)), error)


def attackers(environment: Cage2) -> list[str]:
    """Those of ATTACKERS that an agent meets there."""
    return [red_agent for red_agent in ATTACKERS if red_agent in environment.variants]


def scores_of_episodes(
    actor: Actor, environment: Cage2, red_agent: str, episodes: int, seed: int = 0
) -> NDArray[np.float64]:
    """What each episode would add to each of the HORIZONS' cells, [episodes, 3].

    The agent is not told how long an episode will be, so that the first 30 steps of 100 are an
    episode of 30 steps. environment: that the actor was trained in; for episodes of another length
    than the challenge's there is one cell alone, of those. Raises ValueError for an opening that
    leaves nothing of an episode.
    """
    horizons, n_before = _horizons(environment), len(environment.opening)
    environment = dataclasses.replace(environment, simulator="compiled")
    if n_before >= min(horizons):
        raise ValueError(f"the opening leaves nothing of episodes of {min(horizons)} steps")
    # An agent is scored on the same episodes as every other: their difference has less noise.
    first = RED_AGENTS.index(red_agent) * 1_000_000
    specs = [
        episode_spec(seed, first + number, (red_agent,), SeedStream.SELECTION)
        for number in range(episodes)
    ]
    played = play_episodes(environment.make_envs(min(BLOCK, episodes)), actor, specs)
    return np.array(
        [
            [trajectory.reward[: horizon - n_before].sum() for horizon in horizons]
            for trajectories in played
            for trajectory in trajectories
        ]
    )


def _horizons(environment: Cage2) -> tuple[int, ...]:
    return HORIZONS if environment.max_steps == max(HORIZONS) else (environment.max_steps,)


class Candidate(NamedTuple):
    """A checkpoint, and its score after the last round that it was in."""

    path: Path
    episodes: int
    score: Score


def choose(
    paths: Sequence[Path],
    rounds: Sequence[int] = (500, 2_000, 8_000),
    quiet: bool = True,
    actions: str | None = None,
) -> list[Candidate]:
    """The best first. In every round those that are left play more episodes against each attacker,
    and the better third goes on.

    actions: that they play with, if not with those that they were trained with; as many of them.
    Raises CheckpointError.
    """
    from workflow_rl.runs.checkpoint import load_checkpoint
    from workflow_rl.runs.saved_agent import policy_of

    left, out = list(paths), list[Candidate]()
    for number, episodes in enumerate(rounds):
        ranked = []
        for path in tqdm(
            left, desc=f"{episodes} episodes each", unit="agent", disable=quiet or None
        ):
            checkpoint = load_checkpoint(path)
            environment = _cage2(checkpoint, path)
            if actions is not None:
                environment = dataclasses.replace(environment, actions=actions)
            ranked.append(
                Candidate(path, episodes, score(policy_of(checkpoint, path), environment, episodes))
            )
        ranked.sort(key=lambda candidate: -candidate.score.mean)
        n_left = 0 if number == len(rounds) - 1 else math.ceil(len(ranked) / 3)
        left, out = [candidate.path for candidate in ranked[:n_left]], ranked[n_left:] + out
    return out


def _cage2(checkpoint: Checkpoint, path: Path) -> Cage2:
    from workflow_rl.runs.checkpoint import CheckpointError
    from workflow_rl.runs.saved_agent import saved_environment

    environment = saved_environment(checkpoint, path)
    if not isinstance(environment, Cage2):
        raise CheckpointError(f"{path} was not trained on CAGE-2")
    return environment


def choose_best(run_path: Path, quiet: bool = True) -> str | None:
    """Make best.pt of a finished run the best of its candidates: the one that its training returns
    suggest, the last, and what --keep-every kept of the last half.

    Returns what to tell the user; None if there is nothing to choose by. Raises CheckpointError.
    """
    from workflow_rl.runs.checkpoint import load_checkpoint, save_checkpoint

    last = load_checkpoint(run_path / "checkpoint.pt")
    environment = _cage2(last, run_path)
    if not attackers(environment) or len(environment.opening) >= min(_horizons(environment)):
        return None
    half = last.training.updates / 2
    paths = [run_path / "checkpoint.pt", run_path / "best.pt", *sorted(run_path.glob("kept/*.pt"))]
    by_update = {
        updates: path
        for path in reversed(paths)
        if (updates := load_checkpoint(path).training.updates) >= half or path.name == "best.pt"
    }
    if len(by_update) == 1:
        return None
    most = min(EPISODES_TO_CHOOSE, max(MINIMUM_TO_CHOOSE, last.training.episodes // 2))
    rounds = [most] if len(by_update) < 4 else [most // 4, most]
    # All as the run plays: best.pt of a champion's folder plays by a clock besides.
    best = choose(list(by_update.values()), rounds, quiet, environment.actions)[0]
    updates = load_checkpoint(best.path).training.updates
    save_checkpoint(run_path / "best.pt", load_checkpoint(best.path))
    return (
        f"update {updates}, of {len(by_update)} candidates: {best.score.mean:.2f} ± "
        f"{1.96 * best.score.error:.2f}, the sum of {len(_horizons(environment))} x "
        f"{len(attackers(environment))} cells, in {best.episodes} episodes each"
    )
