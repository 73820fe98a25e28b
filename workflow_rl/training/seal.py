"""Zip archives that carry a digest of themselves: whatever changes in one shows."""

from __future__ import annotations

import hashlib
import io
import zipfile
import zlib

# An archive ends with its comment, and the two bytes before that say how long it is.
_N_DIGITS = 64
_LENGTH = _N_DIGITS.to_bytes(2, "little")
_END, _END_SIZE = b"PK\5\6", 22


def sealed(archive: bytes) -> bytes:
    """The archive, which has no comment, with its SHA-256 as one: still an archive."""
    assert archive[-_END_SIZE:].startswith(_END)
    content = archive[:-2] + _LENGTH
    return content + hashlib.sha256(content).hexdigest().encode()


def is_intact(archive: bytes) -> bool:
    """Whether it is as it was sealed; or, if it never was sealed, its members are as written.

    torch checks no checksums: without this, a bit that flips on disk is another weight.
    """
    content, digest = archive[:-_N_DIGITS], archive[-_N_DIGITS:]
    if hashlib.sha256(content).hexdigest().encode() == digest:
        return True
    if not archive[-_END_SIZE:].startswith(_END):
        return False
    try:
        with zipfile.ZipFile(io.BytesIO(archive)) as file:
            return file.testzip() is None
    except (zipfile.BadZipFile, zlib.error, RuntimeError, EOFError, ValueError, OSError):
        return False
