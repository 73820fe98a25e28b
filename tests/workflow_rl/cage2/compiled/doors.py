"""A way for Python to call what only compiled code calls."""

from typing import Any

import numba

from workflow_rl.jit import OPTIONS


def door(function: Any) -> Any:
    """Return a function of compiled code as one that Python can call."""
    return numba.njit(**OPTIONS)(function.py_func)
