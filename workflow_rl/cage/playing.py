"""Episodes that are played in this process: for selections, reports, recordings and workflows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from workflow_rl.agents.policies.numpy_policy import Actor
from workflow_rl.agents.trajectory import Trajectory
from workflow_rl.collection.player import play_episodes
from workflow_rl.environments.env_batch import EnvBatchFactory
from workflow_rl.environments.episode import EpisodeSpec


def play(
    make_envs: EnvBatchFactory, actor: Actor, specs: Sequence[EpisodeSpec], together: int
) -> Iterator[Trajectory]:
    """Play episodes, and yield them in their order. No two of them have one number.

    together: the most that are played at once.
    """
    envs = make_envs(min(together, len(specs)))
    ended: dict[int, Trajectory] = {}
    n_yielded = 0
    try:
        for trajectories in play_episodes(envs, actor, specs):
            ended |= {trajectory.episode: trajectory for trajectory in trajectories}
            while n_yielded < len(specs) and specs[n_yielded].number in ended:
                yield ended.pop(specs[n_yielded].number)
                n_yielded += 1
    finally:
        envs.close()
