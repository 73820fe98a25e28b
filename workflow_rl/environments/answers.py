"""Rewards and ends as Python's own numbers. Other interpreters import this file, of Python 3.8."""

from __future__ import annotations

from typing import Any

import numpy as np

from workflow_rl.errors import ObservationError

_NUMBERS, _FLAGS = (float, int, np.floating, np.integer, np.bool_), (bool, np.bool_)


def as_reward(value: Any, *what: object) -> float:
    """Return one number of any type as a float: a sum in its own type could overflow.

    what: the words with which the ObservationError for anything else begins.
    """
    try:
        if isinstance(value, _NUMBERS):
            return float(value)
        if _is_number(value):
            return float(np.asarray(value))
        wanted = "a number"
    except OverflowError:
        wanted = "a number that float64 holds"
    raise ObservationError(f"{' '.join(map(str, what))} is {value!r:.80}, not {wanted}")


def as_flag(value: Any, *what: object) -> bool:
    """Return True, False, 1 or 0 of any type as a bool. what: see `as_reward`."""
    if isinstance(value, _FLAGS) or (_is_number(value) and value in (0, 1)):
        return bool(value)
    raise ObservationError(f"{' '.join(map(str, what))} is {value!r:.80}, not True or False")


def _is_number(value: Any) -> bool:
    array = np.asanyarray(value)
    return array.dtype.kind in "biuf" and not (array.ndim or np.ma.is_masked(array))
