"""Score a trained agent on its environment: seeded episodes, mean, deviation, interval, video."""

from __future__ import annotations

import dataclasses
import json
import logging
import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
import numpy as np
from prettytable import PrettyTable, TableStyle
from tqdm import tqdm

from agents.policies.archive import MOST_BYTES
from agents.policies.numpy_policy import Actor
from agents.trajectory import Trajectory
from workflow_rl.collection.parallel_env_async import AsyncParallelEnv
from workflow_rl.collection.rollout import what_is_not_finite
from workflow_rl.collection.worker_pool import WorkerPool
from workflow_rl.collection.workers import Fault, TooManyFailuresError, UnplayableError
from workflow_rl.commands.options import (
    EPISODES,
    PATH,
    PROCESSES,
    SECONDS,
    SEED,
    TRUST,
    GroupedCommand,
    under,
)
from workflow_rl.environments.environment import (
    Environment,
    InvalidEnvironmentError,
    default_env,
    guests,
)
from workflow_rl.environments.episode import EpisodeSpec, SeedStream, episode_spec
from workflow_rl.output_files import (
    read_text,
    require_writable,
    require_writable_folder,
    sha256_of,
    write_text,
)
from workflow_rl.runs.config import usable_cores

MOST_OF_SCORES = 2**28  # Bytes.
AGENT_DIGEST = "agent_sha256"
"""By this name scores keep the digest of the file that they are of."""
MOST_NAMED = 10
"""Episodes that cannot be played, in the line that says so."""


@dataclass(frozen=True)
class Evaluation:
    """The returns and lengths, in steps, of seeded episodes."""

    env: str
    seed: int
    returns: list[float]
    lengths: list[int]
    seconds: float

    @property
    def mean(self) -> float:
        """Mean return."""
        return float(np.mean(self.returns))

    @property
    def std(self) -> float:
        """Sample standard deviation of the returns; NaN for one episode."""
        return float(np.std(self.returns, ddof=1)) if len(self.returns) > 1 else math.nan

    @property
    def interval_95(self) -> float:
        """Half the width of the mean's 95% confidence interval (normal approximation)."""
        return 1.96 * self.std / math.sqrt(len(self.returns))


def evaluate_policy(
    actor: Actor,
    environment: Environment,
    episodes: int = 100,
    seed: int = 0,
    n_workers: int | None = None,
    quiet: bool = True,
    worker_timeout: float = 60.0,
) -> Evaluation:
    """Play so many episodes, spread over `n_workers` (None: one a core).

    worker_timeout: seconds, of which an episode must not take more.

    An episode depends on the seed and its number alone. Raises ValueError for fewer episodes than 1
    or a negative seed, and TooManyFailuresError:
    UnplayableError if any episode cannot be played, for the others would be the survivors, or has
    numbers that are not finite.
    """
    for name, value, least in (("episodes", episodes, 1), ("seed", seed, 0)):
        if value < least:
            raise ValueError(f"{name} is {value}: give {least} or more")
    specs = [
        episode_spec(seed, number, environment.variants, SeedStream.EVALUATION)
        for number in range(episodes)
    ]
    start = time.perf_counter()
    n_workers = min(n_workers or usable_cores(), episodes)
    with (
        WorkerPool(
            environment.make_envs, n_workers, 1, worker_timeout, preload=environment.preload
        ) as pool,
        tqdm(total=episodes, unit="ep", disable=quiet or None) as progress_bar,
    ):
        trajectories = play_with_progress(pool, actor, specs, progress_bar)
    return Evaluation(
        environment.env_id,
        seed,
        [trajectory.episode_return for trajectory in trajectories],
        [trajectory.length for trajectory in trajectories],
        time.perf_counter() - start,
    )


def play_with_progress(
    pool: WorkerPool,
    actor: Actor,
    specs: Sequence[EpisodeSpec],
    progress_bar: tqdm[Any],
    name_of: Callable[[EpisodeSpec], str] = lambda spec: str(spec.number),
) -> list[Trajectory]:
    """The trajectories of these episodes, in their order, every one of them.

    name_of: what an error calls an episode. Raises TooManyFailuresError: UnplayableError if any
    episode cannot be played, or has numbers that are not finite.
    """
    # In blocks, for the bar to move: large ones, since at the end of each some workers wait.
    collector = AsyncParallelEnv(pool)
    size = 20 * pool.n_workers
    trajectories: list[Trajectory] = []
    for first in range(0, len(specs), size):
        block = specs[first : first + size]
        try:
            rollout = collector.collect(actor, block)
        except UnplayableError:
            raise UnplayableError(_no_score(pool.faults, first + len(block), name_of)) from None
        if rollout.skipped:
            left_out = [fault for fault in pool.faults if fault.spec.number in rollout.skipped]
            raise UnplayableError(_no_score(left_out, first + len(block), name_of))
        if (problem := what_is_not_finite(rollout.trajectories)) is not None:
            raise UnplayableError(f"there is no score: {problem}")
        trajectories += rollout.trajectories
        progress_bar.update(len(block))
    return trajectories


def _no_score(faults: Iterable[Fault], n_tried: int, name_of: Callable[[EpisodeSpec], str]) -> str:
    """Why there is none, in a line. faults: of the episodes that raise exceptions."""
    what = {fault.spec: fault.what for fault in faults}
    specs = sorted(what, key=lambda spec: spec.number)
    names = ", ".join(map(name_of, specs[:MOST_NAMED])) + ", ..." * (len(specs) > MOST_NAMED)
    # An EpisodeError, and before it its cause: what is indented says where that was raised.
    raised, _, _ = what[specs[0]].rpartition("\n\nThe above exception was the direct cause")
    _, _, last = raised.rpartition("Traceback (most recent call last):\n")
    exception = next(line for line in last.splitlines() if not line.startswith(" "))
    return (
        f"there is no score: {len(specs)} of the {n_tried} episodes tried raise exceptions: "
        f"{names}. The first of them raises {exception}"
    )


def record_video(actor: Actor, environment: Environment, folder: Path, seed: int = 0) -> Path:
    """An mp4 of the evaluation's first episode. Raises InvalidEnvironmentError if there can be
    none."""
    from gymnasium.error import DependencyNotInstalled
    from gymnasium.wrappers import RecordVideo

    from workflow_rl.collection.play import play_episode
    from workflow_rl.environments.env_batch import SerialEnvs
    from workflow_rl.environments.flat_env import FlatEnv
    from workflow_rl.environments.gymnasium_env import GymnasiumEnvironment

    assert isinstance(environment, GymnasiumEnvironment)
    try:
        env = environment.make_env(render_mode="rgb_array")
        if env.render_mode != "rgb_array":
            raise ValueError("render_mode='rgb_array' has no effect")
        recorded = RecordVideo(env, str(folder), name_prefix=environment.label, disable_logger=True)
    except (DependencyNotInstalled, ModuleNotFoundError) as error:
        raise InvalidEnvironmentError("video", f"{error}: pip install '.[video]'") from None
    except Exception as error:
        raise InvalidEnvironmentError(
            "video", f"{environment.env_id} draws no pictures: {error}"
        ) from None
    spec = episode_spec(seed, 0, (), SeedStream.EVALUATION)
    envs = SerialEnvs(lambda: FlatEnv(recorded), 1)
    try:
        play_episode(envs, actor, spec)
    except Exception as error:
        raise InvalidEnvironmentError(
            "video", f"{environment.env_id} could not be drawn: {error}"
        ) from None
    finally:
        envs.close()
    return folder / f"{environment.label}-episode-0.mp4"


class DispatchingCommand(GroupedCommand):
    """The command of the environment that RUN was trained on, or of the default one without RUN."""

    def make_context(self, info_name: str | None, args: list[str], *more: Any, **extra: Any) -> Any:
        """Hands everything over to a guest's own command, where there is one."""
        env_id = _trained_env(args)
        command: click.Command | None = None
        if env_id in guests:
            command = guests[env_id].evaluate_command()
        if command is not None:
            return command.make_context(info_name, args, *more, **extra)
        return super().make_context(info_name, args, *more, **extra)

    def invoke(self, ctx: click.Context) -> Any:
        """Runs whatever command the context was made for."""
        return super().invoke(ctx) if ctx.command is self else ctx.command.invoke(ctx)


def _trained_env(args: Sequence[str]) -> str:
    """The env of the first argument that is a run folder, a checkpoint or a policy file."""
    for path in map(Path, args):
        try:
            if (path / "config.json").is_file():
                from workflow_rl.runs.folder import MOST_OF_CONFIG

                config = json.loads(read_text(path / "config.json", MOST_OF_CONFIG))
            elif path.is_file() and path.suffix == ".pt":
                from workflow_rl.runs.checkpoint import load_checkpoint

                config = load_checkpoint(path).config
            elif path.is_file() and path.suffix == ".npz":
                from agents.policies.policy_file import load_policy

                config = load_policy(path)[1]
            else:
                continue
            return str(config.get("env", default_env()))
        except (OSError, ValueError, AttributeError, RecursionError):
            continue  # Whoever reads it next says what is wrong with it.
    return default_env()


_OPTIONS: list[click.Parameter] = [
    click.Argument(["run_or_checkpoint"], type=PATH),
    *under(
        "What is scored",
        click.Option(["--which"], type=click.Choice(["best", "latest"]),
                     help="Checkpoint of a run folder.  [default: best if there is one]"),
        click.Option(["--stochastic"], is_flag=True,
                     help="Sample the policy's actions, as in training, instead of its likeliest."),
        click.Option(["--trust"], is_flag=True, help=TRUST),
    ),
    *under(
        "Episodes",
        click.Option(["--episodes"], type=EPISODES, default=100, show_default=True,
                     metavar="N", help="Episodes."),
        click.Option(["--seed"], type=SEED, default=0, show_default=True, metavar="N",
                     help="The same seed gives the same scores, whatever the number of workers."),
    ),
    *under(
        "What is written",
        click.Option(["--json", "json_path"], type=PATH, metavar="FILE",
                     help="Where to write the scores.  [default: evaluation.json in the run "
                          "folder, if its default checkpoint is scored with its likeliest "
                          "actions]"),
        click.Option(["--video"], type=PATH, metavar="FOLDER",
                     help="Record the first episode as an mp4, where the environment draws "
                          "pictures."),
        click.Option(["--quiet"], is_flag=True, help="No progress bar."),
    ),
    *under(
        "How they are played",
        click.Option(["--n-workers"], type=PROCESSES, metavar="N",
                     help="Worker processes.  [default: one a core]"),
        click.Option(["--worker-timeout"], type=SECONDS, default=60.0,
                     show_default=True, metavar="X",
                     help="Seconds within which a worker must have played an episode."),
    ),
]  # fmt: skip


@click.command(cls=DispatchingCommand, params=_OPTIONS)
def evaluate(**options: Any) -> None:
    """Score an agent on the environment it was trained on.

    RUN_OR_CHECKPOINT is a training run's folder, or a checkpoint or policy file. For CAGE-2 this
    command has other options: see its help without RUN.

    Example: evaluate runs/20261120-120000-async-CartPole-v1 --episodes 1000
    """
    from workflow_rl.runs.checkpoint import CheckpointError
    from workflow_rl.runs.saved_agent import load_player, saved_path

    logging.basicConfig(format="%(levelname)s: %(message)s")
    source = options["run_or_checkpoint"]
    if options["which"] is not None and not source.is_dir():
        raise click.UsageError(f"--which {options['which']} goes with a run folder: give one")
    json_path = options["json_path"]
    if json_path is None and source.is_dir() and not (options["which"] or options["stochastic"]):
        json_path = source / "evaluation.json"
    if json_path is not None:
        require_writable(json_path, "--json")
    if options["video"] is not None:
        require_writable_folder(options["video"], "--video")
    try:
        path = saved_path(source, options["which"])
        # Before it is loaded: a run that goes on may replace it.
        digest = sha256_of(path, MOST_BYTES)
        actor, environment = load_player(
            path, greedy=not options["stochastic"], trust=options["trust"]
        )
        environment.spaces()  # Raises what is wrong with it in one line.
        if options["video"] is not None:
            video = record_video(actor, environment, options["video"], options["seed"])
        evaluation = evaluate_policy(
            actor,
            environment,
            options["episodes"],
            options["seed"],
            options["n_workers"],
            options["quiet"],
            options["worker_timeout"],
        )
    except CheckpointError as error:
        raise click.UsageError(str(error)) from None
    except InvalidEnvironmentError as error:
        hint = "--video" if error.argument == "video" else "RUN_OR_CHECKPOINT"
        raise click.BadParameter(str(error), param_hint=hint) from None
    except TooManyFailuresError as error:
        click.echo(f"Error: {error}", err=True)
        raise SystemExit(1) from None
    actions = "sampled" if options["stochastic"] else "greedy"
    click.echo(_table(evaluation))
    click.echo(
        f"{path} ({actions} actions) on {evaluation.env}: {options['episodes']} episodes, seed "
        f"{evaluation.seed}, {evaluation.seconds:.1f} s."
    )
    if json_path is not None:
        content = {
            **dataclasses.asdict(evaluation),
            "mean": evaluation.mean,
            **{
                name: value if math.isfinite(value) else None
                for name, value in (
                    ("std", evaluation.std),
                    ("interval_95", evaluation.interval_95),
                )
            },
            "actions": actions,
            AGENT_DIGEST: digest,
        }
        write_scores(json_path, content, lambda scores: len(scores["returns"]), "episodes")
    if options["video"] is not None:
        click.echo(f"video: {video}")


def write_scores(
    path: Path,
    scores: Mapping[str, Any],
    episodes_of: Callable[[Mapping[str, Any]], int],
    unit: str,
) -> None:
    """Write them as JSON, and say so; and if they take the place of those of more episodes."""
    try:
        before = episodes_of(json.loads(read_text(path, MOST_OF_SCORES)))
    except (OSError, ValueError, LookupError, TypeError, OverflowError, RecursionError):
        before = 0
    write_text(path, json.dumps(scores, indent=2) + "\n")
    instead = f" (in the place of those of {before} {unit})"
    click.echo(f"scores: {path}{instead if before > episodes_of(scores) else ''}")


def _table(evaluation: Evaluation) -> PrettyTable:
    table = PrettyTable(["", "mean", "95%", "std", "min", "max"], align="r")
    table.set_style(TableStyle.SINGLE_BORDER)
    table.align[""] = "l"
    returns, lengths = np.array(evaluation.returns), np.array(evaluation.lengths)
    table.add_row(
        [
            "return",
            f"{evaluation.mean:.2f}",
            "" if math.isnan(evaluation.interval_95) else f"± {evaluation.interval_95:.2f}",
            "" if math.isnan(evaluation.std) else f"{evaluation.std:.2f}",
            f"{returns.min():.2f}",
            f"{returns.max():.2f}",
        ]
    )
    table.add_row(
        ["steps", f"{lengths.mean():.1f}", "", f"{lengths.std():.1f}", lengths.min(), lengths.max()]
    )
    return table
