"""The training loop of both trainers: collect, learn, log, save."""

import contextlib
import logging
import signal
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path
from types import FrameType
from typing import Any, TypeAlias

from tqdm.contrib.logging import logging_redirect_tqdm

from workflow_rl.agents.algorithm import DivergedError
from workflow_rl.collection.messages import STOP_SIGNALS, StopRequested
from workflow_rl.collection.pool import AnyPool
from workflow_rl.collection.schedule import CollectorThread
from workflow_rl.collection.trace import Trace
from workflow_rl.progress_bar import Progress
from workflow_rl.runs.checkpoint import Checkpoint
from workflow_rl.runs.config import TrainConfig
from workflow_rl.runs.folder import DIVERGED_FILE
from workflow_rl.runs.learner import Draw, Learner
from workflow_rl.runs.make_schedule import make_collector, make_pool
from workflow_rl.runs.metrics import paid_agents
from workflow_rl.runs.run_dir import NotWrittenError
from workflow_rl.terminal import fitting

Watch: TypeAlias = Callable[[Any], AbstractContextManager[Any]]
BAR = (
    "{percentage:3.0f}%|{bar:16}| {n_fmt}/{total_fmt} [{elapsed}<{remaining}, {rate_fmt}{postfix}]"
)
"""The bar has a fixed width, because beside a long text tqdm would leave it one character."""
MOMENT_SECONDS = 0.5
"""A signal is not repeated in this time: `timeout` signals the process and its group at once."""

_log = logging.getLogger(__name__)


def train_policy(
    config: TrainConfig,
    run_path: Path,
    resumed: Checkpoint | None = None,
    init_from: Checkpoint | None = None,
    quiet: bool = False,
    trace_path: Path | None = None,
    watch: Watch = contextlib.nullcontext,
    last_update: int | None = None,
    draw: Draw | None = None,
) -> dict[str, Any]:
    """Train one policy and return its summary: see `train_together`. draw: see `Learner`."""
    learner = Learner(config, run_path, resumed, init_from, draw)
    (summary,) = train_together([learner], quiet, trace_path, watch, last_update=last_update)
    return summary


class Meetings:
    """Points at which learners wait for each other and exchange. This class has no meetings."""

    may_lose = True
    """Whether the other learners go on without a learner that diverges for good."""
    end_together = False
    """Whether all learners end when one learner is stopped."""

    def is_due(self, learner: Learner) -> bool:
        """Return whether the learner has reached the next meeting, and waits."""
        return False

    def meet(self) -> None:
        """Hold the meeting. All unfinished learners have reached it."""

    def can_rescue(self, learner: Learner) -> bool:
        """Return whether a learner that diverges now can take over another at a meeting."""
        return False


def train_together(
    learners: Sequence[Learner],
    quiet: bool = False,
    trace_path: Path | None = None,
    watch: Watch = contextlib.nullcontext,
    begin: Callable[[], Meetings] = Meetings,
    last_update: int | None = None,
    conclude: Callable[[Sequence[dict[str, Any]]], None] | None = None,
) -> list[dict[str, Any]]:
    """Train policies that share one pool of workers, and return their summaries.

    The workers collect for some policies while others learn.

    Args:
        learners: new or resumed learners, one for each policy.
        trace_path: file for a record of the activities of workers and learners over time.
        watch: a context manager that is entered with the pool during the runs. It may stop the
            runs, as `stopped_by_signals` does.
        begin: called when the agents are made, before the runs' folders are opened. Returns the
            meetings.
        last_update: the update after which the runs end, even if their configs end later.
        conclude: called with the summaries before they are written. A run that is stopped in this
            call is not finished, and concludes when it is resumed.

    Raises:
        ConfigError, KeyboardInterrupt: from `Learner.make_agent`. Nothing has been written.
        UserError: a checkpoint or a folder cannot be used. Nothing has been written.
        StopRequested, TooManyFailuresError, ObservationError: checkpoints have been saved.
        NotWrittenError: a run cannot be written. The last checkpoints are kept.
        DivergedError: all policies have diverged. The batch is beside the last checkpoint. If only
            some policies diverge, the others go on.
    """
    config = learners[0].config
    for learner in learners:
        learner.make_agent(lambda make_envs: make_pool(config, None, make_envs), watch, quiet)
    meetings = begin()
    with (
        ExitStack() as stack,
        Trace(trace_path, config.to_dict()) as trace,
        # Log lines must not break a progress bar. This changes the process's log handlers.
        contextlib.nullcontext() if quiet else logging_redirect_tqdm(),
    ):
        for learner in learners:
            stack.enter_context(learner)
        pool = make_pool(config, trace)
        thread, collector = CollectorThread(pool), make_collector(pool, config)
        for learner in learners:
            learner.learn_from(thread, collector, trace)
        lost: dict[Learner, str] = {}
        with watch(pool):
            try:
                with pool, _all_entered(learners):
                    _loop(learners, pool, quiet, meetings, last_update, lost)
            except NotWrittenError:
                raise
            except Exception:  # A stop, failures, or any other error.
                for learner in learners:
                    if learner not in lost and not learner.is_learning:
                        learner.interrupt()
                raise
            summaries = [learner.finish(lost.get(learner)) for learner in learners]
            if pool.stop_signal is not None:  # The signal came after the last update.
                raise StopRequested(pool.stop_signal)
            if conclude is not None:
                conclude(summaries)
            for learner, summary in zip(learners, summaries, strict=True):
                learner.run.write_summary(summary)
            return summaries


def _loop(
    learners: Sequence[Learner],
    pool: AnyPool,
    quiet: bool,
    meetings: Meetings,
    last_update: int | None,
    lost: dict[Learner, str],
) -> None:
    """Add to `lost` the learners that end before the others, and why."""
    for learner in learners:
        learner.start_clock()
    with progress_bar(learners, quiet, last_update) as bar:
        while going_on := [
            learner
            for learner in learners
            if learner not in lost and not learner.is_finished(last_update)
        ]:
            pool.raise_if_stopped()
            row = _learn_once(going_on, learners, meetings, lost)
            if row is not None:
                show_progress(bar, learners, row, last_update)
            reason = next(
                (learner.stopped for learner in learners if learner.stopped is not None), None
            )
            if meetings.end_together and reason is not None:
                for learner in learners:
                    learner.stopped = reason


def _learn_once(
    going_on: Sequence[Learner],
    learners: Sequence[Learner],
    meetings: Meetings,
    lost: dict[Learner, str],
) -> Mapping[str, float] | None:
    """Return the row of an update of the learner with the least progress.

    Return None after a meeting, or if the learner is lost.
    """
    # A learner with an unlogged update goes on, because a meeting would change its agent.
    free = [
        learner for learner in going_on if learner.state.unlogged or not meetings.is_due(learner)
    ]
    if not free:
        meetings.meet()
        return None
    for learner in free:
        learner.begin()
    behind = min(free, key=lambda learner: learner.progress)
    try:
        return behind.learn_once(meetings.can_rescue(behind))
    except DivergedError as error:
        lost[behind] = str(error)
        if not meetings.may_lose or all(
            learner in lost or learner.state.diverged for learner in learners
        ):
            raise
        _log.warning(
            "%s diverged in update %d: %s. It ends here, and the others go on; the batch is in %s",
            *(behind.path.name, behind.state.updates + 1, error, behind.path / DIVERGED_FILE),
        )
        return None


@contextlib.contextmanager
def _all_entered(learners: Sequence[Learner]) -> Iterator[None]:
    with ExitStack() as schedules:
        for learner in learners:
            schedules.enter_context(learner.schedule)
        yield


def progress_bar(
    learners: Sequence[Learner], quiet: bool, last_update: int | None = None
) -> Progress:
    """Return a bar of the runs' episodes, or of their steps if their end is given in steps.

    last_update: see `train_together`. If it is given, the bar counts updates.
    """
    config = learners[0].config
    unit = "step" if config.total_episodes is None else "ep"
    return Progress(
        quiet,
        total=len(learners) * (last_update or _end(config)),
        unit="update" if last_update else unit,
        initial=_done(learners, last_update),
        bar_format=BAR,
        unit_scale=unit == "step",
        dynamic_ncols=True,
        # The rate is of the whole run so far. Otherwise the remaining time would jump.
        smoothing=0,
    )


def show_progress(
    bar: Progress,
    learners: Sequence[Learner],
    row: Mapping[str, float],
    last_update: int | None = None,
) -> None:
    if len(learners) == 1:
        config = learners[0].config
        returns = learners[0].state.returns_in_words(config.environment.variants)
        of_agents = [f"{agent} {row[f'return_mean_{agent}']:.3g}" for agent in paid_agents(config)]
        if of_agents:
            returns += f" (last update: {', '.join(of_agents)})"
    else:
        drawn, n_recent = learners[0].config.environment.variants, learners[0].state.n_recent
        means = [learner.state.recent_mean(drawn, n_recent) for learner in learners]
        digits = fitting(0, *(mean.mean for mean in means if mean is not None))
        shown = " ".join("none" if mean is None else f"{mean.mean:{digits}}" for mean in means)
        returns = f"mean returns {shown} of the last {n_recent}"
    text = f"{returns}; {min(1, row['worker_utilisation']):.0%} utilisation"
    bar.show(_done(learners, last_update), text)


def _end(config: TrainConfig) -> int:
    end = config.total_episodes or config.total_steps
    assert end is not None
    return end


def _done(learners: Sequence[Learner], last_update: int | None) -> int:
    if last_update is not None:
        return sum(learner.state.updates for learner in learners)
    end = _end(learners[0].config)
    return sum(min(learner.position, end) for learner in learners)


@contextlib.contextmanager
def stopped_by_signals(pool: AnyPool | None = None) -> Iterator[None]:
    """Let the first signal of STOP_SIGNALS ask a pool to stop.

    `pool.stop_signal` is then the signal's number. A repeated signal after a moment raises
    KeyboardInterrupt with this number. A signal that is ignored from the start, such as by `nohup`,
    stays ignored.

    pool: None for work that a signal may end at any moment, because a repetition begins from the
    start. The first signal then raises StopRequested.
    """
    first: dict[int, float] = {}

    def stop(number: int, frame: FrameType | None) -> None:
        if pool is None:
            raise StopRequested(number)
        now = time.monotonic()
        waited = now - first.setdefault(number, now)
        # The system sends SIGXCPU again every second.
        if waited > MOMENT_SECONDS and number != signal.SIGXCPU:
            raise KeyboardInterrupt(number)
        if pool.stop_signal is None:
            pool.stop_signal = number
            name = "Ctrl-C" if number == signal.SIGINT else "the same signal"
            _log.warning("stopping (%s again stops at once)", name)

    # SIGINT is always handled, because a shell lets its background commands ignore SIGINT.
    handled = [
        number
        for number in STOP_SIGNALS
        if number == signal.SIGINT or signal.getsignal(number) not in (signal.SIG_IGN, None)
    ]
    before = {number: signal.signal(number, stop) for number in handled}
    try:
        yield
    finally:
        for number, action in before.items():
            signal.signal(number, action)
