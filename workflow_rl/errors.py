"""Errors that a user reads as one line, errors of environments, and ends by a signal."""

from __future__ import annotations

import signal
from collections.abc import Sequence
from typing import Any


class UserError(ValueError):
    """Something cannot be used as asked. The message says all; the exit code of a command is 2."""


class ObservationError(ValueError):
    """An env gave an answer that its spaces or its contract do not allow. The run ends."""


class NotFiniteError(ValueError):
    """An observation or a reward is NaN or infinite. trajectories: the batch that it is in."""

    def __init__(self, message: str, trajectories: Sequence[Any] = ()) -> None:
        self.trajectories = trajectories
        super().__init__(message)


class ElsewhereError(Exception):
    """An exception of another interpreter: see `simulator_process.exception_parts`.

    what: its type and message. place: the file and line that raised it, in brackets. told: its
    traceback.
    """

    def __init__(self, what: str, place: str, told: str) -> None:
        self.what, self.place, self.told = what, place, told
        super().__init__(f"{what}{place}")


class StoppedAtOnce(KeyboardInterrupt):
    """The user did not wait for the checkpoint, and sent the signal a second time."""

    def __init__(self, signal_number: int) -> None:
        self.signal_number = signal_number
        super().__init__(f"stopped by {signal.Signals(signal_number).name}")
