"""A learner: one policy's agent, where its run stands, and what becomes of each of its rollouts."""

from __future__ import annotations

import dataclasses
import logging
import math
import os
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self

import numpy as np
import torch

from agents.algorithm import Agent, DivergedError, find
from agents.policies.numpy_policy import NumpyPolicy
from workflow_rl.collection.collector_thread import CollectorThread
from workflow_rl.collection.rollout import (
    Collector,
    NotFiniteError,
    Rollout,
    utilisation,
    what_is_not_finite,
)
from workflow_rl.collection.schedule import Schedule
from workflow_rl.collection.trace import LEARNER, Activity, Trace
from workflow_rl.environments.environment import guests
from workflow_rl.environments.episode import SeedStream, episode_spec
from workflow_rl.runs import memory
from workflow_rl.runs.batches import make_schedule
from workflow_rl.runs.bridge import PPOConfig
from workflow_rl.runs.checkpoint import Checkpoint, CheckpointError, TrainingState
from workflow_rl.runs.config import ConfigError, TrainConfig
from workflow_rl.runs.folder import (
    DIVERGED_FILE,
    NotWrittenError,
    RunDir,
    kept_name,
    read_metrics,
    return_columns,
)
from workflow_rl.runs.learning_curve import only_warned, plot_learning_curve
from workflow_rl.runs.run_record import N_UPDATES, weights_digest

BEST_WINDOW = 100
LATEST = "checkpoint.pt"

_log = logging.getLogger(__name__)


def make_agent(config: TrainConfig) -> Agent:
    """Return the agent that a run of this config begins with.

    Raises ConfigError for a device that is missing, and for spaces that the algorithm cannot learn
    on.
    """
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    torch.use_deterministic_algorithms(True)
    # Nothing here reads uninitialised memory.
    torch.utils.deterministic.fill_uninitialized_memory = False  # type: ignore[attr-defined]
    # Sums are split by torch's number of threads: part of what makes two runs equal.
    torch.set_num_threads(config.learner_threads)
    algorithm, spaces = find(config.algorithm), config.environment.spaces()
    device = usable_device(config.device) if "cuda" in algorithm.devices else "cpu"
    return algorithm.make(config.settings, spaces, config.seed, device, config.learner_threads)


def usable_device(device: str) -> str:
    """Return the device that "auto" stands for, or the given one. Raises ConfigError if it is
    missing."""
    if device == "cuda" and not torch.cuda.is_available():
        raise ConfigError("device", "torch finds no CUDA device here: use cpu")
    if device == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    return device


def load_agent(agent: Agent, checkpoint: Checkpoint, path: Path) -> None:
    """Give the agent a checkpoint's state. Raises CheckpointError, naming `path`."""
    try:
        agent.load_state_dict(checkpoint.agent)
    except (
        RuntimeError,
        LookupError,
        ValueError,
        TypeError,
        AttributeError,
        ArithmeticError,
    ) as error:
        reason = str(error) if type(error) is ValueError else "the networks have another shape"
        raise CheckpointError(f"{path} does not fit its config: {reason}") from None


def load_memory(agent: Agent, checkpoint: Checkpoint, run_path: Path) -> None:
    """Give the agent of a run's latest checkpoint the steps that it remembers, if it remembers any.

    Raises CheckpointError.
    """
    memories = agent.memory()
    if not memories or "replay" in checkpoint.agent:  # Earlier versions kept the steps there.
        return
    path = run_path / LATEST
    if checkpoint.memory is None:
        raise CheckpointError(
            f"{path} was saved without the steps that its agent remembers, as best.pt and those in "
            "kept are: a run cannot go on with it, but another can begin with it (--init-from)"
        )
    try:
        memory.read(run_path / memory.FOLDER, checkpoint.memory, memories)
    except OSError as error:
        raise CheckpointError(
            f"{path} needs {error.filename}, which cannot be read: {error.strerror}"
        ) from None
    except ValueError as error:
        raise CheckpointError(f"{path} cannot be gone on with: {error}") from None


def _begin_with(agent: Agent, checkpoint: Checkpoint) -> None:
    try:
        agent.load_policy(checkpoint.agent)
    except (RuntimeError, KeyError, ValueError, TypeError, AttributeError) as error:
        reasons = {RuntimeError: "its networks have another shape", ValueError: str(error)}
        missing = f"it has no {error.args[0]}" if isinstance(error, KeyError) else str(error)
        why = reasons.get(type(error), missing)
        raise CheckpointError(f"the agent of --init-from does not fit this run: {why}") from None


@dataclass(frozen=True)
class Beginning:
    """What a run begins with: a config and a folder; or a checkpoint to go on from; or the weights
    and running statistics of another run's, `init_from`."""

    config: TrainConfig
    path: Path
    resumed: Checkpoint | None = None
    init_from: Checkpoint | None = None


class Learner:
    """Learns one policy from rollouts of workers that it may share with others, and keeps its run.

    A context manager: in it the run's folder is open. Before it is entered nothing is written.

    Making one raises CheckpointError, ConfigError; entering it RunDirError; and after that
    everything NotWrittenError, with the last checkpoint kept.
    """

    schedule: Schedule
    run: RunDir

    def __init__(self, beginning: Beginning) -> None:
        self.beginning = beginning
        self.config = beginning.config
        self.path = beginning.path
        self.agent = make_agent(self.config)
        self.state = TrainingState()
        if beginning.resumed is not None:
            assert beginning.init_from is None
            load_agent(self.agent, beginning.resumed, self.path / LATEST)
            load_memory(self.agent, beginning.resumed, self.path)
            self.state = beginning.resumed.training
        elif beginning.init_from is not None:
            _begin_with(self.agent, beginning.init_from)
        self._policy: NumpyPolicy | None = None

    def __enter__(self) -> Self:
        self.run = RunDir(self.path, self.config, self.beginning.resumed)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if error is not None:
            reason = str(error) or type(error).__name__
            with suppress(NotWrittenError):
                self.run.write_summary(summarise(self.config, self.state, reason))
        self.run.close()

    def learn_from(self, thread: CollectorThread, collector: Collector, trace: Trace) -> None:
        """Say who collects its rollouts. What it was made with is saved, then."""
        self._trace = trace
        self.agent.on_modelling = lambda begins: trace.mark(
            LEARNER, Activity.MODELLING if begins else Activity.LEARNING
        )
        resumed = self.beginning.resumed
        begun = [] if resumed is None else resumed.begun
        self.schedule = make_schedule(self.config, thread, collector, self.state, begun)
        self.save()
        self.run.record_weights(self._weights(), self.beginning.init_from is not None)

    def start_clock(self) -> None:
        """Seconds count from here."""
        self._clock_start = time.perf_counter() - self.state.wall_seconds

    @property
    def policy(self) -> NumpyPolicy:
        """A copy of its present one, for the workers."""
        if self._policy is None:
            self._policy = NumpyPolicy(self.agent.policy_parameters(), self.agent.policy_version)
        return self._policy

    @property
    def progress(self) -> float:
        """Share of its run that is done, from 0 to 1."""
        return self.config.progress(self.state.episodes, self.state.env_steps)

    @property
    def position(self) -> int:
        """Episodes so far, or env steps where the run is given in steps."""
        in_steps = self.config.total_episodes is None
        return self.state.env_steps if in_steps else self.state.episodes

    def is_finished(self, last_update: int | None) -> bool:
        """Whether there is nothing left to learn from, or it has made so many updates."""
        if self.state.unlogged is not None:
            return False
        return self.progress >= 1 or self.state.updates == last_update

    def begin(self) -> None:
        """Have its next rollout collected, while others learn."""
        if self.state.unlogged is None:
            self.schedule.begin(self.policy)

    def learn_once(self, n_workers: int, may_diverge: bool = False) -> dict[str, float]:
        """One cycle: collect, learn, evaluate, log, save. Returns its row of metrics.

        may_diverge: whether an update that diverges is undone, for `state.diverged` to say so.
        """
        if self.state.unlogged is None:
            self.state.unlogged = self._update(may_diverge)
        row, config, state = self.state.unlogged, self.config, self.state
        if config.eval_every and self.agent.policy_version % config.eval_every == 0:
            self._trace.mark(LEARNER, Activity.EVALUATING)
            # If that is interrupted, a resumed run does it before anything else.
            row["eval_return_mean"] = self.evaluate()
            _pass(state, n_workers, self._passed())
        self._trace.mark(LEARNER, Activity.SAVING)
        self.run.log(row)
        state.unlogged = None
        if state.updates <= N_UPDATES:
            self.run.record_weights(self._weights())
        if _is_best(config, state, row["eval_return_mean"]):
            self.save("best.pt")
        if state.updates % config.checkpoint_every == 0:
            self.save()
        if config.keep_every and state.updates % config.keep_every == 0:
            self.save(kept_name(state.updates))
        return row

    def _update(self, may_diverge: bool) -> dict[str, float]:
        """Collect and learn. Returns the row of metrics, before any evaluation."""
        progress = self.progress
        self._trace.mark(LEARNER, Activity.WAITING)
        wait_start = time.perf_counter()
        try:
            rollout = self.schedule.next_rollout(self.policy)
        except NotFiniteError as error:
            self.run.save_batch(error.trajectories)
            raise

        self._trace.mark(LEARNER, Activity.LEARNING)
        update_start = time.perf_counter()
        before = self.agent.state_dict() if may_diverge else None
        try:
            metrics = self.agent.update(rollout.trajectories, progress)._asdict()
        except DivergedError as error:
            self.run.save_batch(rollout.trajectories)
            if before is None:
                raise
            _log.warning(
                "%s diverged in update %d: %s. It waits for the next meeting, to take over from "
                "another; the batch is in %s",
                *(self.path.name, self.state.updates + 1, error, self.path / DIVERGED_FILE),
            )
            self.agent.load_state_dict(before)
            self.state.diverged = True
            metrics = dict.fromkeys(find(self.config.algorithm).metrics, math.nan)
        self._policy = None
        update_seconds = time.perf_counter() - update_start
        seconds = Seconds(update_start - wait_start, update_seconds, self._passed())
        _advance(self.state, rollout, seconds)
        return _row(self.config, self.state, rollout, metrics, seconds)

    def evaluate(
        self, stream: SeedStream = SeedStream.VALIDATION, seed: int | None = None
    ) -> float:
        """Mean return of the greedy policy over the same episodes at every call. None of them is
        one of a final evaluation, which would otherwise score what was chosen on it.

        seed: of the episodes; None: the run's. NaN, with a warning, if any raises an exception or
        has numbers that are not finite.
        """
        policy = NumpyPolicy(self.agent.policy_parameters(), self.agent.policy_version, greedy=True)
        seed = self.config.seed if seed is None else seed
        numbers, variants = range(self.config.eval_episodes), self.config.environment.variants
        specs = [episode_spec(seed, number, variants, stream) for number in numbers]
        rollout = self.schedule.evaluate(policy, specs)
        problem = what_is_not_finite(rollout.trajectories)
        if rollout.skipped:
            problem = (
                f"{len(rollout.skipped)} of the {len(specs)} episodes of its evaluation raise "
                f"exceptions ({', '.join(map(str, sorted(rollout.skipped)))}), and the others are "
                "those that it survives"
            )
        if problem is None:
            return float(np.mean(rollout.returns))
        _log.warning(
            "%s has no score after update %d: %s", self.path.name, self.state.updates, problem
        )
        return math.nan

    def take_over(self, other: Learner) -> None:
        """All that another policy of the same networks has learned, and its recent returns."""
        self.agent.load_state_dict({**other.agent.state_dict(), "seed": self.config.seed})
        self.state.recent_returns = other.state.recent_returns.copy()
        self.state.recent_variants = other.state.recent_variants.copy()
        self.state.diverged = False
        self._policy = None
        self.run.end_record()

    def change_settings(self, ppo: PPOConfig) -> None:
        """Learn with these hyperparameters from now on."""
        if ppo == self.config.ppo:
            return
        learned = self.agent.state_dict()
        self.config = dataclasses.replace(self.config, ppo=ppo)
        self.agent = make_agent(self.config)
        self.agent.load_state_dict(learned)
        self._policy = None
        self.run.write_config(self.config)
        self.run.end_record()

    def save(self, name: str = LATEST) -> None:
        """Write a checkpoint of this name. The latest has the steps that its agent remembers."""
        begun = self.schedule.begun()
        state = self.agent.state_dict()
        checkpoint = Checkpoint(self.config.to_dict(), state, self.state, begun)
        self.run.save(name, checkpoint, self.agent.memory() if name == LATEST else None)

    def interrupt(self) -> None:
        """What a run that stops here leaves: its checkpoint and its learning curve."""
        self.save()
        self._plot()

    def finish(self, reason: str | None = None) -> dict[str, Any]:
        """Save everything; the run is finished. Returns its summary.

        reason: why it ended before, in an update that diverged: its last checkpoint is kept.
        """
        if reason is None:
            self.save()
            # Without a score the last is the best: of a run that was extended, another than before,
            # unless a guest has chosen that one, and compares it with the last.
            is_known = math.isfinite(self.state.best_score) or self.config.env in guests
            if not is_known or not (self.path / "best.pt").exists():
                self.save("best.pt")
        self._plot()
        summary = summarise(self.config, self.state, reason)
        self.run.write_summary(summary)
        return summary

    def _plot(self) -> None:
        name = "learning_curve.png"
        with only_warned(self.path / name), self.run.writing(name) as path:
            plot_learning_curve(read_metrics(self.path), path, self.config)

    def _passed(self) -> float:
        """Seconds that its state has not counted yet."""
        return time.perf_counter() - self._clock_start - self.state.wall_seconds

    def _weights(self) -> str:
        return weights_digest(self.agent.state_dict()["network"])


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
    state.slots = [(slot.episode, slot.actions) for slot in rollout.positions]
    state.skipped_episodes += rollout.skipped
    state.unfinished = list(rollout.unfinished)
    if rollout.episode_lengths:
        state.episode_length = float(np.mean(rollout.episode_lengths))
    state.recent_returns.extend(rollout.returns)
    state.recent_variants.extend(rollout.variants)


def _pass(state: TrainingState, n_workers: int, seconds: float) -> None:
    state.wall_seconds += seconds
    state.worker_seconds += n_workers * seconds


def _is_best(config: TrainConfig, state: TrainingState, eval_return: float) -> bool:
    """Whether the agent after this update scores better than all before, and if so notes it.

    The score is the evaluation's, if the run evaluates; otherwise the mean return of the last
    BEST_WINDOW training episodes, which the agents of the last updates have played. There is no
    score where episodes could not be played.
    """
    score = eval_return
    enough = len(state.recent_returns) >= BEST_WINDOW and not state.has_skipped(BEST_WINDOW)
    if not config.eval_every and enough:
        score = float(np.mean(list(state.recent_returns)[-BEST_WINDOW:]))
    if not score > state.best_score:
        return False
    state.best_score = score
    return True


def _row(
    config: TrainConfig,
    state: TrainingState,
    rollout: Rollout,
    metrics: dict[str, Any],
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
        **_return_means(config, rollout),
        "episode_length_mean": float(np.mean(rollout.episode_lengths or float("nan"))),
        **metrics,
        "eval_return_mean": float("nan"),
        "workers_restarted": rollout.workers_restarted,
        "skipped_episodes": len(rollout.skipped),
    }


def _rates(state: TrainingState) -> dict[str, float]:
    return {
        "seconds_per_update": state.wall_seconds / state.updates,
        "episodes_per_second": state.episodes / state.collect_seconds,
        "episodes_per_second_run": state.episodes / state.wall_seconds,
        "worker_utilisation": utilisation(state.busy_seconds, state.worker_seconds_collecting),
        "worker_utilisation_run": utilisation(state.busy_seconds, state.worker_seconds),
    }


def _return_means(config: TrainConfig, rollout: Rollout) -> dict[str, float]:
    """Of each variant, by its column; NaN where none of its episodes ended."""
    columns = return_columns(config)
    means = {}
    for variant, column in columns.items():
        its = [
            one for one, of in zip(rollout.returns, rollout.variants, strict=True) if of == variant
        ]
        means[column] = float(np.mean(its or float("nan")))
    return means


def summarise(
    config: TrainConfig, state: TrainingState, reason: str | None = None
) -> dict[str, Any]:
    """What a run came to. Rates and utilisation as in metrics.csv, over the whole run, but none
    before its first update. reason: why it did not come to its end."""
    return {
        "finished": reason is None,
        **({} if reason is None else {"reason": reason}),
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
        "dropped_steps": state.dropped_steps,
        **(_rates(state) if state.updates else {}),
        "return_mean_last_300": float(np.mean(state.recent_returns))
        if state.recent_returns
        else None,
        "best_score": state.best_score if np.isfinite(state.best_score) else None,
        "workers_restarted": state.workers_restarted,
        "skipped_episodes": state.skipped_episodes,
    }
