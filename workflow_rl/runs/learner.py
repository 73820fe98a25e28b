"""Make an agent, learn its policy from rollouts, and write its run's folder."""

from __future__ import annotations

import logging
import math
import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, TypeAlias

import numpy as np
import torch

from workflow_rl.agents.algorithm import DivergedError, LearningAgent
from workflow_rl.agents.policies.numpy_policy import Policy
from workflow_rl.agents.policies.torch_layers import set_threads
from workflow_rl.agents.settings import Settings
from workflow_rl.agents.spaces import Spaces
from workflow_rl.collection import try_in_worker
from workflow_rl.collection.rollout import Collector, outweighing, what_is_not_finite
from workflow_rl.collection.schedule import CollectorThread, Schedule
from workflow_rl.collection.trace import LEARNER, Activity, Trace
from workflow_rl.environments.episode import SeedStream, episode_spec
from workflow_rl.environments.source import guests
from workflow_rl.errors import ConfigError, ObservationError, UserError
from workflow_rl.evaluation.intervals import by_kind, mean_of
from workflow_rl.output_files import write_json
from workflow_rl.runs.checkpoint import LATEST, Checkpoint
from workflow_rl.runs.config import TrainConfig
from workflow_rl.runs.folder import (
    DIVERGED_FILE,
    N_UPDATES,
    kept_name,
    read_metrics,
    weights_digest,
)
from workflow_rl.runs.make_schedule import make_schedule
from workflow_rl.runs.metrics import row_of, summarise
from workflow_rl.runs.return_curves import Metrics
from workflow_rl.runs.run_dir import NotWrittenError, RunDir
from workflow_rl.runs.training_state import Seconds, TrainingState
from workflow_rl.terminal import fitting, shortened

if TYPE_CHECKING:
    from workflow_rl.evaluation.measures import Kept
    from workflow_rl.runs.copy_teacher import MakePool
    from workflow_rl.runs.on_update import OnUpdate

BEST_WINDOW = 100
NO_RETURN = 1e-6
"""Smaller sums of rewards count as 0."""

Draw: TypeAlias = Callable[[Metrics, Path, TrainConfig], None]
"""Draws a run's learning curve into a file. Raises OSError."""

_log = logging.getLogger(__name__)


class Learner:
    """Learns one policy from rollouts of workers, and writes its run. Learners may share workers.

    First, `make_agent` makes the agent. Then the learner is entered as a context manager, which
    opens the run's folder. Nothing is written before.

    path: the run's folder. resumed: the checkpoint to continue from, or None. init_from: another
    run's checkpoint, whose weights and running statistics the run takes over, or None. draw: draws
    the run's learning curve when the run ends or stops. on_update: see `on_update`.

    The start of the context raises UserError. After that, all methods can raise NotWrittenError,
    and the last checkpoint remains.
    """

    agent: LearningAgent
    schedule: Schedule
    run: RunDir
    copied: dict[str, Any] | None = None
    """The quality of the agent's copy of a teacher: see `copy_teacher.copy_teacher`."""
    is_learning = False
    """Whether an update has begun and not ended. Then the agent cannot be saved."""
    stopped: str | None = None
    """Why the run ends before its config's end, or None."""

    def __init__(
        self,
        config: TrainConfig,
        path: Path,
        resumed: Checkpoint | None = None,
        init_from: Checkpoint | None = None,
        draw: Draw | None = None,
        on_update: OnUpdate | None = None,
    ) -> None:
        assert resumed is None or init_from is None
        self.config, self.path = config, path
        self._resumed, self._init_from = resumed, init_from
        self._draw, self._on_update = draw, on_update
        self.state = TrainingState() if resumed is None else resumed.training
        self._policy: Policy | None = None
        self._has_warned = False

    def make_agent(self, make_pool: MakePool, watch: Callable[[Any], Any], quiet: bool) -> None:
        """Make the agent with its first weights: new weights, a copy of a teacher, another run's
        weights, or the weights of the checkpoint to continue from. Nothing is written.

        make_pool, watch, quiet: see `copy_teacher.copy_teacher`. Raises UserError, ConfigError, and
        the errors of `copy_teacher`.
        """
        self.agent = make_agent(self.config)
        if self._resumed is not None:
            from workflow_rl.runs.read_checkpoint import load_memory, restored_agent

            restored_agent(self.agent, self._resumed, self.path / LATEST)
            load_memory(self.agent, self._resumed, self.path)
            self.stopped = _enough(self.config, self.state, self.state.best_score)
        elif self._init_from is not None:
            from workflow_rl.runs.read_checkpoint import begin_with

            begin_with(self.agent, self._init_from, self.config)
        elif self.config.teacher is not None:
            from workflow_rl.runs.copy_teacher import copy_teacher

            self.copied = copy_teacher(self.config, self.agent, make_pool, watch, quiet)

    def __enter__(self) -> Self:
        self.run = RunDir(self.path, self.config, self._resumed)
        return self

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        if error is not None:
            reason = shortened(str(error)) or type(error).__name__
            with suppress(NotWrittenError):
                self.run.write_summary(summarise(self.config, self.state, reason))
        self.run.close()

    def learn_from(self, thread: CollectorThread, collector: Collector, trace: Trace) -> None:
        """Attach the collector, then save the starting checkpoint."""
        self._trace = trace
        self.agent.on_modelling = lambda begins: trace.mark(
            LEARNER, Activity.MODELLING if begins else Activity.LEARNING
        )
        begun = [] if self._resumed is None else self._resumed.begun
        self.schedule = make_schedule(self.config, thread, collector, self.state, begun)
        self.save()
        self._have_best_play()
        if self.copied is not None:
            from workflow_rl.runs.copy_teacher import TEACHER_FILE

            with self.run.writing(TEACHER_FILE) as path:
                write_json(path, self.copied)
        self.run.record_weights(self._weights(), init_from=self._init_from is not None)

    def _have_best_play(self) -> None:
        """If a resumed run changes `play`, change how the best agent so far plays."""
        if self._resumed is None or self._resumed.config.get("play") == self.config.play:
            return
        from workflow_rl.runs.saved_agent import save_with

        with suppress(UserError), self.run.writing("best.safetensors") as best:
            save_with(best, best, play=self.config.play)

    def start_clock(self) -> None:
        """Count the run's seconds from now on."""
        self._clock_start = time.perf_counter() - self.state.wall_seconds

    @property
    def policy(self) -> Policy:
        """The policy's NumPy copy for workers."""
        if self._policy is None:
            self._policy = self.agent.policy_parameters().actor(self.agent.policy_version)
        return self._policy

    def player(self) -> Policy:
        """Return a copy of the policy that plays as the agent will play after the training."""
        parameters = self.agent.policy_parameters()
        return parameters.actor(self.agent.policy_version, greedy=self.config.play != "sampled")

    @property
    def progress(self) -> float:
        """The completed share of the run, from 0 to 1."""
        return self.config.progress(self.state.episodes, self.state.env_steps)

    @property
    def position(self) -> int:
        """The number of episodes so far, or of env steps if the run's end is given in steps."""
        in_steps = self.config.total_episodes is None
        return self.state.env_steps if in_steps else self.state.episodes

    def is_finished(self, last_update: int | None) -> bool:
        """Return whether the run has reached its end, was stopped, or has made the last update."""
        if self.state.unlogged is not None:
            return False
        return self.progress >= 1 or self.state.updates == last_update or self.stopped is not None

    def begin(self) -> None:
        """Let workers begin the next rollout while other policies learn."""
        if self.state.unlogged is None:
            self.schedule.begin(self.policy)

    def learn_once(self, may_diverge: bool = False) -> dict[str, float]:
        """Collect, learn, evaluate, log and save. Return the update's row of metrics.

        may_diverge: whether to undo an update that diverges, and set `state.diverged`.
        """
        if self.state.unlogged is None:
            self.state.unlogged = self._update(may_diverge)
            self.is_learning = False
        row, config, state = self.state.unlogged, self.config, self.state
        if config.eval_every and self.agent.policy_version % config.eval_every == 0:
            self._trace.mark(LEARNER, Activity.EVALUATING)
            # If the evaluation is interrupted, a resumed run begins with this evaluation.
            row["eval_return_mean"] = self.evaluate()
            state.wall_seconds += self._passed()
        self._trace.mark(LEARNER, Activity.SAVING)
        self.run.log(row)
        state.unlogged = None
        if state.updates <= N_UPDATES:
            self.run.record_weights(self._weights())
        score = _score(config, state, row["eval_return_mean"])
        if score > state.best_score:
            state.best_score, state.best_update = score, state.updates
            self.save("best.safetensors")
        self.stopped = _enough(config, state, score)
        if state.updates % config.checkpoint_every == 0:
            self.save()
        if config.keep_every and state.updates % config.keep_every == 0:
            self.save(kept_name(state.updates))
        if self._on_update is not None:
            from workflow_rl.runs.on_update import seen_by_user

            self._on_update(seen_by_user(self, row))
        return row

    def _update(self, may_diverge: bool) -> dict[str, float]:
        """Collect and learn. Return the row of metrics without an evaluation."""
        progress = self.progress
        self._trace.mark(LEARNER, Activity.WAITING)
        wait_start = time.perf_counter()
        with self._keeping_batch():
            rollout = self.schedule.next_rollout(self.policy)
        self._warn_once(outweighing(rollout.trajectories))

        self._trace.mark(LEARNER, Activity.LEARNING)
        self.is_learning = True
        update_start = time.perf_counter()
        before = self.agent.state_dict() if may_diverge else None
        try:
            measured = self.agent.update(rollout.trajectories, progress)._asdict()
            # Checkpoints cannot hold NumPy's numbers.
            metrics = {
                name: value.item() if isinstance(value, np.generic) else value
                for name, value in measured.items()
            }
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
            metrics = dict.fromkeys(self.config.plug_in.metrics, math.nan)
        self._policy = None
        update_seconds = time.perf_counter() - update_start
        seconds = Seconds(update_start - wait_start, update_seconds, self._passed())
        self.state.advance(rollout, seconds)
        return row_of(self.config, self.state, rollout, metrics, seconds)

    def evaluate(
        self, stream: SeedStream = SeedStream.VALIDATION, seed: int | None = None
    ) -> float:
        """Return the mean return over the episodes of a stream, which are equal in every call. A
        variant's weight is its share of draws. The policy plays as after the training.

        A final evaluation uses another stream, because these episodes chose the best agent. Returns
        NaN, with a warning, if an episode raises an exception or has numbers that are not finite.

        stream, seed: the stream of episodes and its seed; None: the run's seed.
        """
        policy = self.player()
        seed = self.config.seed if seed is None else seed
        numbers, variants = range(self.config.eval_episodes), self.config.environment.variants
        specs = [episode_spec(seed, number, variants, stream) for number in numbers]
        with self._keeping_batch():  # The evaluation waits for a rollout, which may have an error.
            rollout = self.schedule.evaluate(policy, specs)
        self._warn_once(outweighing(rollout.trajectories))
        self.state.evaluated_costs = rollout.episode_costs
        problem = what_is_not_finite(rollout.trajectories)
        if rollout.skipped:
            problem = (
                f"{len(rollout.skipped)} of the {len(specs)} episodes of its evaluation raise "
                f"exceptions ({', '.join(map(str, sorted(rollout.skipped)))}), and the others are "
                "those that it survives"
            )
        if problem is None:
            return mean_of(*by_kind(rollout.returns, rollout.variants, variants)).mean
        _log.warning(
            "%s has no score after update %d: %s", self.path.name, self.state.updates, problem
        )
        return math.nan

    def _warn_once(self, what: str | None) -> None:
        if what is not None and not self._has_warned:
            _log.warning("%s: %s", self.path.name, what)
            self._has_warned = True

    @contextmanager
    def _keeping_batch(self) -> Iterator[None]:
        """If a batch has a number that is not finite, write the batch, and pass the error on."""
        try:
            yield
        except ObservationError as error:
            if error.trajectories:
                self.run.save_batch(error.trajectories)
            raise

    def take_over(self, other: Learner) -> None:
        """Take over another policy's agent, and its recent returns."""
        learned = {**other.agent.state_dict(), "seed": self.config.seed}
        self.agent.load_state_dict(learned)
        self.agent.load_policy(learned)  # This forgets the other policy's unfinished episodes.
        self.state.recent_returns = other.state.recent_returns.copy()
        self.state.recent_variants = other.state.recent_variants.copy()
        self.state.recent_costs = other.state.recent_costs.copy()
        self.state.evaluated_costs = other.state.evaluated_costs.copy()
        self.state.diverged = False
        self._policy = None
        self.run.end_record()

    def change_settings(self, settings: Settings) -> None:
        if settings == self.config.settings:
            return
        learned = self.agent.state_dict()
        self.config = self.config.changed(settings=settings)
        self.agent = make_agent(self.config)
        self.agent.load_state_dict(learned)
        self._policy = None
        self.run.write_config(self.config)
        self.run.end_record()

    def save(self, name: str = LATEST) -> None:
        """Write a checkpoint. Only the latest checkpoint has the steps that the agent remembers."""
        begun = self.schedule.begun()
        state = self.agent.state_dict()
        checkpoint = Checkpoint(self.config.to_save(), state, self.state, begun)
        self.run.save(name, checkpoint, self.agent.memory() if name == LATEST else None)

    def interrupt(self) -> None:
        """Save a checkpoint and the learning curve of a run that stops now."""
        self.save()
        self._plot()

    def finish(self, reason: str | None = None) -> dict[str, Any]:
        """Save a run that is over, except its summary, and return the summary.

        reason: None, or why the run diverged before its end. Then its last checkpoint remains.
        """
        budgets = getattr(self.config.settings, "budgets", {})
        is_scored = math.isfinite(self.state.best_score)
        if reason is None:
            self.save()
            # Without a score, the last agent is the best, also in an extended run. But a guest may
            # have chosen best.safetensors. Then the guest compares this file with the last agent.
            is_known = is_scored or (self.config.env in guests and not budgets)
            if not is_known or not (self.path / "best.safetensors").exists():
                self.save("best.safetensors")
        self._plot()
        summary = summarise(self.config, self.state, reason, self.stopped)
        if budgets:
            kept = budgets_in(self.config, self.state.measured_costs(self.config.eval_every > 0))
            summary["budgets_hold"] = is_scored or all(of_budget.holds for of_budget in kept)
        return {**summary, "weights": self._weights()}

    def _plot(self) -> None:
        if self._draw is None:
            return
        name = "learning_curve.png"
        with only_warned(self.path / name), self.run.writing(name) as path:
            self._draw(read_metrics(self.path), path, self.config)

    def _passed(self) -> float:
        """Return the seconds that `state.wall_seconds` does not contain yet."""
        return time.perf_counter() - self._clock_start - self.state.wall_seconds

    def _weights(self) -> str:
        return weights_digest(self.agent.state_dict()["network"])


def make_agent(config: TrainConfig) -> LearningAgent:
    """Return the new agent of a run. Raises ConfigError if its network is wrong."""
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    torch.set_deterministic_debug_mode("error")
    # To fill uninitialised memory is not needed, because no code reads it.
    torch.utils.deterministic.fill_uninitialized_memory = False  # type: ignore[attr-defined]
    # The number of torch's threads splits sums, and so changes the bits of results.
    set_threads(config.learner_threads)
    try_in_worker.learn_facts(config.environment, config.worker_timeout)
    spaces = config.environment.spaces()
    _require_playable(config, spaces)
    try:
        agent = config.plug_in.make(
            config.settings, spaces, config.seed, config.device, config.learner_threads
        )
    except UserError as error:
        raise ConfigError("network", str(error)) from error
    if agent is None:
        raise ConfigError("algorithm", f"make of {config.algorithm} returns no agent")
    asked = getattr(config.settings, "network", None)
    made = getattr(agent.policy_parameters(), "network", None)
    if asked is not None and made is not None and made != asked:
        raise ConfigError("network", f"{config.algorithm} makes {made}, not {asked}")
    return agent


def _require_playable(config: TrainConfig, spaces: Spaces) -> None:
    """Raise ConfigError for settings that the environment does not support, such as for a team."""
    if config.curriculum and config.environment.steps_together:
        raise ConfigError(
            "curriculum",
            f"{config.env} steps several envs together, and its reset takes no options: train it "
            "without a curriculum",
        )
    if spaces.team is not None and config.num_steps_per_env is not None:
        raise ConfigError(
            "num_steps_per_env",
            f"{config.num_steps_per_env} does not go with a team: it plays complete episodes",
        )


@contextmanager
def only_warned(picture: str | Path) -> Iterator[None]:
    """Warn if a picture cannot be drawn, because its run is saved anyway.

    NotWrittenError is still raised.
    """
    try:
        yield
    except NotWrittenError:
        raise
    except Exception as error:
        first, *_ = *str(error).strip().splitlines(), ""
        _log.warning("%s is not drawn: %s: %s", picture, type(error).__name__, first)


def is_zero_sum(config: TrainConfig, state: TrainingState) -> bool:
    """Return whether the sum of a team's rewards was 0 in every episode so far."""
    team = config.environment.spaces().team
    return (
        team is not None
        and team.own_rewards
        and math.isinf(state.best_score)
        and all(abs(return_) < NO_RETURN for return_ in state.recent_returns)
    )


def budgets_in(config: TrainConfig, sums: Sequence[Sequence[float]]) -> list[Kept]:
    """Return whether episodes keep each budget of a run. sums: their sums of costs [N, C]."""
    if not getattr(config.settings, "budgets", None):
        return []
    from workflow_rl.evaluation.measures import kept_budgets

    names = config.environment.spaces().costs  # Before a resume, the costs may have differed.
    of_now = [of_episode for of_episode in sums if len(of_episode) == len(names)]
    return kept_budgets(config.settings, names, [of_now])


def _score(config: TrainConfig, state: TrainingState, eval_return: float) -> float:
    """Return the score of the agent after this update, or NaN.

    The score is the evaluation's mean return, if the run evaluates. Otherwise it is the mean return
    of the last BEST_WINDOW training episodes: see `recent_mean`. An agent has no score if some of
    its episodes could not be played, if the game is zero-sum, or if its evaluation exceeds a
    budget. Training episodes give no score with budgets: the best return may exceed a budget.
    """
    if is_zero_sum(config, state):
        return math.nan
    budgets = budgets_in(config, state.measured_costs(config.eval_every > 0))
    if config.eval_every:
        return eval_return if all(kept.holds for kept in budgets) else math.nan
    if budgets:
        return math.nan
    enough = len(state.recent_returns) >= BEST_WINDOW and not state.has_skipped(BEST_WINDOW)
    recent = state.recent_mean(config.environment.variants, BEST_WINDOW)
    return recent.mean if enough and recent is not None else math.nan


def _enough(config: TrainConfig, state: TrainingState, score: float) -> str | None:
    """Return why the run has learned enough after this update, or None."""
    if config.stop_at_return is not None and score >= config.stop_at_return:
        told = f"{score:{fitting(2, score)}}"
        return f"the mean return is {told}, and {config.stop_at_return:g} was asked for"
    waited = state.updates - state.best_update
    if (
        config.patience is not None
        and math.isfinite(state.best_score)
        and waited >= config.patience
    ):
        best = f"{state.best_score:{fitting(2, state.best_score)}}"
        return f"no better score than {best} in the last {waited} updates"
    return None
