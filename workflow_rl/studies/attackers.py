"""The attackers that an environment brings: those that were written by hand play against frozen
agents, and new attackers begin as copies of the worst."""

import itertools
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from workflow_rl.agents.policies.numpy_policy import Actor
from workflow_rl.collection.local_pool import LocalPool
from workflow_rl.environments.challenge import NOTHING
from workflow_rl.environments.env_batch import EnvBatchFactory
from workflow_rl.environments.environment import Environment
from workflow_rl.environments.episode import EpisodeSpec, SeedStream, episode_spec
from workflow_rl.environments.source import guests
from workflow_rl.evaluation.evaluate import play_with_progress
from workflow_rl.evaluation.intervals import mean_of
from workflow_rl.progress_bar import Progress
from workflow_rl.runs.config import TrainConfig
from workflow_rl.runs.copy_teacher import teacher_named
from workflow_rl.runs.loop import stopped_by_signals

EPISODES_TOGETHER = 16
"""The number of episodes that a worker plays at once, if one forward pass serves several envs."""
N_STARTS = 2
"""The number of known attackers that new attackers copy."""
STEPS_COPIED, EPISODES_COPIED = 15_000, (10, 100)
"""The number of steps of a known attacker that a new attacker copies, and the fewest and the most
episodes."""


class PlayingAttacker(NamedTuple):
    """An attacker that plays. name: the name of its run or file, or the environment's name for the
    attacker. about: further values for `exploit.json`. mean: its mean return in the episodes that
    choose."""

    name: str
    make_envs: EnvBatchFactory
    actor: Actor
    about: Mapping[str, Any] = NOTHING
    mean: float = 0.0


def names_by_hand(env: str) -> Sequence[str]:
    """Return the names of the attackers that were written by hand for an environment's id."""
    return guests[env].by_hand() if env in guests else ()


def by_hand(environment: Environment) -> list[PlayingAttacker]:
    """Return the attackers that were written by hand for an environment."""
    names = names_by_hand(environment.env_id)
    return [PlayingAttacker(name, *teacher_named(name, environment)) for name in names]


def worst_first(
    config: TrainConfig, attackers: Sequence[PlayingAttacker], episodes: int, quiet: bool = True
) -> list[PlayingAttacker]:
    """Return attackers with their mean returns in the episodes that choose, the worst first. If an
    attacker acts in two ways, return the worse way. Raises the errors of `played`.

    config: the config of a training of new attackers. Its environment, seed and workers are used.
    """
    returns = attackers_returns(config, attackers, SeedStream.SELECTION, episodes, quiet)
    worse: dict[str, PlayingAttacker] = {}
    for of, got in zip(attackers, returns, strict=True):
        mean = mean_of([got]).mean
        if of.name not in worse or mean > worse[of.name].mean:
            worse[of.name] = of._replace(mean=mean)
    return sorted(worse.values(), key=lambda of: of.mean, reverse=True)


def attackers_returns(
    config: TrainConfig,
    attackers: Sequence[PlayingAttacker],
    stream: SeedStream,
    episodes: int,
    quiet: bool = True,
) -> list[list[float]]:
    """Return the returns of each attacker in the same episodes: see `worst_first`."""
    returns, environment = [], config.environment
    specs = [episode_spec(config.seed, n, environment.variants, stream) for n in range(episodes)]
    for make_envs, group in itertools.groupby(attackers, key=lambda of: of.make_envs):
        wanted = [(of.actor, specs) for of in group]
        returns += played(environment, wanted, config, quiet, make_envs)
    return returns


def beginnings(
    config: TrainConfig, known: Sequence[PlayingAttacker], number: int
) -> list[Mapping[str, Any]]:
    """Return the changes of the config for each of the new attackers.

    The first new attacker begins as a copy of the worst known attacker, the second as a copy of the
    second worst, the third untrained, and so on. known: the worst first. number: of new attackers.
    """
    starts: list[Mapping[str, Any]] = [NOTHING]
    if config.plug_in.takes_teachers:
        steps = config.environment.episode_steps or 1
        n_episodes = min(EPISODES_COPIED[1], max(EPISODES_COPIED[0], STEPS_COPIED // steps))
        copied = [{"teacher": of.name, "teacher_episodes": n_episodes} for of in known[:N_STARTS]]
        starts = [*copied, NOTHING]
    return [*itertools.islice(itertools.cycle(starts), number)]


def played(
    environment: Environment,
    wanted: Sequence[tuple[Actor, Sequence[EpisodeSpec]]],
    config: TrainConfig,
    quiet: bool = True,
    make_envs: EnvBatchFactory | None = None,
) -> list[list[float]]:
    """Return the returns of each actor's episodes. One pool with the config's workers plays them.

    make_envs: makes the envs, if they are not the environment's own. Raises StopRequested, and
    TooManyFailuresError, also for an episode that cannot be played.
    """
    if environment.env_id in guests:
        environment.check()  # This compiles the simulator, so that the workers load it from disk.
    together = EPISODES_TOGETHER if environment.plays_together else 1
    pool = LocalPool(
        make_envs or environment.make_envs, config.n_workers, together, config.worker_timeout,
        preload=environment.preload,
    )  # fmt: skip
    total = sum(len(specs) for _, specs in wanted)
    with stopped_by_signals(), pool, Progress(quiet, total, "ep") as bar:
        trajectories = [
            play_with_progress(pool, actor, specs, bar, together=together)
            for actor, specs in wanted
        ]
    return [[trajectory.episode_return for trajectory in of] for of in trajectories]
