"""Output streams whose reader may go away, and whose disk may fill up, without harm to the work."""

from __future__ import annotations

import contextlib
import errno
import os
import sys
from collections.abc import Iterator
from typing import Any


class LenientStream:
    """A text stream whose writes may fail. error: the first failure, or None."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream or open(os.devnull, "w")  # noqa: SIM115
        self.error: OSError | None = None

    def write(self, text: str) -> int:
        """Write the text, if that is possible. Return its length."""
        try:
            self._stream.write(text)
        except OSError as error:
            self.error = self.error or error
        return len(text)

    def flush(self) -> None:
        """Flush the stream, if that is possible."""
        try:
            self._stream.flush()
        except OSError as error:
            self.error = self.error or error

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


@contextlib.contextmanager
def lenient_output() -> Iterator[None]:
    """Let work in here go on when its output cannot be written.

    A command that would succeed ends with exit code 1 if its results, on stdout, are lost.
    """
    out, err = LenientStream(sys.stdout), LenientStream(sys.stderr)
    end = None
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            yield
        except SystemExit as error:
            if error.code:
                raise
            end = error
        out.flush()
        if out.error is not None:
            if out.error.errno != errno.EPIPE:
                err.write(f"Error: the output cannot be written: {out.error.strerror}\n")
            sys.exit(1)
        if end is not None:
            raise end
