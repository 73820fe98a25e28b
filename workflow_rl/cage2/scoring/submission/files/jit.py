"""Plain Python in the place of the package's compiled functions."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

int64 = int


class _PlainRecord:
    """A NumPy record with Python's own numbers. Integers of fixed size take no negative mask."""

    def __init__(self, record: Any) -> None:
        for name in record.dtype.names:
            value = record[name]
            setattr(self, name, value.astype(_plain(value)) if value.ndim else value.item())

    def copy(self) -> _PlainRecord:
        copied = _PlainRecord.__new__(_PlainRecord)
        for name, value in vars(self).items():
            setattr(copied, name, value.copy() if isinstance(value, np.ndarray) else value)
        return copied

    def write_to(self, record: Any) -> None:
        for name, value in vars(self).items():
            record[name] = value


class _PlainRecords:
    """An array of NumPy records that gives plain records."""

    def __init__(self, records: Any) -> None:
        self._records = records
        self._plain: dict[int, Any] = {}

    def __getitem__(self, n: int) -> Any:
        if n not in self._plain:
            part = self._records[n]
            self._plain[n] = _PlainRecords(part) if part.ndim else _PlainRecord(part)
        return self._plain[n]

    def __setitem__(self, n: int, record: _PlainRecord) -> None:
        self._plain[n] = record.copy()

    def write(self) -> None:
        for n, part in self._plain.items():
            if isinstance(part, _PlainRecords):
                part.write()
            else:
                part.write_to(self._records[n])


def _plain(values: Any) -> type:
    return float if values.dtype.kind == "f" else int


def compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    return function


def entry_point(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return the function with plain records in the place of arrays of records."""

    @functools.wraps(function)
    def run(*arguments: Any) -> None:
        arrays = [_PlainRecords(a) if _has_records(a) else a for a in arguments]
        function(*arrays)
        for array in arrays:
            if isinstance(array, _PlainRecords):
                array.write()

    return run


def _has_records(argument: Any) -> bool:
    return isinstance(argument, np.ndarray) and argument.dtype.names is not None
