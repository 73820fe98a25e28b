"""Remove control characters from texts of strangers before a terminal shows them.
Streams here show only printable text, and their failures do not stop the work."""

import codecs
import contextlib
import errno
import io
import logging
import math
import os
import sys
from collections.abc import Iterator
from typing import Any

MOST = 2_000
"""The most characters of one text that are shown. Exceptions and names in files may be longer."""


def shortened(text: str, most: int = MOST) -> str:
    """Return a text, or the beginning of an overlong one and its length."""
    return text if len(text) <= most else f"{text[:most]}... ({len(text):,} characters)"


def in_short(value: Any) -> str:
    """Return a setting as text. A text of several lines is shortened to its first line."""
    return str(value).partition("\n")[0]


def printable(value: Any, kept: str = "", most: int = MOST) -> str:
    """Return a value as text of at most `most` characters, without control characters.

    kept: control characters that stay, such as line breaks.
    """
    return "".join(
        sign if sign.isprintable() or sign in kept else sign.encode("unicode_escape").decode()
        for sign in shortened(str(value), most)
    )


def fitting(decimals: int, *values: float) -> str:
    """Return a common format for numbers. The largest number has at least three digits, no decimals
    from 100,000 on, and an exponent from 1e15 on. decimals: of numbers from 1 to 100,000."""
    largest = max((abs(value) for value in values if math.isfinite(value)), default=0.0)
    if largest >= 1e15:
        return ".3e"
    if largest >= 100_000:
        return ",.0f"
    if 0 < largest < 1:
        decimals = max(decimals, 2 - math.floor(math.log10(largest)))
    return f".{decimals}f"


class PrintableFormatter(logging.Formatter):
    """Formats log records as text without control characters."""

    def format(self, record: logging.LogRecord) -> str:
        return printable(super().format(record), "\n", 10 * MOST)


_PLAIN = dict(zip("─│±–−—…", ["-", "|", "+/-", "-", "-", "-", "..."], strict=True))  # noqa: RUF001
_PLAIN |= dict.fromkeys("┌┐└┘├┤┬┴┼", "+")


def _plain(error: UnicodeError) -> tuple[str, int]:
    """Return similar characters, or escapes, for those that a stream cannot encode."""
    assert isinstance(error, UnicodeEncodeError)
    text = error.object[error.start : error.end]
    escaped = (
        _PLAIN.get(sign) or sign.encode("ascii", "backslashreplace").decode() for sign in text
    )
    return "".join(escaped), error.end


codecs.register_error("workflow-rl-plain", _plain)


def _never_fail_to_encode(stream: Any) -> None:
    if isinstance(stream, io.TextIOWrapper):
        # Where a stream asks for ASCII, click writes UTF-8. Thai's encoding has ASCII, and no
        # other signs.
        is_ascii = codecs.lookup(stream.encoding).name == "ascii"
        encoding = "tis-620" if is_ascii else stream.encoding
        stream.reconfigure(encoding=encoding, errors="workflow-rl-plain")


class LenientStream:
    """A text stream whose writes may fail: its reader goes away, or its disk is full.

    is_checked: whether the text is shown without characters that command a terminal. A progress
    bar needs such characters. error: the first failure, or None.
    """

    def __init__(self, stream: Any, is_checked: bool = False) -> None:
        self._stream = stream or open(os.devnull, "w")  # noqa: SIM115
        self._is_checked = is_checked
        self.error: OSError | None = None

    def write(self, text: str) -> int:
        """Write the text, if that is possible. Return its length."""
        if not isinstance(text, str):
            raise TypeError(f"a text stream takes text, not {type(text).__name__}")
        with self._failing():
            self._stream.write(printable(text, "\n\t", len(text)) if self._is_checked else text)
        return len(text)

    def flush(self) -> None:
        with self._failing():
            self._stream.flush()

    def __eq__(self, other: object) -> bool:
        # Whoever logs beside a progress bar compares streams, to clear the bar before a line.
        return self._stream == (other._stream if isinstance(other, LenientStream) else other)

    def __hash__(self) -> int:
        return hash(self._stream)

    @contextlib.contextmanager
    def _failing(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            self.error = self.error or error

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


@contextlib.contextmanager
def safe_output() -> Iterator[None]:
    """Let work in here go on when its output cannot be written, or not in the stream's encoding. A
    command that would succeed ends with exit code 1 if its results, on stdout, are lost."""
    for stream in (sys.stdout, sys.stderr):
        _never_fail_to_encode(stream)
    out, err = LenientStream(sys.stdout, is_checked=True), LenientStream(sys.stderr)
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
