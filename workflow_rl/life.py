"""Signs of life, which tell a process that is slow from one that hangs.

The code that works gives them between its steps. A thread would go on while the work hangs.
"""

from __future__ import annotations

import ctypes
import os
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any


class Life(ctypes.Structure):
    """What a process shows of itself, in memory that another process may share.

    at: `time.monotonic()` at its last sign. compiling: how many compilations are under way.
    """

    _fields_ = [("at", ctypes.c_double), ("compiling", ctypes.c_int)]


_life: Any = Life()


def _show_to_nobody() -> None:
    global _life
    _life = Life()


os.register_at_fork(after_in_child=_show_to_nobody)  # What an environment forks gives no sign.


def show_life_in(life: Any) -> None:
    """Give signs in a Life, or what is like one, from now on. Imports of modules are signs too."""
    global _life
    _life = life
    sys.meta_path.insert(0, SimpleNamespace(find_spec=lambda *_: alive()))


def alive() -> None:
    """Give a sign of life. Whatever takes many steps calls this between them."""
    _life.at = time.monotonic()


def compiling(change: int) -> None:
    """Say that a compilation begins, 1, or ends, -1. It is one step, however long it takes."""
    _life.compiling += change
    alive()


def cpu_seconds(pid: int | None) -> float:
    """Return the CPU time that a process has used so far; 0 if the system does not tell."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
