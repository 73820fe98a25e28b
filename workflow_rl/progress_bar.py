"""Show a command's progress: a bar on a terminal, or a line for each tenth in a log file."""

import sys
import time
from typing import Any

from tqdm import tqdm

from workflow_rl.terminal import LenientStream, printable

SECONDS = 2.0
"""The least time between two lines without text, so that short work prints no lines."""
_NAMES = {"ep": "episodes"}
"""Full names of the units that a bar abbreviates; a log file has room for them."""


class Progress(tqdm):
    """A bar, or without a terminal a line for each tenth of the work.

    total, unit: the amount of work and its unit, such as 300 and "ep". facts: further arguments of
    tqdm, such as `desc`, the name of the work.
    """

    def __init__(self, quiet: bool, total: int, unit: str, initial: int = 0, **facts: Any) -> None:
        self._out = LenientStream(sys.stderr)
        facts = {**facts, "file": self._out}
        super().__init__(total=total, unit=unit, initial=initial, disable=quiet or None, **facts)
        self._in_lines = self.disable and not quiet
        self._done, self._whole, self._text = initial, total, ""
        self._work = f"{facts['desc']}: " if facts.get("desc") else ""
        self._units = _NAMES.get(unit, f"{unit}s")
        self._last_line = time.monotonic()

    def show(self, done: int, text: str) -> None:
        self._text = text = printable(text)
        self.set_postfix_str(text, refresh=False)
        self.update(done - self._done)

    def update(self, n: float | None = 1) -> bool | None:
        before, self._done = self._done, self._done + int(n or 0)
        if self._in_lines and self._done * 10 // self._whole > before * 10 // self._whole:
            self._write_line()
        return super().update(n)

    def _write_line(self) -> None:
        now = time.monotonic()
        if not self._text and now - self._last_line < SECONDS:
            return
        share = f"{self._done / self._whole:4.0%} ({self._done} of {self._whole} {self._units})"
        self._out.write(self._work + share + (self._text and f": {self._text}") + "\n")
        self._out.flush()
        self._last_line = now
