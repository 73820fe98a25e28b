"""Choose the best of a run's agents by its score.

The episodes have their own seeds, `SeedStream.SELECTION`. Training and evaluations do not use them.
"""

import dataclasses
import functools
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from workflow_rl.agents.policies.numpy_policy import Actor, Policy
from workflow_rl.cage.playing import play
from workflow_rl.cage.selection import save_best_candidate
from workflow_rl.cage2.env.environment import Cage2
from workflow_rl.cage2.scenario2 import HORIZONS, RED_AGENTS, SCENARIO2
from workflow_rl.cage2.scoring.leaderboard import champion_score
from workflow_rl.environments.episode import EpisodeSpec, SeedStream, episode_spec
from workflow_rl.errors import UserError
from workflow_rl.evaluation.intervals import Mean, mean_of
from workflow_rl.runs.saved_agent import load_saved

ATTACKERS = RED_AGENTS[:2]
"""The red agents that attack. Against the third red agent, SleepAgent, a good agent scores 0."""

SHORT_NAMES = {"B_lineAgent": "B_line", "RedMeanderAgent": "RedMeander"}
TOGETHER = 500  # The number of episodes that are played at the same time.
EPISODES_TO_CHOOSE = 2000
MINIMUM_TO_CHOOSE = 16


def score(actor: Actor, environment: Cage2, episodes: int, seed: int = 0) -> Mean:
    """Play `episodes` episodes against each attacker of the environment. Return the sum of the
    cells' means, as the challenge does. A cell is one attacker and one length of episodes.

    Raises ValueError: see `scores_of_episodes`."""
    return mean_of(
        [
            scores_of_episodes(actor, environment, red_agent, episodes, seed).sum(axis=1)
            for red_agent in attackers(environment)
        ]
    )


def attackers(environment: Cage2) -> list[str]:
    """Return the environment's red agents that attack: ATTACKERS, and red agents of users."""
    met = [red_agent for red_agent in ATTACKERS if red_agent in environment.variants]
    return [*met, *environment.foreign]


def scores_of_episodes(
    actor: Actor, environment: Cage2, red_agent: str, episodes: int, seed: int = 0
) -> NDArray[np.float64]:
    """Return each episode's sum of rewards up to each horizon, [episodes, 3].

    The agent does not know the length of an episode, so the first 30 of 100 steps are an episode of
    30 steps. environment: the environment of the actor's training. If `environment.max_steps` is
    not the largest of HORIZONS, it is the only horizon: [episodes, 1].

    Raises ValueError if the opening is at least as long as the shortest horizon."""
    horizons = _horizons(environment)
    n_before = len(environment.opening)
    environment = environment.scored()
    if n_before >= min(horizons):
        raise ValueError(f"the opening leaves nothing of episodes of {min(horizons)} steps")
    specs = _specs(red_agent, episodes, seed)
    rewards = np.stack(
        [played.reward for played in play(environment.make_envs, actor, specs, TOGETHER)]
    )
    return np.stack([rewards[:, : length - n_before].sum(axis=1) for length in horizons], axis=1)


@functools.lru_cache(4)
def _specs(red_agent: str, episodes: int, seed: int) -> Sequence[EpisodeSpec]:
    """Return the episodes against a red agent. Every candidate plays the same episodes, so that
    differences between candidates have less noise."""
    # All red agents of users share one number, after the challenge's.
    first = [*RED_AGENTS, red_agent].index(red_agent) * 1_000_000
    return [
        episode_spec(seed, first + number, (red_agent,), SeedStream.SELECTION)
        for number in range(episodes)
    ]


def _horizons(environment: Cage2) -> tuple[int, ...]:
    return HORIZONS if environment.max_steps == max(HORIZONS) else (environment.max_steps,)


def candidate_score(path: Path, episodes: int, seed: int = 0, actions: str | None = None) -> Mean:
    """Return the score of a checkpoint: see `score`. Raises UserError.

    actions: the action set with which the agent plays, if not with training's action set. Both
    action sets must have the same size."""
    policy, environment = _blue(path)
    if actions is not None:
        environment = dataclasses.replace(environment, actions=actions)
    return score(policy, environment, episodes, seed)


def _blue(path: Path) -> tuple[Policy, Cage2]:
    policy, environment = load_saved(path)
    if not isinstance(environment, Cage2):
        raise UserError(f"{path} was not trained on CAGE-2")
    return policy, environment


def choose_best_candidate(run_path: Path, quiet: bool = True) -> str | None:
    """Save a finished run's best candidate as best.safetensors: see `save_best_candidate`.

    Return a message for the user, or None if no episodes can compare the candidates. Raises
    UserError."""
    _, environment = _blue(run_path / "checkpoint.safetensors")
    met = attackers(environment)
    if not met or len(environment.opening) >= min(_horizons(environment)):
        return None
    # With CybORG, choosing would take longer than the training.
    if not environment.all_compiled:
        return None
    # All candidates play with the run's action set, in which a champion's actions may be timed.
    played = functools.partial(candidate_score, actions=environment.actions)
    # With more than two attackers, each plays fewer episodes, so that the choice takes no longer.
    most = (EPISODES_TO_CHOOSE * len(ATTACKERS)) // max(len(ATTACKERS), len(met))
    most = max(MINIMUM_TO_CHOOSE, most)
    chosen = save_best_candidate(run_path, MINIMUM_TO_CHOOSE, most, played, quiet)
    if chosen is None:
        return None
    update, best_score = chosen
    return f"from update {update}. {_described(best_score, environment)}"


def _described(score: Mean, environment: Cage2) -> str:
    """Return a score in words. Add the champion's score if the champion has played these cells."""
    met, horizons = attackers(environment), _horizons(environment)
    names = " and ".join(SHORT_NAMES.get(red_agent, red_agent) for red_agent in met)
    n_cells = len(met) * len(horizons)
    sum_of = f"Sum of the {n_cells} {names} {'cell' if n_cells == 1 else 'cells'}"
    champion = ""
    if environment.scenario == SCENARIO2 and horizons == HORIZONS and set(met) <= set(ATTACKERS):
        total = sum(champion_score().sum_against(red_agent) for red_agent in met)
        champion = f" (the champion's sum: {total:.1f})"
    return f"{sum_of}: {score.told(1)}{champion}."
