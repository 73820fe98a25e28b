"""What collectors ask of workers, whatever carries the messages, and what can go wrong."""

from __future__ import annotations

import logging
import re
import signal
from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

from workflow_rl.collection.trace import Trace
from workflow_rl.collection.worker import Command, Reply
from workflow_rl.environments.episode import EpisodeSpec

POLL_SECONDS = 0.2
"""How long whoever waits may go without looking whether to stop."""
MAX_RAISES = 3
"""After so many equal exceptions an episode is left out."""

_log = logging.getLogger(__name__)


class StopRequested(Exception):
    """The user asked the run to end, with the signal whose number is `signal_number`."""

    def __init__(self, signal_number: int) -> None:
        self.signal_number = signal_number
        super().__init__(f"stopped by {signal.Signals(signal_number).name}")


class Fault(NamedTuple):
    """An exception that an episode has raised: equal if it raises the same again."""

    spec: EpisodeSpec
    what: str


def fault_of(spec: EpisodeSpec, traceback: str) -> Fault:
    """Without the addresses of objects, which differ from process to process."""
    return Fault(spec, re.sub("0x[0-9a-fA-F]+", "", traceback))


class WorkerError(RuntimeError):
    """A worker raised, exited, was killed or did not answer in time.

    fault: if it was an episode that raised. place: where it is, if its exit code cannot be known.
    """

    def __init__(
        self,
        worker: str,
        command: Command,
        exitcode: int | None,
        reason: str,
        fault: Fault | None = None,
        place: str | None = None,
    ) -> None:
        self.worker = worker
        self.command = command
        self.exitcode = exitcode
        self.fault = fault
        where = f"exit code: {_describe(exitcode)}" if place is None else place
        super().__init__(f"{worker} {reason} during '{command.value}' ({where})")


class TooManyFailuresError(RuntimeError):
    """More workers failed than the run allows, and its cause is the last WorkerError; or one in a
    way that it never allows."""


class UnplayableError(TooManyFailuresError):
    """The same, because episodes raise exceptions however often they are played; or they can be
    played, but not scored."""


def _describe(exitcode: int | None) -> str:
    if exitcode is None:
        return "none, it was still running"
    if exitcode < 0:
        return f"{exitcode}, {signal.Signals(-exitcode).name}"
    return str(exitcode)


class Workers(Protocol):
    """`n_workers` workers of `envs_per_worker` envs each, numbered from 0.

    failures: how many have failed so far. faults: how often which episode has raised what. trace:
    where what they do is recorded, and what whoever asks them does. stop_signal: the number of a
    signal that asks for the end, once it has come.
    """

    n_workers: int
    envs_per_worker: int
    failures: int
    faults: Counter[Fault]
    trace: Trace
    stop_signal: int | None

    def send(self, index: int, command: Command, payload: Any = None) -> None:
        """Ask one worker. Raises WorkerError."""

    def receive(self, index: int) -> Reply:
        """One worker's next answer. Raises WorkerError if none comes in time, StopRequested,
        TooManyFailuresError."""

    def ready(self, indices: Sequence[int]) -> list[int]:
        """Those of the workers whose answer, or failure to give one, `receive` gives at once."""

    def replace(self, index: int, error: WorkerError) -> None:
        """Put a new worker in a failed one's place. Raises TooManyFailuresError."""

    def cancel(self) -> None:
        """Have whoever waits for a worker, in whatever thread, give up with CancelledError."""

    def raise_if_stopped(self) -> None:
        """Raises StopRequested once `stop_signal` has been set, CancelledError after `cancel`."""

    def close(self) -> None:
        """End all workers, at the latest after a few seconds. May be called again."""


def unplayable(workers: Workers, error: WorkerError) -> int | None:
    """The number of the episode that this error, of a worker since replaced, shows to raise the
    same exception however often it is played: what plays it leaves it out."""
    fault = error.fault
    if fault is None or workers.faults[fault] < MAX_RAISES:
        return None
    _log.warning(
        "episode %d is left out: it raised the same exception %d times",
        fault.spec.number,
        MAX_RAISES,
    )
    return fault.spec.number
