"""The steps that an agent remembers, in files beside the latest checkpoint of its run.

The checkpoint names its files, with a digest of each. A file that a checkpoint names never changes:
a later checkpoint has further files for further steps, and files that it does not name are removed
once it is in place. So a run that is killed at any moment leaves a checkpoint with all its files.
"""

from __future__ import annotations

import hashlib
import itertools
import os
import re
import stat
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from agents.mbpo.agent import MBPOAgent
from agents.replay import ReplayBuffer, Transitions
from workflow_rl.output_files import replacing

FOLDER = "memory"
REAL, IMAGINED = "real", "imagined"
CHUNK_BYTES = 2**24
_MOST_STEPS = 2**53
_DIGEST = re.compile("[0-9a-f]{64}")


class Part(NamedTuple):
    """A file with the steps from number `first` up to `end`, counted from the run's first step of
    this kind. digest: the file's SHA-256."""

    kind: str
    first: int
    end: int
    digest: str

    @property
    def name(self) -> str:
        """The file's, in the folder."""
        return f"{self.kind}-{self.first:09}-{self.end:09}.npy"


def parts_of(values: Sequence[Any]) -> list[Part]:
    """Parts as a checkpoint keeps them. Raises TypeError or ValueError for what are none."""
    parts = [Part._make(one) for one in values]
    for kind, first, end, digest in parts:
        counts = [type(number) is int for number in (first, end)]
        if kind not in (REAL, IMAGINED) or not all(counts) or not 0 <= first < end < _MOST_STEPS:
            raise ValueError("it names a file of no steps")
        if not _DIGEST.fullmatch(digest):
            raise ValueError("it names a file without a digest")
    return parts


def write(folder: Path, agent: MBPOAgent, before: Sequence[Part]) -> list[Part]:
    """Write what the agent remembers, but for what is in files `before`. Returns all its files."""
    folder.mkdir(exist_ok=True)
    replay, known = agent.replay, {part[:3]: part for part in before}
    parts, first = _still_fit([part for part in before if part.kind == REAL], replay)
    if first < replay.n_added:
        parts.append(_written(folder, REAL, first, replay.n_added, replay.numbered))
    end = agent.imagined_steps - sum(steps.n_steps for steps in agent.imagined)
    for steps in agent.imagined:
        first, end = end, end + steps.n_steps
        part = known.get((IMAGINED, first, end))
        steps_of = partial(_steps_of, steps, first)
        parts.append(part or _written(folder, IMAGINED, first, end, steps_of))
    return parts


def _steps_of(steps: Transitions, first: int, start: int, stop: int) -> Transitions:
    """Those from number `start` up to `stop` of some that begin with number `first`."""
    return steps.at(slice(start - first, stop - first))


def _still_fit(before: list[Part], replay: ReplayBuffer) -> tuple[list[Part], int]:
    """The files of real steps that stay, and the number from which on a file has to be written.

    A file that is no larger than what comes after it becomes part of the next one: so a few files
    are enough, and a step is written a few times.
    """
    parts = [part for part in before if part.end > replay.oldest]
    first = parts[-1].end if parts else replay.oldest
    while parts and 0 < replay.n_added - first >= parts[-1].end - parts[-1].first:
        first = max(parts.pop().first, replay.oldest)
    return parts, first


def _written(
    folder: Path, kind: str, first: int, end: int, steps_of: Callable[[int, int], Transitions]
) -> Part:
    """A file of rows, one a step; never more than CHUNK_BYTES of it are in memory."""
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
        for start, stop in _chunks(first, end, row.itemsize):
            rows = np.empty(stop - start, row)
            for name, column in steps_of(start, stop)._asdict().items():
                rows[name] = column
            file.write(rows.view(np.uint8))
    return part._replace(digest=_digest(folder / part.name))


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _chunks(first: int, end: int, row_bytes: int) -> Iterator[tuple[int, int]]:
    size = max(1, CHUNK_BYTES // row_bytes)
    return ((start, min(start + size, end)) for start in range(first, end, size))


def remove_others(folder: Path, parts: Sequence[Part]) -> None:
    """Remove the files of steps that are none of these."""
    names = {part.name for part in parts}
    for kind in (REAL, IMAGINED):
        for file in folder.glob(f"{kind}-*.npy"):
            if file.name not in names:
                file.unlink()


def read(folder: Path, parts: Sequence[Part], agent: MBPOAgent) -> None:
    """Have the agent remember the steps of these files. Raises OSError and ValueError, naming the
    file if it is one that is to blame."""
    real = [part for part in parts if part.kind == REAL]
    imagined = [part for part in parts if part.kind == IMAGINED]
    n_real = real[-1].end if real else 0
    oldest = max(0, n_real - agent.replay.capacity)
    n_imagined = imagined[-1].end if imagined else agent.imagined_steps
    complete = not real or real[0].first <= oldest
    if not (complete and _follow(real) and _follow(imagined)) or n_imagined != agent.imagined_steps:
        raise ValueError("the files that it names are not all of its agent's steps")
    _require_room(folder, parts, oldest)

    def real_steps() -> Iterator[Transitions]:
        for part in real:
            rows = _rows(folder, part)
            for start, stop in _chunks(max(oldest, part.first), part.end, rows.itemsize):
                yield _steps(rows[start - part.first : stop - part.first])

    kept = [_steps(np.array(_rows(folder, part))) for part in imagined]
    agent.remember(n_real, real_steps(), kept)


def _follow(parts: Sequence[Part]) -> bool:
    return all(one.end == following.first for one, following in itertools.pairwise(parts))


def _steps(rows: NDArray[Any]) -> Transitions:
    return Transitions._make(rows[name] for name in Transitions._fields)


def _require_room(folder: Path, parts: Sequence[Part], oldest: int) -> None:
    """A file can say that it is larger than all that is on the disk."""
    needed = 0
    for part in parts:
        about = (folder / part.name).stat()
        if not stat.S_ISREG(about.st_mode):
            raise ValueError(f"{folder / part.name} is no file")
        first = max(part.first, oldest) if part.kind == REAL else part.first
        needed += about.st_size * (part.end - first) // (part.end - part.first)
    has = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    if needed > has:
        raise ValueError(
            f"the steps in {folder} take {needed / 1e9:,.1f} GB of memory, and this machine has "
            f"{has / 1e9:,.1f} GB"
        )


def _rows(folder: Path, part: Part) -> NDArray[Any]:
    """The file as it is on the disk, nothing of it read into memory yet."""
    path = folder / part.name
    if _digest(path) != part.digest:
        raise ValueError(f"{path} is damaged, or of another checkpoint")
    try:
        rows = np.load(path, mmap_mode="r", allow_pickle=False)
    except Exception:  # Whatever somebody else's file makes of its reader.
        rows = None
    shape = (part.end - part.first,)
    if (
        not isinstance(rows, np.memmap)
        or (rows.dtype.names, rows.shape) != (Transitions._fields, shape)
        or not rows.nbytes
    ):
        raise ValueError(f"{path} holds no steps")
    return rows
