"""How the simulator is compiled."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

import numba

Function = TypeVar("Function", bound=Callable[..., Any])


def compiled(function: Function) -> Function:
    """Compile on first use; part of the entry point that calls it."""
    return cast(Function, numba.njit(nogil=True)(function))


def entry_point(function: Function) -> Function:
    """Compile on first use and keep the result on disk, with all that it calls."""
    return cast(Function, numba.njit(nogil=True, cache=True)(function))
