"""Run the package's compiled functions as plain Python, without numba."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

int64 = int


class _PlainRecord:
    """A copy of a NumPy record with Python's integers.

    NumPy's unsigned integers raise an error for a mask such as ~1. Python's integers do not."""

    def __init__(self, record: Any) -> None:
        for name in record.dtype.names:
            value = record[name]
            # A field is an array or a single number.
            plain = value.astype(_plain_type(value)) if value.ndim else value.item()
            setattr(self, name, plain)

    def copy(self) -> _PlainRecord:
        copied = _PlainRecord.__new__(_PlainRecord)
        for name, value in vars(self).items():
            setattr(copied, name, value.copy() if isinstance(value, np.ndarray) else value)
        return copied

    def write_to(self, record: Any) -> None:
        for name, value in vars(self).items():
            record[name] = value


class _PlainRecords:
    """An array of NumPy records, which returns plain records."""

    def __init__(self, records: Any) -> None:
        self._records = records
        self._made: dict[int, Any] = {}

    def __getitem__(self, n: int) -> Any:
        if n not in self._made:
            part = self._records[n]
            is_row = part.ndim > 0
            self._made[n] = _PlainRecords(part) if is_row else _PlainRecord(part)
        return self._made[n]

    def __setitem__(self, n: int, record: _PlainRecord) -> None:
        self._made[n] = record.copy()

    def write(self) -> None:
        for n, part in self._made.items():
            if isinstance(part, _PlainRecords):
                part.write()
            else:
                part.write_to(self._records[n])


def _plain_type(values: Any) -> type:
    return float if values.dtype.kind == "f" else int


def compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    return function


def entry_point(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that calls `function` with plain records, and then writes the plain
    records back into the arrays."""

    @functools.wraps(function)
    def run(*arguments: Any) -> None:
        plain = [_PlainRecords(a) if _has_records(a) else a for a in arguments]
        function(*plain)
        for argument in plain:
            if isinstance(argument, _PlainRecords):
                argument.write()

    return run


def _has_records(argument: Any) -> bool:
    return isinstance(argument, np.ndarray) and argument.dtype.names is not None
