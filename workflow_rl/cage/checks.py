"""Check a user's values for an environment. Workers import this module without pydantic."""

import operator
from typing import Any

import numpy as np


def checked_whole(name: str, value: Any) -> int:
    """Return an integer of Python or NumPy as an int.

    Raises ValueError for any other value, also for booleans. The message calls the value `name`."""
    try:
        if isinstance(value, bool | np.bool_) or getattr(value, "dtype", None) == np.bool_:
            raise TypeError
        return operator.index(value)
    except TypeError:
        raise ValueError(f"{name}={value!r}: a whole number is needed") from None


def checked_least(name: str, value: Any, least: int) -> int:
    """Return an integer of Python or NumPy as an int. Raises ValueError, also below `least`."""
    number = checked_whole(name, value)
    if number < least:
        raise ValueError(f"{name}={number}: choose {least} or more")
    return number
