"""Zip archives that somebody else may have made.

They are read without unpacking more than their size, and sealed with their own digest, so that
every change shows.
"""

from __future__ import annotations

import hashlib
import io
import os
import stat
import struct
import zipfile
import zlib
from pathlib import Path

MOST_BYTES = 4 * 2**30

# An archive ends with its comment. The two bytes before the comment are its length.
_N_DIGITS = 64
_LENGTH = _N_DIGITS.to_bytes(2, "little")
_END, _END_SIZE = b"PK\5\6", 22
_NO_ARCHIVE = (
    zipfile.BadZipFile,
    zlib.error,
    struct.error,
    RuntimeError,  # NotImplementedError too.
    EOFError,
    ValueError,
    OSError,
)


def sealed(archive: bytes) -> bytes:
    """Return an archive without a comment with its SHA-256 as its comment."""
    assert archive[-_END_SIZE:].startswith(_END)
    content = archive[:-2] + _LENGTH
    return content + hashlib.sha256(content).hexdigest().encode()


def read_archive(path: Path, archive: bytes | None = None) -> bytes:
    """Return an intact archive whose members are stored uncompressed, without overlaps.

    archive: what the file holds, if it was read already.

    NumPy writes such archives. A few kilobytes that are compressed, or that many members
    share, could unpack to more than any memory holds.

    Raises OSError, and ValueError for any other file.
    """
    archive = _content(path) if archive is None else archive
    try:
        with zipfile.ZipFile(io.BytesIO(archive)) as members:
            about = members.infolist()
    except _NO_ARCHIVE as error:
        raise ValueError("it is no archive") from error
    if any(member.compress_type != zipfile.ZIP_STORED for member in about):
        raise ValueError("its members are compressed")
    if sum(member.file_size for member in about) > len(archive):
        raise ValueError("it would unpack to more than it holds")
    if not is_intact(archive):
        raise ValueError("it is not as it was written")
    return archive


def _content(path: Path) -> bytes:
    if not stat.S_ISREG(path.stat().st_mode):  # Reading a pipe may never end.
        raise ValueError("it is no file")
    with path.open("rb") as file:
        start = file.read(4)
        if start != b"PK\3\4" or os.fstat(file.fileno()).st_size > MOST_BYTES:
            raise ValueError("it is no archive, or one of more than 4 GB")
        return start + file.read()


def is_intact(archive: bytes) -> bool:
    """Whether an archive is as it was sealed. Without a seal: whether its members are as written.

    NumPy's reader accepts most changes: without this check, a bit that flips on the disk changes a
    weight.
    """
    content, digest = archive[:-_N_DIGITS], archive[-_N_DIGITS:]
    if hashlib.sha256(content).hexdigest().encode() == digest:
        return True
    end = archive[-_END_SIZE:]
    if not end.startswith(_END) or not end.endswith(b"\0\0"):
        return False
    try:
        with zipfile.ZipFile(io.BytesIO(archive)) as file:
            # A directory entry whose comment has grown would hide the entries behind it.
            n_members = int.from_bytes(end[10:12], "little")
            return len(file.namelist()) == n_members and file.testzip() is None
    except _NO_ARCHIVE:
        return False
