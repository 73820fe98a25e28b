"""Signs of life, which distinguish a slow process from a process that hangs.

The working code gives signs between its steps. A thread would give signs while the work hangs.
"""

import ctypes
import os
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any


class Life(ctypes.Structure):
    """A process's state, in memory that another process may share.

    at: `time.monotonic()` at the last sign. compiling: the number of running compilations.
    """

    _fields_ = [("at", ctypes.c_double), ("compiling", ctypes.c_int)]


_life: Any = Life()


def _show_to_nobody() -> None:
    global _life
    _life = Life()


os.register_at_fork(
    after_in_child=_show_to_nobody
)  # Processes that an environment forks give no signs.


def show_life_in(life: Any) -> None:
    """Give signs in a Life, or in a similar object, from now on. Each import is a sign, too."""
    global _life
    _life = life
    sys.meta_path.insert(0, SimpleNamespace(find_spec=lambda *_: alive()))


def alive() -> None:
    """Give a sign of life. Long work calls this function between its steps."""
    _life.at = time.monotonic()


def compiling(change: int) -> None:
    """Count a compilation that begins (change 1) or ends (change -1). It gives no other signs."""
    _life.compiling += change
    alive()


def cpu_seconds(pid: int | None) -> float:
    """Return the CPU time that a process has used so far; 0 if it is unknown."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
