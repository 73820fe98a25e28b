"""What can go wrong with workers and the episodes that they play."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from workflow_rl.collection.messages import Command
    from workflow_rl.collection.rollout import Rollout
    from workflow_rl.environments.episode import EpisodeSpec

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
