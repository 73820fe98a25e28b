"""Errors that a user reads as one line, errors of environments, and ends by a signal."""

from __future__ import annotations

import signal
from collections.abc import Callable, Sequence
from typing import Any


class UserError(ValueError):
    """A file or a value cannot be used as the user asked. The exit code of a command is 2."""


class ConfigError(ValueError):
    """A config's field or an environment's argument has a wrong value, or the environment cannot be
    made or used with the value. The exit code of a command is 2.

    field_name: the name of the wrong field or argument. message: the reason, in one line. parts:
    the message. Every second part is a field's name, which `told` can spell in another way.
    """

    def __init__(self, field_name: str, *parts: str) -> None:
        self.field_name = field_name
        self._parts = parts
        self.message = self.told(str)
        super().__init__(f"{field_name}: {self.message}")

    def told(self, spelled: Callable[[str], str]) -> str:
        """Return the message, with the names of other fields as `spelled` gives them."""
        text = "".join(spelled(part) if n % 2 else part for n, part in enumerate(self._parts))
        return " ".join(map(str.strip, text.splitlines()))

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.field_name, *self._parts)


def message_of(error: Exception) -> str:
    """Return what an error says, without the name of a field or an argument."""
    return error.message if isinstance(error, ConfigError) else str(error)


class ObservationError(ValueError):
    """An env gave an answer that its spaces or its contract do not allow. The run ends.

    trajectories: the batch, if the fault is a NaN or an infinite number; otherwise None.
    """

    def __init__(self, message: str, trajectories: Sequence[Any] | None = None) -> None:
        self.trajectories = trajectories
        super().__init__(message)


class ElsewhereError(Exception):
    """An exception of another interpreter: see `simulator_process.exception_parts`.

    what: the exception's type and message. place: the file and line that raised it, in brackets.
    told: the exception's traceback.
    """

    def __init__(self, what: str, place: str, told: str) -> None:
        self.what, self.place, self.told = what, place, told
        super().__init__(f"{what}{place}")


def signal_of(stop: BaseException) -> signal.Signals:
    """Return the signal in a KeyboardInterrupt's arguments, or the signal of Ctrl-C."""
    return signal.Signals(stop.args[0] if stop.args else signal.SIGINT)
