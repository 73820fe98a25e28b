"""The messages between a pool and its workers, and what can go wrong with workers and episodes."""

from __future__ import annotations

import signal
from collections.abc import Callable, Sequence
from enum import Enum
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

if TYPE_CHECKING:
    from workflow_rl.collection.assignments import EnvPosition
    from workflow_rl.collection.rollout import Rollout
    from workflow_rl.environments.env_batch import EnvBatch
    from workflow_rl.environments.episode import EpisodeSpec


class Command(Enum):
    """What a pool asks of a worker. The worker answers with replies, or with a Failure."""

    START = "start"  # Not sent. Reply: None, once the envs are made.
    LOAD_ACTOR = "load actor"  # Payload: a pickled Actor. No reply.
    PLAY = "play episodes"  # Payload: list[EpisodeSpec]. Replies: list[Trajectory], as they end.
    UNROLL = "unroll"  # Payload: Unroll. Replies: list[Trajectory].
    RESET = "reset"  # Payload: (envs, specs). Reply: StepAnswers, whose rewards are 0.
    STEP = "step"  # Payload: (envs, actions). Reply: StepAnswers.
    ASK = "try out"  # Payload: a pickled Asked. Replies: what it tells, then None.
    CLOSE = "close"  # No reply.


class Request(NamedTuple):
    """A message from the pool to a worker."""

    command: Command
    payload: Any = None


class Reply(NamedTuple):
    """A message from a worker. busy_seconds: wall time that it spent stepping or acting for it."""

    result: Any
    busy_seconds: float = 0.0


class Failure(NamedTuple):
    """The last message of a worker that an exception ended.

    summary: the exception in one line, with the file and line of the user's code that raised it.
    traceback: of the exception, without the worker's own frames. spec: the episode that raised it,
    if the exception came from an episode. final: why no other worker can do better, if none can.
    """

    command: Command
    summary: str
    traceback: str
    spec: EpisodeSpec | None = None
    final: str | None = None


class Numbered(NamedTuple):
    """A message in a pipe. Only a message with the next number answers the request.

    request: the number of the request. nth: the number of the message among its worker's messages.
    """

    request: int
    nth: int
    message: Any


Asked: TypeAlias = "Callable[[EnvBatch, Callable[..., object]], None]"
"""Called in a worker with its envs, and with a function that sends what it is called with."""


class Unroll(NamedTuple):
    """Step every env of the worker `n_steps` times from where the last unroll left it.

    positions: where each env is. None: the worker knows, as it has played nothing else since.
    """

    n_steps: int
    positions: Sequence[EnvPosition] | None


STOP_SIGNALS = (
    *(signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT),
    *(signal.SIGUSR1, signal.SIGUSR2, signal.SIGXCPU),
)
"""The signals that terminals, users and schedulers send to end a run."""


class StopRequested(Exception):
    """The user asked the run to end, with the signal whose number is `signal_number`."""

    def __init__(self, signal_number: int) -> None:
        self.signal_number = signal_number
        super().__init__(f"stopped by {signal.Signals(signal_number).name}")


class Fault(NamedTuple):
    """An exception that an episode raised. Two faults are equal if the episode raised it again.

    what: the exception in one line, without addresses of objects, which differ between processes.
    """

    spec: EpisodeSpec
    what: str


class WorkerError(RuntimeError):
    """A worker raised an exception, exited, was killed or did not answer in time.

    exitcode: of its process; None if the process still runs or is on another machine. fault: the
    exception, if an episode raised it. place: names a process whose exit code cannot be known.
    """

    def __init__(
        self,
        worker: str,
        command: Command,
        exitcode: int | None,
        reason: str,
        place: str | None = None,
    ) -> None:
        self.exitcode = exitcode
        self.fault: Fault | None = None
        where = place or f"exit code: {_describe(exitcode)}"
        super().__init__(f"{worker} {reason} during '{command.value}' ({where})")


class TooManyFailuresError(RuntimeError):
    """More workers failed than the run allows, or one failed in a way that cannot be repaired. Or
    episodes raise exceptions however often they are played, or give no finite score.

    The cause is the last WorkerError, where there is one. is_of_episodes: whether episodes are to
    blame, and not the machine. rollout: what is left where all episodes of a collection had to be
    left out. The workers are ready for others then.
    """

    def __init__(
        self, message: str, is_of_episodes: bool = False, rollout: Rollout | None = None
    ) -> None:
        self.is_of_episodes = is_of_episodes
        self.rollout = rollout
        super().__init__(message)


def _describe(exitcode: int | None) -> str:
    if exitcode is None:
        return "none, the process was still running"
    return f"{exitcode}, {signal.Signals(-exitcode).name}" if exitcode < 0 else str(exitcode)
