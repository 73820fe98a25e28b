"""Zip archives that somebody else may have made: read without unpacking more than there is."""

from __future__ import annotations

import io
import os
import struct
import zipfile
from pathlib import Path

MOST_BYTES = 4 * 2**30


def read_archive(path: Path) -> bytes:
    """An archive whose members are stored as they are, one beside the other.

    That is how torch and NumPy write theirs. A few kilobytes that are compressed, or that many
    members share, can unpack to more than any memory holds.

    Raises OSError, and ValueError if it is no such archive.
    """
    with path.open("rb") as file:
        start = file.read(4)
        if start != b"PK\3\4" or os.fstat(file.fileno()).st_size > MOST_BYTES:
            raise ValueError("it is no archive, or one of more than 4 GB")
        archive = start + file.read()
    try:
        with zipfile.ZipFile(io.BytesIO(archive)) as members:
            about = members.infolist()
    except (zipfile.BadZipFile, NotImplementedError, ValueError, EOFError, struct.error) as error:
        raise ValueError("it is no archive") from error
    if any(member.compress_type != zipfile.ZIP_STORED for member in about):
        raise ValueError("its members are compressed")
    if sum(member.file_size for member in about) > len(archive):
        raise ValueError("it would unpack to more than it holds")
    return archive
