"""Reads the files of a submission, from its folder or from a zip of the folder.

This module needs only Python, because submissions contain a copy.
"""

from __future__ import annotations

import hashlib
import os
from typing import Any

LIST = "files.sha256"


def require_whole() -> None:
    """Check every file that LIST names. Raises OSError, which names a damaged file."""
    for line in read_handed_in(LIST).decode(errors="replace").rstrip("\n").split("\n"):
        digest, _, name = line.partition("  ")
        if hashlib.sha256(read_handed_in(name)).hexdigest() != digest:
            raise _damaged(name)


def read_handed_in(name: str) -> bytes:
    """Return the content of a file beside this module. Raises OSError, which names the file."""
    try:
        # A search by name could find another submission's module in this process.
        loader: Any = __spec__.loader
        content: bytes = loader.get_data(os.path.join(os.path.dirname(__file__), name))
    except Exception:  # A damaged zip can raise anything.
        raise _damaged(name) from None
    return content


def _damaged(name: str) -> OSError:
    return OSError(f"{name!r} is missing or not as it was exported: export the agent again")
