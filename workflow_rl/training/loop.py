"""The training loop that both trainers share: collect, learn, log, save."""

from __future__ import annotations

import contextlib
import functools
import logging
import math
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import torch
from tqdm import tqdm
from tqdm.contrib.logging import logging_redirect_tqdm

from agents.numpy_policy import NumpyPolicy
from agents.ppo import DivergedError, PPOAgent, UpdateMetrics
from workflow_rl.collection.episode import SeedStream
from workflow_rl.collection.parallel_env import ParallelEnv
from workflow_rl.collection.parallel_env_async import AsyncParallelEnv
from workflow_rl.collection.rollout import Collector, NotFiniteError, Rollout, utilisation
from workflow_rl.collection.schedule import Schedule
from workflow_rl.collection.trace import LEARNER, Activity, Trace
from workflow_rl.collection.worker_pool import WorkerPool
from workflow_rl.collection.workers import StopRequested, TooManyFailuresError
from workflow_rl.training.batches import episode_specs, make_schedule
from workflow_rl.training.checkpoint import Checkpoint, CheckpointError, TrainingState
from workflow_rl.training.config import ConfigError, TrainConfig
from workflow_rl.training.learning_curve import plot_learning_curve
from workflow_rl.training.run_dir import RunDir, kept_name, read_metrics
from workflow_rl.training.run_record import N_UPDATES, weights_digest

BEST_WINDOW = 100

MakeCollector: TypeAlias = Callable[[WorkerPool, TrainConfig], Collector]

_log = logging.getLogger(__name__)


def make_agent(config: TrainConfig) -> PPOAgent:
    """The agent a run of this config begins with. Raises ConfigError if its device is missing."""
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    torch.use_deterministic_algorithms(True)
    # Nothing here reads uninitialised memory.
    torch.utils.deterministic.fill_uninitialized_memory = False  # type: ignore[attr-defined]
    device = usable_device(config.device)
    two_threads = config.learner_threads > 1 and device == "cpu"
    # Sums are split by torch's number of threads: part of what makes two runs equal. Actor and
    # critic have half of them each.
    torch.set_num_threads(config.learner_threads // 2 if two_threads else config.learner_threads)
    return PPOAgent(
        config.ppo,
        *config.environment.spaces(),
        config.seed,
        device,
        two_threads=two_threads,
    )


def usable_device(device: str) -> str:
    """The device behind "auto", or the given one. Raises ConfigError if it is missing."""
    if device == "cuda" and not torch.cuda.is_available():
        raise ConfigError("device", "torch finds no CUDA device here: use cpu")
    if device == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    return device


def load_agent(agent: PPOAgent, checkpoint: Checkpoint, path: Path) -> None:
    """Give the agent a checkpoint's state. Raises CheckpointError, naming `path`."""
    try:
        agent.load_state_dict(checkpoint.agent)
    except (RuntimeError, KeyError, ValueError, TypeError, AttributeError, IndexError):
        raise CheckpointError(
            f"{path} does not fit its config: the networks have another shape"
        ) from None


def _begin_with(agent: PPOAgent, checkpoint: Checkpoint) -> None:
    try:
        agent.load_policy(checkpoint.agent)
    except (RuntimeError, KeyError, ValueError, TypeError, AttributeError) as error:
        reasons = {RuntimeError: "its networks have another shape", ValueError: str(error)}
        missing = f"it has no {error.args[0]}" if isinstance(error, KeyError) else str(error)
        why = reasons.get(type(error), missing)
        raise CheckpointError(f"the agent of --init-from does not fit this run: {why}") from None


def make_pool(config: TrainConfig, trace: Trace | None = None) -> WorkerPool:
    """The workers of a run of this config, not started yet."""
    environment = config.environment
    # One will do where asynchronous workers play one episode at a time.
    one_env = (
        config.mode == "async"
        and not environment.plays_together
        and config.num_steps_per_env is None
    )
    return WorkerPool(
        environment.make_envs,
        config.n_workers,
        1 if one_env else config.envs_per_worker,
        config.worker_timeout,
        config.max_worker_failures,
        environment.preload,
        [config.slow_worker_ms / 1000]
        * math.ceil(round(config.slow_worker_share * config.n_workers, 6)),
        trace,
    )


def make_collector(pool: WorkerPool, config: TrainConfig) -> Collector:
    """The one thing in which the synchronous and the asynchronous trainer differ."""
    if config.mode == "sync":
        # Steps all envs together: one batched forward pass, then a barrier, at every step.
        return ParallelEnv(pool, config.n_envs)
    # Hands out episodes to idle workers, at most `envs_per_worker` at a time.
    return AsyncParallelEnv(pool, config.envs_per_worker)


def train(
    config: TrainConfig,
    run_path: Path,
    resumed: Checkpoint | None = None,
    init_from: Checkpoint | None = None,
    quiet: bool = False,
    trace_path: Path | None = None,
    watch: Callable[[WorkerPool], AbstractContextManager[Any]] = contextlib.nullcontext,
    collector_of: MakeCollector = make_collector,
    last_update: int | None = None,
) -> dict[str, Any]:
    """Run or resume a training run, and return its summary.

    init_from: whose weights and running statistics a new run begins with. trace_path: file for a
    record of what its workers and its learner do when. watch: entered with the pool for as long as
    the run lasts; it may stop the run, as `stopped_by_signals` does. last_update: after which it
    ends, however long its config has it.

    Raises StopRequested, TooManyFailuresError and NotFiniteError once a checkpoint has been saved,
    RunDirError and CheckpointError before anything has been, NotWrittenError with the last
    checkpoint kept, and DivergedError with the batch beside it.
    """
    agent = make_agent(config)
    state = TrainingState()
    if resumed is not None:
        load_agent(agent, resumed, run_path / "checkpoint.pt")
        state = resumed.training
    elif init_from is not None:
        _begin_with(agent, init_from)
    with (
        RunDir(run_path, config, resumed) as run,
        Trace(trace_path, config.to_dict()) as trace,
        logging_redirect_tqdm(),
    ):
        pool = make_pool(config, trace)
        schedule = make_schedule(
            config,
            pool,
            collector_of(pool, config),
            state,
            resumed.begun if resumed else [],
        )
        save = functools.partial(_save, run, config, agent, state, schedule)
        save("checkpoint.pt")
        run.record_weights(_weights(agent), init_from is not None)
        with watch(pool):
            try:
                with pool, schedule, _progress_bar(config, state, quiet) as bar:
                    _loop(config, agent, state, schedule, pool, run, bar, save, last_update)
            except (StopRequested, TooManyFailuresError, NotFiniteError):
                save("checkpoint.pt")
                _plot(run)
                raise
            save("checkpoint.pt")
            if not (run_path / "best.pt").exists():
                save("best.pt")
            _plot(run)
            summary = summarise(config, state)
            run.write_summary(summary)
            return summary


def _loop(
    config: TrainConfig,
    agent: PPOAgent,
    state: TrainingState,
    schedule: Schedule,
    pool: WorkerPool,
    run: RunDir,
    bar: tqdm[Any],
    save: Callable[[str], None],
    last_update: int | None,
) -> None:
    clock_start = time.perf_counter() - state.wall_seconds

    def passed() -> float:
        return time.perf_counter() - clock_start - state.wall_seconds

    while state.unlogged or (
        config.progress(state.episodes, state.env_steps) < 1 and state.updates != last_update
    ):
        if state.unlogged is None:
            pool.raise_if_stopped()
            state.unlogged = _update(config, agent, state, schedule, pool, run, passed)
        row = state.unlogged
        if config.eval_every and agent.policy_version % config.eval_every == 0:
            pool.trace.mark(LEARNER, Activity.EVALUATING)
            # If that is interrupted, a resumed run does it before anything else.
            row["eval_return_mean"] = _evaluate(config, agent, schedule)
            _pass(state, pool.n_workers, passed())
        pool.trace.mark(LEARNER, Activity.SAVING)
        run.log(row)
        state.unlogged = None
        if state.updates <= N_UPDATES:
            run.record_weights(_weights(agent))
        if _is_best(config, state, row["eval_return_mean"]):
            save("best.pt")
        if state.updates % config.checkpoint_every == 0:
            save("checkpoint.pt")
        if config.keep_every and state.updates % config.keep_every == 0:
            save(kept_name(state.updates))
        bar.set_postfix(_postfix(config, row), refresh=False)
        bar.update(_done(config, state) - bar.n)


def _update(
    config: TrainConfig,
    agent: PPOAgent,
    state: TrainingState,
    schedule: Schedule,
    pool: WorkerPool,
    run: RunDir,
    passed: Callable[[], float],
) -> dict[str, float]:
    """Collect and learn once. passed: seconds that `state` has not counted yet. Returns its row of
    metrics, before any evaluation."""
    progress = config.progress(state.episodes, state.env_steps)
    pool.trace.mark(LEARNER, Activity.WAITING)
    policy = NumpyPolicy(agent.policy_parameters(), agent.policy_version)
    wait_start = time.perf_counter()
    rollout = schedule.next_rollout(policy)

    pool.trace.mark(LEARNER, Activity.LEARNING)
    update_start = time.perf_counter()
    try:
        metrics = agent.update(rollout.trajectories, progress)
    except DivergedError:
        run.save_batch(rollout.trajectories)
        raise
    update_seconds = time.perf_counter() - update_start
    seconds = Seconds(update_start - wait_start, update_seconds, passed())
    _advance(state, rollout, seconds)
    return _row(config, state, rollout, metrics, seconds)


def _weights(agent: PPOAgent) -> str:
    return weights_digest(agent.state_dict()["network"])


def _save(
    run: RunDir,
    config: TrainConfig,
    agent: PPOAgent,
    state: TrainingState,
    schedule: Schedule,
    name: str,
) -> None:
    run.save(name, Checkpoint(config.to_dict(), agent.state_dict(), state, schedule.begun()))


def _plot(run: RunDir) -> None:
    with run.writing("learning_curve.png") as path:
        plot_learning_curve(read_metrics(run.path), path)


class Seconds(NamedTuple):
    """Of one update: the learner's wait for its rollout, its learning, and all in all, but for an
    evaluation after it."""

    waiting: float
    learning: float
    total: float


def _advance(state: TrainingState, rollout: Rollout, seconds: Seconds) -> None:
    state.updates += 1
    state.worker_seconds_collecting += rollout.worker_seconds
    _pass(state, rollout.n_workers, seconds.total)
    state.episodes += rollout.episodes
    state.env_steps += rollout.env_steps
    state.dropped_steps += rollout.dropped_steps
    state.collect_seconds += rollout.collect_seconds
    state.update_seconds += seconds.learning
    state.learner_idle_seconds += seconds.waiting
    state.busy_seconds += rollout.busy_seconds
    state.workers_restarted += rollout.workers_restarted
    state.slots = [(slot.episode, slot.actions) for slot in rollout.slots]
    state.skipped_episodes += rollout.skipped
    state.unfinished = list(rollout.unfinished)
    if rollout.episode_lengths:
        state.episode_length = float(np.mean(rollout.episode_lengths))
    state.recent_returns.extend(rollout.returns)


def _pass(state: TrainingState, n_workers: int, seconds: float) -> None:
    state.wall_seconds += seconds
    state.worker_seconds += n_workers * seconds


def _evaluate(config: TrainConfig, agent: PPOAgent, schedule: Schedule) -> float:
    """Mean return of the greedy policy over the run's evaluation episodes, always the same."""
    policy = NumpyPolicy(agent.policy_parameters(), agent.policy_version, greedy=True)
    specs = episode_specs(config, range(config.eval_episodes), SeedStream.EVALUATION)
    return float(np.mean(schedule.evaluate(policy, specs).returns))


def _is_best(config: TrainConfig, state: TrainingState, eval_return: float) -> bool:
    """Whether the agent after this update scores better than all before, and if so notes it.

    The score is the evaluation's, if the run evaluates; otherwise the mean return of the last
    BEST_WINDOW training episodes, which the agents of the last updates have played.
    """
    score = eval_return
    if not config.eval_every and len(state.recent_returns) >= BEST_WINDOW:
        score = float(np.mean(list(state.recent_returns)[-BEST_WINDOW:]))
    if not score > state.best_score:
        return False
    state.best_score = score
    return True


def _row(
    config: TrainConfig,
    state: TrainingState,
    rollout: Rollout,
    metrics: UpdateMetrics,
    seconds: Seconds,
) -> dict[str, float]:
    returns = rollout.returns or [float("nan")]
    return {
        "update": state.updates,
        "episodes": state.episodes,
        "env_steps": state.env_steps,
        "wall_seconds": state.wall_seconds,
        "collect_seconds": rollout.collect_seconds,
        "update_seconds": seconds.learning,
        "learner_idle_seconds": seconds.waiting,
        "worker_idle_seconds": max(0, rollout.n_workers * seconds.total - rollout.busy_seconds),
        "seconds_per_update": seconds.total,
        "eps": rollout.n_unrolls(config.num_steps_per_env) / seconds.total,
        "episodes_per_second": rollout.episodes / rollout.collect_seconds,
        "env_steps_per_second": rollout.env_steps / rollout.collect_seconds,
        "worker_utilisation": rollout.utilisation,
        "worker_utilisation_run": utilisation(state.busy_seconds, state.worker_seconds),
        "dropped_steps": rollout.dropped_steps,
        "queue_length": rollout.queue_length,
        "return_mean": float(np.mean(returns)),
        "return_std": float(np.std(returns)),
        "episode_length_mean": float(np.mean(rollout.episode_lengths or float("nan"))),
        **metrics._asdict(),
        "eval_return_mean": float("nan"),
        "workers_restarted": rollout.workers_restarted,
        "skipped_episodes": len(rollout.skipped),
    }


def summarise(config: TrainConfig, state: TrainingState) -> dict[str, Any]:
    """What a finished run came to. Rates and utilisation as in metrics.csv, over the whole run."""
    return {
        "mode": config.mode,
        "env": config.env,
        **config.named_env_args,
        "seed": config.seed,
        "n_envs": config.n_envs,
        "n_workers": config.n_workers,
        "envs_per_worker": config.envs_per_worker,
        "updates": state.updates,
        "episodes": state.episodes,
        "env_steps": state.env_steps,
        "wall_seconds": state.wall_seconds,
        "collect_seconds": state.collect_seconds,
        "update_seconds": state.update_seconds,
        "learner_idle_seconds": state.learner_idle_seconds,
        "seconds_per_update": state.wall_seconds / state.updates,
        "dropped_steps": state.dropped_steps,
        "episodes_per_second": state.episodes / state.collect_seconds,
        "episodes_per_second_run": state.episodes / state.wall_seconds,
        "worker_utilisation": utilisation(state.busy_seconds, state.worker_seconds_collecting),
        "worker_utilisation_run": utilisation(state.busy_seconds, state.worker_seconds),
        "return_mean_last_300": float(np.mean(state.recent_returns))
        if state.recent_returns
        else None,
        "best_score": state.best_score if np.isfinite(state.best_score) else None,
        "workers_restarted": state.workers_restarted,
        "skipped_episodes": state.skipped_episodes,
    }


def _done(config: TrainConfig, state: TrainingState) -> int:
    """What the progress bar counts: episodes, or steps where the run is given in steps."""
    if config.total_episodes is not None:
        return min(state.episodes, config.total_episodes)
    assert config.total_steps is not None
    return min(state.env_steps, config.total_steps)


def _progress_bar(config: TrainConfig, state: TrainingState, quiet: bool) -> tqdm[Any]:
    in_episodes = config.total_episodes is not None
    return tqdm(
        total=config.total_episodes if in_episodes else config.total_steps,
        initial=_done(config, state),
        desc=f"{config.mode} {config.environment.label}",
        unit="ep" if in_episodes else "step",
        unit_scale=not in_episodes,
        disable=quiet,
        dynamic_ncols=True,
        mininterval=0.1 if sys.stderr.isatty() else 10.0,  # Seconds: a log file wants few lines.
    )


def _postfix(config: TrainConfig, row: dict[str, float]) -> dict[str, str]:
    if config.total_episodes is not None:
        count = {"ep/s": f"{row['episodes_per_second']:.1f}", "steps": f"{row['env_steps']:,}"}
    else:
        count = {"step/s": f"{row['env_steps_per_second']:.0f}", "ep": f"{row['episodes']:,}"}
    return {
        "return": f"{row['return_mean']:.1f}",
        **count,
        "utilisation": f"{row['worker_utilisation']:.0%}",
    }


@contextlib.contextmanager
def stopped_by_signals(pool: WorkerPool) -> Iterator[None]:
    """The first Ctrl-C or SIGTERM asks the pool to stop; a second one stops at once.

    The signal's number is then in `pool.stop_signal`.
    """

    def stop(number: int, frame: FrameType | None) -> None:
        if pool.stop_signal is not None:
            raise KeyboardInterrupt
        pool.stop_signal = number
        _log.warning("stopping: a checkpoint is being saved (Ctrl-C again stops at once)")

    numbers = (signal.SIGINT, signal.SIGTERM)
    before = {number: signal.signal(number, stop) for number in numbers}
    try:
        yield
    finally:
        for number, action in before.items():
            signal.signal(number, action)
