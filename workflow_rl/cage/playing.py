"""Play episodes for scores, selections, reports, recordings and workflows."""

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from workflow_rl.agents.policies.numpy_policy import Actor
from workflow_rl.agents.trajectory import Trajectory
from workflow_rl.collection.local_pool import LocalPool
from workflow_rl.collection.player import play_episodes
from workflow_rl.environments.env_batch import EnvBatchFactory
from workflow_rl.environments.episode import EpisodeSpec
from workflow_rl.evaluation.evaluate import play_with_progress
from workflow_rl.progress_bar import Progress


class Workers(NamedTuple):
    """The workers that play in place of this process. Each worker plays one episode at a time.

    most: the largest number of workers. timeout: seconds for which a worker may be silent, see
    `Pool`. preload: see `Cage2.preload`. name_of: returns an episode's name for error messages."""

    most: int
    timeout: float
    preload: str
    progress: Progress
    name_of: Callable[[EpisodeSpec], str]


def play(
    make_envs: EnvBatchFactory,
    actor: Actor,
    specs: Sequence[EpisodeSpec],
    together: int = 1,
    workers: Workers | None = None,
) -> Iterator[Trajectory]:
    """Play episodes, and yield them in the order of `specs`, whose numbers all differ.

    together: the largest number of episodes that this process plays at once. workers: if given,
    the workers play all episodes. Raises TooManyFailuresError if the workers fail too often."""
    if workers is not None:
        n_used = min(workers.most, len(specs))
        with LocalPool(make_envs, n_used, 1, workers.timeout, preload=workers.preload) as pool:
            yield from play_with_progress(pool, actor, specs, workers.progress, workers.name_of)
        return
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
