"""Checks of what a user hands to an environment. Workers import them: no config library."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np


def checked_whole(name: str, value: Any) -> int:
    """Return a whole number, of a type of Python's or NumPy's, as an int.

    Raises ValueError, which calls the value by `name`. Booleans are no numbers.
    """
    try:
        if isinstance(value, bool | np.bool_) or getattr(value, "dtype", None) == np.bool_:
            raise TypeError
        return operator.index(value)
    except TypeError:
        raise ValueError(f"{name}={value!r}: a whole number is needed") from None


def checked_least(name: str, value: Any, least: int) -> int:
    """Return a whole number from `least` up as an int. Raises ValueError."""
    number = checked_whole(name, value)
    if number < least:
        raise ValueError(f"{name}={number}: choose {least} or more")
    return number
