"""Which of many agents is the best, with few episodes of those that are not."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path

from workflow_rl.runs.progress_bar import Progress


def tournament(
    agents: Sequence[Path], rounds: Sequence[int], score: Callable[[Path, int], float], quiet: bool
) -> list[Path]:
    """Return the agents, best first.

    In every round, the remaining ones play more episodes, and the better third goes on.

    rounds: episodes of each round. score: returns an agent's mean in so many episodes.
    """
    playing, out = list(agents), list[Path]()
    for number, episodes in enumerate(rounds, 1):
        means = dict[Path, float]()
        work = f"choosing the best agent, {episodes} episodes each"
        with Progress(quiet, len(playing), "agent", desc=work) as progress:
            for agent in playing:
                means[agent] = score(agent, episodes)
                progress.update()
        ranked = sorted(playing, key=lambda agent: -means[agent])
        n_playing = 0 if number == len(rounds) else math.ceil(len(ranked) / 3)
        playing, out = ranked[:n_playing], ranked[n_playing:] + out
    return out
