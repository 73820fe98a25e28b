"""Which of a run's agents is the best: scored on episodes of their own, enough to tell them apart.

Their seeds are neither those of training nor of any evaluation (`SeedStream.SELECTION`).
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from tqdm import tqdm

from agents.numpy_policy import Actor
from workflow_rl.cage2.environment import Cage2
from workflow_rl.cage2.scenario2 import HORIZONS, RED_AGENTS
from workflow_rl.collection.episode import SeedStream, episode_spec
from workflow_rl.collection.play import play_episodes

ATTACKERS = RED_AGENTS[:2]
"""Against the third, who sleeps, every sensible agent scores 0."""

BLOCK = 500


class Score(NamedTuple):
    """The cells' means summed, as the challenge does, and the standard error of that."""

    mean: float
    error: float


def score(actor: Actor, environment: Cage2, episodes: int, seed: int = 0) -> Score:
    """Play so many episodes against each attacker: see `scores_of_episodes`."""
    sums = [
        scores_of_episodes(actor, environment, red_agent, episodes, seed).sum(axis=1)
        for red_agent in ATTACKERS
    ]
    error = math.sqrt(sum(one.var(ddof=1) / episodes for one in sums))
    return Score(float(sum(one.mean() for one in sums)), error)


def scores_of_episodes(
    actor: Actor, environment: Cage2, red_agent: str, episodes: int, seed: int = 0
) -> NDArray[np.float64]:
    """What each episode would add to each of the HORIZONS' cells, [episodes, 3].

    The agent is not told how long an episode will be, so that the first 30 steps of 100 are an
    episode of 30 steps. environment: that the actor was trained in. Raises ValueError for an
    opening as long as that.
    """
    environment = dataclasses.replace(environment, simulator="compiled", max_steps=max(HORIZONS))
    n_before = len(environment.opening)
    if n_before >= min(HORIZONS):
        raise ValueError(f"the opening leaves nothing of episodes of {min(HORIZONS)} steps")
    # An agent is scored on the same episodes as every other: their difference has less noise.
    first = RED_AGENTS.index(red_agent) * 1_000_000
    specs = [
        episode_spec(seed, first + number, (red_agent,), SeedStream.SELECTION)
        for number in range(episodes)
    ]
    played = play_episodes(environment.make_envs(min(BLOCK, episodes)), actor, specs)
    return np.array(
        [
            [trajectory.reward[: horizon - n_before].sum() for horizon in HORIZONS]
            for trajectories in played
            for trajectory in trajectories
        ]
    )


class Candidate(NamedTuple):
    """A checkpoint, and its score after the last round that it was in."""

    path: Path
    episodes: int
    score: Score


def choose(
    paths: Sequence[Path], rounds: Sequence[int] = (500, 2_000, 8_000), quiet: bool = True
) -> list[Candidate]:
    """The best first. In every round those that are left play more episodes against each attacker,
    and the better third goes on. Raises CheckpointError."""
    from workflow_rl.training.checkpoint import load_checkpoint
    from workflow_rl.training.saved_agent import policy_of, saved_environment

    left, out = list(paths), list[Candidate]()
    for number, episodes in enumerate(rounds):
        ranked = []
        for path in tqdm(left, desc=f"{episodes} episodes each", unit="agent", disable=quiet):
            checkpoint = load_checkpoint(path)
            environment = saved_environment(checkpoint, path)
            assert isinstance(environment, Cage2)
            ranked.append(
                Candidate(path, episodes, score(policy_of(checkpoint, path), environment, episodes))
            )
        ranked.sort(key=lambda candidate: -candidate.score.mean)
        n_left = 0 if number == len(rounds) - 1 else math.ceil(len(ranked) / 3)
        left, out = [candidate.path for candidate in ranked[:n_left]], ranked[n_left:] + out
    return out
