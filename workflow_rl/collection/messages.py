"""The messages between a pool and its workers, and the errors of workers and episodes."""

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
    """A pool's command to a worker. The worker answers with replies, or with a Failure."""

    START = "start"  # Not sent. Reply: None, when the envs are made.
    LOAD_ACTOR = "load actor"  # Payload: a pickled Actor. No reply.
    PLAY = "play episodes"  # Payload: list[EpisodeSpec]. Replies: list[Trajectory], at ends.
    UNROLL = "unroll"  # Payload: Unroll. Replies: list[Trajectory].
    RESET = "reset"  # Payload: (envs, specs). Reply: StepAnswers, whose rewards are 0.
    STEP = "step"  # Payload: (envs, actions). Reply: StepAnswers.
    ASK = "try out"  # Payload: a pickled Asked. Replies: the values that it sends, then None.
    CLOSE = "close"  # No reply.


class Request(NamedTuple):
    command: Command
    payload: Any = None


class Reply(NamedTuple):
    """A worker's answer. busy_seconds: the wall time of stepping and acting for this answer."""

    result: Any
    busy_seconds: float = 0.0


class Failure(NamedTuple):
    """The last message of a worker that an exception ended.

    summary: the exception in one line, with the file and line of the user's code that raised it.
    traceback: the exception's traceback, without the worker's own frames. spec: the episode that
    raised the exception, or None. final: why every other worker would fail, too, or None.
    """

    command: Command
    summary: str
    traceback: str
    spec: EpisodeSpec | None = None
    final: str | None = None


class Numbered(NamedTuple):
    """A message in a pipe. A message answers the request only if its number is the next number.

    request: the number of the request. nth: the number of the message among its worker's messages.
    """

    request: int
    nth: int
    message: Any


Asked: TypeAlias = "Callable[[EnvBatch, Callable[..., object]], None]"
"""A function that a worker calls with its envs, and with a function that sends a value back."""


class Unroll(NamedTuple):
    """Step every env of the worker `n_steps` times from the end of the env's last unroll.

    positions: the position of each env. None: the worker knows the positions, because it has played
        nothing else since.
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
    """An exception that an episode raised. If the episode raises it again, the faults are equal.

    what: the exception in one line, without objects' addresses, which differ between processes.
    """

    spec: EpisodeSpec
    what: str


class WorkerError(RuntimeError):
    """A worker raised an exception, exited, was killed or did not answer in time.

    exitcode: the exit code of its process; None if the process still runs or is on another machine.
    fault: the exception, if an episode raised it. place: a name for a process without a known exit
    code.
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
    """More workers failed than the run allows, or a worker's failure cannot be repaired. Or
    episodes raise exceptions every time that they are played, or give no finite score.

    The cause is the last WorkerError, or None. is_of_episodes: whether episodes, not the machine,
    caused the failure. rollout: the empty rollout, if all episodes of a collection were left out.
    The workers are then ready for other episodes.
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
