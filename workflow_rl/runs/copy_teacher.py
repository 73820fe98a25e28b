"""Before a new agent learns, train it to copy a teacher, which is a scripted or a trained agent.
Also record the episodes that a teacher plays."""

import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeAlias

from workflow_rl.agents.algorithm import DivergedError, LearningAgent
from workflow_rl.agents.policies.actors import Advised
from workflow_rl.agents.policies.numpy_policy import Actor
from workflow_rl.agents.spaces import Spaces
from workflow_rl.agents.trajectory import Trajectory
from workflow_rl.collection import try_in_worker
from workflow_rl.collection.messages import StopRequested, TooManyFailuresError
from workflow_rl.collection.pool import AnyPool
from workflow_rl.environments.env_batch import EnvBatchFactory
from workflow_rl.environments.environment import Environment
from workflow_rl.environments.episode import SeedStream
from workflow_rl.environments.source import default_env, fields_of, guests, played_by
from workflow_rl.errors import ConfigError, UserError, message_of
from workflow_rl.output_files import MOST_OF_LONG_RECORD, NOT_OURS, read_json, sha256_of
from workflow_rl.progress_bar import Progress
from workflow_rl.runs.config import TrainConfig
from workflow_rl.runs.make_schedule import episode_specs, make_pool
from workflow_rl.runs.saved_agent import load_saved, saved_path
from workflow_rl.teaching.episode_files import (
    Recorded,
    dataset_named,
    holds_episodes,
    plain_spaces,
    read_episodes,
    require_replaceable,
    write_episodes,
)
from workflow_rl.teaching.teachers import (
    Teacher,
    actor_of,
    agreement_in_words,
    plays_on,
    returns_of,
    spaces_of,
    teaching_episodes,
)

TEACHER_FILE = "teacher.json"
HELD_OUT = 0.1
"""The share of the teacher's episodes that the agent does not learn from."""
MOST_SCORED = 100
"""The most episodes that the copy plays, to find its mean return."""

MakePool: TypeAlias = Callable[[EnvBatchFactory], AnyPool]


def teacher_of(config: TrainConfig) -> Teacher | Recorded:
    """Return the teacher that a config names, or the episodes in a file. Raises ConfigError.

    A module that is named only inside the teacher's file is never imported or called.
    """
    if not config.teacher:
        raise ConfigError("teacher", "'' names no agent")
    if holds_episodes(path := Path(config.teacher)):
        return _recorded(path, config.environment.spaces(), config)
    return teacher_named(config.teacher, config.environment)


def teacher_named(name: str, environment: Environment) -> Teacher:
    """Return the teacher with this name or path, for this environment. Raises ConfigError."""
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
    """Return a file's episodes. Raises ConfigError, also if their spaces differ from the run's."""
    try:
        recorded = read_episodes(path)
    except (OSError, ValueError) as error:
        raise ConfigError("teacher", str(error)) from None
    shown = guests[config.env].shown if config.env in guests else ()
    compared = [name for name in shown if name in recorded.about]
    pairs = [(name, recorded.about[name], config.named_env_args[name]) for name in compared]
    pairs += [(key, recorded.spaces.get(key), ours) for key, ours in plain_spaces(spaces).items()]
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
    """Return the SHA-256 of a teacher's file; None if the teacher is not named by a path."""
    path = Path(teacher)
    if (dataset := dataset_named(path)) is not None:
        from workflow_rl.teaching import minari_datasets

        return minari_datasets.digest_of_dataset(dataset)
    return sha256_of(saved_path(path)) if path.exists() else None


def require_same_teacher(run: Path, teacher: str) -> None:
    """Raise ValueError if the teacher's file is not the file that the run in a folder copied."""
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
    """Train a new agent to copy the config's teacher. Return plain values about the copy's quality.

    One config gives the same weights with any number of workers.

    Args:
        make_pool: takes a factory of envs, and returns a pool that is not started.
        watch: see `loop.train_together`.

    Raises:
        ConfigError: the teacher cannot be copied.
        DivergedError: a loss is not finite.
        KeyboardInterrupt: the run was asked to stop. Nothing is saved.
    """
    assert config.teacher is not None
    teacher = teacher_of(config)
    sha256 = digest_of(config.teacher)
    numbers = range(config.teacher_episodes)
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
        with watch(pool := make_pool(config.environment.make_envs)):
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
            next_numbers = range(numbers.stop, numbers.stop + min(len(taught), MOST_SCORED))
            scored = episodes_of(config, copy, pool, next_numbers, quiet, "the copy")
    except StopRequested as stop:
        raise KeyboardInterrupt(stop.signal_number) from None
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
    return teaching_episodes(actor, pool, specs, config.n_envs, config.envs_per_worker, quiet, who)


FEWEST_ENVS = 8


def written_episodes(
    agent: str | Callable[..., Any],
    file: Path,
    episodes: int,
    env: str | Callable[..., Any] | None = None,
    env_args: Mapping[str, Any] = {},
    seed: int = 0,
    n_workers: int | None = None,
    quiet: bool = True,
    worker_timeout: float = 60.0,
    env_python: str | None = None,
    ignore_unknown: bool | None = None,
) -> Recorded:
    """Write and return episodes that an agent plays. Arguments and errors: see `api.record`."""
    require_replaceable(file)
    fields = _environment(agent, env, env_args, env_python, ignore_unknown)
    fields |= {"worker_timeout": worker_timeout}
    if isinstance(agent, str):
        fields |= {"teacher": agent}
    else:  # If a user's function raises an exception, another worker would not help.
        fields |= {"max_worker_failures": 0}
    n_envs = max(FEWEST_ENVS, n_workers or 0)
    config = TrainConfig("async", n_envs, n_workers=n_workers, seed=seed, **fields)
    environment = config.environment
    try_in_worker.learn_facts(environment, worker_timeout, plays=True)
    declared, dataset = environment.spaces(), dataset_named(file)
    if dataset is not None and declared.team is not None:
        raise UserError(
            f"{file}: a dataset of Minari's holds episodes of one agent: give an .npz file"
        )
    if isinstance(agent, str):
        teacher = teacher_of(config)
        assert isinstance(teacher, Teacher)
    else:
        teacher = Teacher(environment.make_envs, actor_of(agent, environment))
    pool = make_pool(config, None, teacher.make_envs)
    trajectories = episodes_of(config, teacher.actor, pool, range(episodes), quiet, "the agent")
    if len(trajectories) < episodes:
        faults = [fault.what for fault in pool.faults]
        why = f", the first of them {faults[0]}" if faults else ""
        n_left_out = episodes - len(trajectories)
        raise TooManyFailuresError(f"{n_left_out} of the {episodes} episodes raise exceptions{why}")
    name = agent if isinstance(agent, str) else _named(agent)
    about = {"agent": name, "env": config.env, **config.named_env_args, "seed": seed}
    recorded = Recorded(trajectories, plain_spaces(declared), about)
    if dataset is None:
        write_episodes(file, recorded)
    else:
        from workflow_rl.teaching import minari_datasets

        seen_and_done = spaces_of(environment)
        spec = minari_datasets.spec_of(environment, config.env_args)
        minari_datasets.write_dataset(
            dataset, trajectories, about, declared.obs_dim, *seen_and_done, spec
        )
    return recorded


def _named(function: Callable[..., Any]) -> str:
    name = getattr(function, "__qualname__", type(function).__qualname__)
    return f"{function.__module__}:{name}"


def _environment(
    agent: str | Callable[..., Any],
    env: str | Callable[..., Any] | None,
    env_args: Mapping[str, Any],
    env_python: str | None,
    ignore_unknown: bool | None,
) -> dict[str, Any]:
    """Return the fields of a config that name the environment, with the given arguments. Without a
    given `env`, this is the environment of the agent's file."""
    given: dict[str, Any] = {"ignore_unknown": ignore_unknown, "env_python": env_python}
    given = {name: value for name, value in given.items() if value is not None}
    if isinstance(agent, str):
        path = Path(agent)
        if holds_episodes(path):
            raise ConfigError("teacher", f"{agent} holds recorded episodes: give an agent")
        if path.exists() or (env is None and guests.bringing("released", agent)):
            trained_on = load_saved(path).environment
            if env in (None, trained_on.env_id):
                fields = fields_of(played_by(trained_on, env_python))
                return {**fields, "env_args": {**fields["env_args"], **env_args}, **given}
    if env is None or isinstance(env, str):
        return {"env": env or default_env(), "env_args": dict(env_args), **given}
    return {"env": _named(env), "env_args": dict(env_args), "make_env": env, **given}
