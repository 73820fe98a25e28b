"""Where the package compiles, this folder runs plain Python."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any


class _PlainRecord:
    """A NumPy record with Python's own integers: those of fixed size take no negative mask."""

    def __init__(self, record: Any) -> None:
        for name in record.dtype.names:
            value = record[name]
            setattr(self, name, value.astype(int) if value.ndim else int(value))

    def write_to(self, record: Any) -> None:
        for name, value in vars(self).items():
            record[name] = value


def compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    """As it is."""
    return function


def entry_point(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function, whose first argument is an array of records."""

    @functools.wraps(function)
    def run(records: Any, chosen: Any, *others: Any) -> None:
        plain = {int(n): _PlainRecord(records[n]) for n in chosen}
        function(plain, chosen, *others)
        for n, record in plain.items():
            record.write_to(records[n])

    return run
