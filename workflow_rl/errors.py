"""The base of errors that a user of the command line reads as one line, and of ends by a signal."""

import signal


class UserError(ValueError):
    """Something cannot be used as asked. The message says all; the exit code of a command is 2."""


class StoppedAtOnce(KeyboardInterrupt):
    """The user did not wait for the checkpoint, and sent the signal a second time."""

    def __init__(self, signal_number: int) -> None:
        self.signal_number = signal_number
        super().__init__(f"stopped by {signal.Signals(signal_number).name}")
