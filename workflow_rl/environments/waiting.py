"""How much of its time a process waits, for something other than a core."""

from __future__ import annotations

import time
from pathlib import Path

MUCH_WAITING = 0.6
"""From this share on, more processes than cores collect faster."""
_SCHEDULED = Path("/proc/self/schedstat")


class Stopwatch:
    """Tells what share of the time since it was made the process has waited.

    A process that is ready to run, on a machine whose cores are busy, does not wait.
    """

    def __init__(self) -> None:
        self._wall, self._busy = time.perf_counter(), _busy_seconds()

    def waiting(self) -> float:
        """Return the share, from 0 to 1."""
        wall = time.perf_counter() - self._wall
        return min(1.0, max(0.0, 1 - (_busy_seconds() - self._busy) / wall)) if wall else 0.0


def _busy_seconds() -> float:
    """Return the seconds in which the process ran, or was ready to run."""
    try:
        ready = int(_SCHEDULED.read_text().split()[1]) / 1e9
    except (OSError, ValueError, IndexError):  # Another system than Linux.
        ready = 0.0
    return time.process_time() + ready
