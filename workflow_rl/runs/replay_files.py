"""The steps that an agent remembers, in files beside the latest checkpoint of its run.

The checkpoint names its files, with a digest of each file. A named file never changes. A later
checkpoint names further files for further steps. After a checkpoint is written, the files that it
does not name are removed. So a run that is killed at any moment leaves a checkpoint with all its
files.
"""

import hashlib
import itertools
import os
import re
import stat
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from workflow_rl.agents.algorithm import Series
from workflow_rl.agents.replay import Transitions
from workflow_rl.output_files import make_folder, no_pipe, remove_own, replacing

CHUNK_BYTES = 2**24
_MOST_STEPS = 2**53
_KIND, _DIGEST = re.compile("[a-z]+"), re.compile("[0-9a-f]{64}")
_FILE = re.compile(r"[a-z]+-\d{9,}-\d{9,}\.npy")


class Part(NamedTuple):
    """A file with the steps from number `first` up to `end` of a series of the agent's memory.

    kind: the name of the series. digest: the file's SHA-256.
    """

    kind: str
    first: int
    end: int
    digest: str

    @property
    def name(self) -> str:
        return f"{self.kind}-{self.first:09}-{self.end:09}.npy"


def parts_of(values: Sequence[Any]) -> list[Part]:
    """Return parts from a checkpoint's values. Raises TypeError or ValueError for other values."""
    parts = [Part._make(value) for value in values]
    for kind, first, end, digest in parts:
        counts = [type(number) is int for number in (first, end)]
        if not _KIND.fullmatch(kind) or not all(counts) or not 0 <= first < end < _MOST_STEPS:
            raise ValueError("it names a file of no steps")
        if not _DIGEST.fullmatch(digest):
            raise ValueError("it names a file without a digest")
    return parts


def write(folder: Path, memory: Mapping[str, Series], before: Sequence[Part]) -> list[Part]:
    """Write what an agent remembers, except steps in the files `before`. Return all its files."""
    make_folder(folder)
    parts = []
    for kind, series in memory.items():
        for start, end in series.pieces:
            written = [part for part in before if part.kind == kind and start < part.end <= end]
            kept, first = _still_fit(written, start, end)
            parts += kept
            if first < end:
                parts.append(_written(folder, kind, first, end, series.numbered))
    return parts


def _still_fit(before: list[Part], start: int, end: int) -> tuple[list[Part], int]:
    """Return the files of a piece that remain, and the number of the first step for a new file.

    If a file is not larger than the steps after it, its steps are written again in the new file. So
    there are few files, and a step is written only a few times.
    """
    parts = before.copy()
    first = parts[-1].end if parts else start
    while parts and 0 < end - first >= parts[-1].end - parts[-1].first:
        first = max(parts.pop().first, start)
    return parts, first


def _written(
    folder: Path, kind: str, first: int, end: int, steps_of: Callable[[int, int], Transitions]
) -> Part:
    """Write a file with a row for each step. At most CHUNK_BYTES are in memory at a time."""
    columns = steps_of(first, first + 1)._asdict().items()
    row = np.dtype([(name, column.dtype, column.shape[1:]) for name, column in columns])
    header = {
        "descr": np.lib.format.dtype_to_descr(row),
        "fortran_order": False,
        "shape": (end - first,),
    }
    part = Part(kind, first, end, "")
    with replacing(folder / part.name, "wb") as file:
        np.lib.format.write_array_header_1_0(file, header)
        size = max(1, CHUNK_BYTES // row.itemsize)
        for start in range(first, end, size):
            stop = min(start + size, end)
            rows = np.empty(stop - start, row)
            for name, column in steps_of(start, stop)._asdict().items():
                rows[name] = column
            file.write(rows.view(np.uint8))
    return part._replace(digest=_digest(folder / part.name))


def _digest(path: Path) -> str:
    with open(path, "rb", opener=no_pipe) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def remove_others(folder: Path, parts: Sequence[Part]) -> None:
    names = {part.name for part in parts}
    for file in folder.glob("*.npy"):
        if _FILE.fullmatch(file.name) and file.name not in names:
            remove_own(file)


def read_parts(folder: Path, parts: Sequence[Part], memory: Mapping[str, Series]) -> None:
    """Load the steps of these files into an agent's memory. Raises OSError and ValueError, which
    name a wrong file."""
    of_kind: dict[str, list[Part]] = {kind: [] for kind in memory}
    for part in parts:
        if part.kind not in memory:
            raise ValueError(f"its agent remembers no {part.kind} steps")
        of_kind[part.kind].append(part)
    oldest = {}
    for kind, pieces in of_kind.items():
        first, end = (pieces[0].first, pieces[-1].end) if pieces else (0, 0)
        capacity = memory[kind].capacity
        oldest[kind] = first if capacity is None else max(0, end - capacity)
        follow = all(part.end == later.first for part, later in itertools.pairwise(pieces))
        if first > oldest[kind] or not follow:
            raise ValueError("the files that it names are not all of its agent's steps")
    _require_room(folder, parts, oldest)
    for kind, pieces in of_kind.items():
        rows = (_rows(folder, part)[max(0, oldest[kind] - part.first) :] for part in pieces)
        memory[kind].load(pieces[-1].end if pieces else 0, map(_steps, rows))


def _steps(rows: NDArray[Any]) -> Transitions:
    return Transitions._make(rows[name] for name in Transitions._fields)


def _require_room(folder: Path, parts: Sequence[Part], oldest: Mapping[str, int]) -> None:
    """Raise ValueError for more steps than fit in memory, because a file can claim any size."""
    needed = 0
    for part in parts:
        about = (folder / part.name).stat()
        if not stat.S_ISREG(about.st_mode):
            raise ValueError(f"{folder / part.name} is no file")
        first = max(part.first, oldest[part.kind])
        needed += about.st_size * (part.end - first) // (part.end - part.first)
    has = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    if needed > has:
        raise ValueError(
            f"the steps in {folder} take {needed / 1e9:,.1f} GB of memory, and this machine has "
            f"{has / 1e9:,.1f} GB"
        )


def _rows(folder: Path, part: Part) -> NDArray[Any]:
    """Return the rows of a file, which are not read into memory yet."""
    path = folder / part.name
    if _digest(path) != part.digest:
        raise ValueError(f"{path} is damaged, or of another checkpoint")
    try:
        rows = np.load(path, mmap_mode="r", allow_pickle=False)
    except Exception:  # A stranger's file can raise any exception in its reader.
        rows = None
    shape = (part.end - part.first,)
    if (
        not isinstance(rows, np.memmap)
        or (rows.dtype.names, rows.shape) != (Transitions._fields, shape)
        or not rows.nbytes
    ):
        raise ValueError(f"{path} holds no steps")
    return rows
