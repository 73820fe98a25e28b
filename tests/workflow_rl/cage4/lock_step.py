"""Two simulators of CAGE-4 in lock-step."""

from typing import Any

from workflow_rl.cage.comparison import ComparedEpisode, Difference, compare_episode
from workflow_rl.cage4.parity import Cage4Comparison, SimulatorSide
from workflow_rl.cage4.scenario.scenario4 import MAX_STEPS, RED_AGENTS


def episode_of(blue: str, red_agent: str, seed: int, steps: int = MAX_STEPS) -> ComparedEpisode:
    return ComparedEpisode(blue, red_agent, seed, steps)


def compare(
    first: Any, second: Any, episode: ComparedEpisode, state_every: int = 10
) -> tuple[int, Difference | None, str]:
    """Play an episode. Return the steps, the first difference, and the error that both raised."""
    from_outside = episode.red_agent not in RED_AGENTS
    sides = (SimulatorSide(simulator, from_outside) for simulator in (first, second))
    players = Cage4Comparison(("", "")).players(episode)
    return compare_episode(*sides, players, episode, state_every)[:3]
