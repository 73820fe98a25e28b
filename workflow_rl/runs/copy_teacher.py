"""Have a new agent copy a teacher before it learns: a scripted agent, or one that was trained."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

from workflow_rl.agents.algorithm import DivergedError, LearningAgent
from workflow_rl.agents.policies.actors import Advised
from workflow_rl.agents.policies.numpy_policy import Actor
from workflow_rl.agents.spaces import Spaces
from workflow_rl.agents.trajectory import Trajectory
from workflow_rl.collection.failures import StopRequested, TooManyFailuresError
from workflow_rl.collection.pool import AnyPool
from workflow_rl.environments.env_batch import EnvBatchFactory
from workflow_rl.environments.environment import Environment
from workflow_rl.environments.episode import SeedStream
from workflow_rl.environments.source import guests
from workflow_rl.errors import ConfigError, StoppedAtOnce, UserError, message_of
from workflow_rl.output_files import MOST_OF_LONG_RECORD, NOT_OURS, read_json, sha256_of
from workflow_rl.progress_bar import Progress
from workflow_rl.runs.config import TrainConfig
from workflow_rl.runs.make_schedule import episode_specs
from workflow_rl.runs.saved_agent import load_saved, saved_path
from workflow_rl.teaching.episode_files import (
    Recorded,
    dataset_named,
    holds_episodes,
    plain_spaces,
    read_episodes,
)
from workflow_rl.teaching.teachers import (
    Teacher,
    agreement_in_words,
    plays_on,
    returns_of,
    teaching_episodes,
)

TEACHER_FILE = "teacher.json"
HELD_OUT = 0.1
"""The share of the teacher's episodes that nothing is learned from."""
MOST_SCORED = 100
"""The most episodes that the copy plays, which only tell how good it is."""

MakePool: TypeAlias = Callable[[EnvBatchFactory], AnyPool]


def teacher_of(config: TrainConfig) -> Teacher | Recorded:
    """Return the teacher that a config names, or the episodes in a file. Raises ConfigError.

    Nothing is imported or called that only the teacher's file names.
    """
    if not config.teacher:
        raise ConfigError("teacher", "'' names no agent")
    if holds_episodes(path := Path(config.teacher)):
        return _recorded(path, config.environment.spaces(), config)
    return teacher_named(config.teacher, config.environment)


def teacher_named(name: str, environment: Environment) -> Teacher:
    """Return the agent of a name or path as it plays in an environment. Raises ConfigError."""
    spaces, guest = environment.spaces(), guests.get(environment.env_id)
    try:
        make_envs = None if guest is None else guest.teaching(name, environment)
        if make_envs is not None:
            return Teacher(make_envs, Advised(spaces))
        policy, of_teacher = load_saved(Path(name))
    except (ConfigError, UserError) as error:
        raise ConfigError("teacher", message_of(error)) from None
    if not plays_on(policy, spaces):
        raise ConfigError(
            "teacher",
            f"{name}, of {of_teacher.env_id}, plays with other observations or actions than this "
            "run's, or its critic sees other numbers",
        )
    return Teacher(environment.make_envs, policy)


def _recorded(path: Path, spaces: Spaces, config: TrainConfig) -> Recorded:
    """Return the episodes in a file. Raises ConfigError, also if they show or choose other things
    than the run does."""
    try:
        recorded = read_episodes(path)
    except (OSError, ValueError) as error:
        raise ConfigError("teacher", str(error)) from None
    shown = guests[config.env].shown if config.env in guests else ()
    pairs = [
        *((n, recorded.about[n], config.named_env_args[n]) for n in shown if n in recorded.about),
        *((n, recorded.spaces.get(n), ours) for n, ours in plain_spaces(spaces).items()),
    ]
    for name, theirs, ours in pairs:
        if theirs != ours:
            raise ConfigError(
                "teacher",
                f"{path} has {name} {theirs!s:.80}, and this run has {ours!s:.80}: record the "
                "episodes with this run's environment and its options",
            )
    if len(recorded.trajectories) < 2:
        raise ConfigError("teacher", f"{path} holds 1 episode: record 2 or more")
    return recorded


def digest_of(teacher: str) -> str | None:
    """Return the SHA-256 of the file of a teacher that is named by a path, or None."""
    path = Path(teacher)
    if (dataset := dataset_named(path)) is not None:
        from workflow_rl.teaching import minari_datasets

        return minari_datasets.digest_of_dataset(dataset)
    return sha256_of(saved_path(path)) if path.exists() else None


def require_same_teacher(run: Path, teacher: str) -> None:
    """Raise ValueError if the teacher's file is not the one that the run in a folder copied."""
    try:
        copied = read_json(run / TEACHER_FILE, MOST_OF_LONG_RECORD)["sha256"]
    except NOT_OURS:
        raise ValueError(f"its {TEACHER_FILE} cannot be read") from None
    if copied != digest_of(teacher):
        raise ValueError(f"its teacher {teacher} is not there any more, or has changed")


def copy_teacher(
    config: TrainConfig,
    agent: LearningAgent,
    make_pool: MakePool,
    watch: Callable[[Any], Any],
    quiet: bool,
) -> dict[str, Any]:
    """Have a new agent copy the config's teacher. Return plain values that say how well it does.

    The same config gives the same weights, whatever the number of workers.

    Args:
        config: with a teacher.
        agent: new, of this config.
        make_pool: returns workers, not started yet, for what makes their envs.
        watch: see `loop.train_together`.
        quiet: show no progress bars.

    Raises:
        ConfigError: the teacher cannot be copied.
        DivergedError: a loss is not finite.
        StoppedAtOnce: the run was asked to stop. Nothing is kept.
    """
    assert config.teacher is not None
    teacher, sha256 = teacher_of(config), digest_of(config.teacher)
    numbers, make_envs = range(config.teacher_episodes), config.environment.make_envs
    rows: list[dict[str, float | None]] = []
    try:
        if isinstance(teacher, Recorded):
            taught = teacher.trajectories
            last = max(trajectory.episode for trajectory in taught)
            numbers = range(max(config.teacher_episodes, last + 1))
        else:
            with watch(pool := make_pool(teacher.make_envs)):
                taught = episodes_of(config, teacher.actor, pool, numbers, quiet)
        n_held_out = math.ceil(HELD_OUT * len(taught))
        epochs = agent.copy(taught[:-n_held_out], taught[-n_held_out:], config.teacher_epochs)
        with watch(pool := make_pool(make_envs)):
            with Progress(quiet, config.teacher_epochs, "epoch", desc="copying") as bar:
                for metrics in epochs:
                    row = metrics._asdict().items()
                    rows.append({name: None if math.isnan(x) else x for name, x in row})
                    bar.show(len(rows), f"agreement {agreement_in_words(rows[-1]['agreement'])}")
                    if pool.stop_signal is not None:
                        raise StopRequested(pool.stop_signal)
            if not rows:
                raise ConfigError("teacher", f"{config.teacher} decides nothing in its episodes")
            copy = agent.policy_parameters().actor(greedy=config.play != "sampled")
            others = range(numbers.stop, numbers.stop + min(len(taught), MOST_SCORED))
            scored = episodes_of(config, copy, pool, others, quiet, "the copy")
    except StopRequested as stop:
        raise StoppedAtOnce(stop.signal_number) from None
    except DivergedError as error:
        raise DivergedError(f"{error}, while it copied {config.teacher}") from None
    except TooManyFailuresError as error:
        raise ConfigError("teacher", f"{config.teacher} cannot be copied: {error}") from None
    return {
        "teacher": config.teacher,
        "sha256": sha256,
        **returns_of(taught),
        **rows[-1],
        "copy": returns_of(scored),
        "epochs": rows,
    }


def episodes_of(
    config: TrainConfig,
    actor: Actor,
    pool: AnyPool,
    numbers: range,
    quiet: bool,
    who: str = "the teacher",
) -> list[Trajectory]:
    """Return episodes of a config's stream for teachers: see `teaching_episodes`."""
    specs = episode_specs(config, numbers, SeedStream.TEACHING)
    return teaching_episodes(
        *(actor, pool, specs, config.n_envs, config.envs_per_worker, quiet, who)
    )
