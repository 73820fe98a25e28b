"""Files that are written in one step: a reader, or a crash, finds the old one or the new one.

And read only if they are files, of a size that is to be expected.
"""

from __future__ import annotations

import hashlib
import os
import stat
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

NOT_OURS = (
    *(OSError, ValueError, LookupError, TypeError, AttributeError),
    *(ArithmeticError, RecursionError),
)
"""What a file that is missing, damaged or somebody else's makes of its reader."""


@contextmanager
def replacing(path: Path, mode: str = "w", **options: Any) -> Iterator[IO[Any]]:
    """A file that takes the place of `path`, on disk, once all is written; if not, nothing does.

    mode, options: those of `open`.
    """
    temporary = _temporary(path)
    try:
        with open(temporary, mode, opener=no_link, **options) as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def no_link(path: str, flags: int) -> int:
    """Open a file, as `open`'s opener, but not what a link points to: a folder from somebody else
    may hold links to the user's own files."""
    return os.open(path, flags | os.O_NOFOLLOW, 0o666)


def private_folder() -> Path:
    """A temporary folder of this user alone, which stays, for where home cannot be written.

    Raises OSError if somebody else has made it.
    """
    folder = Path(tempfile.gettempdir(), f"workflow_rl-{os.getuid()}")
    folder.mkdir(mode=0o700, exist_ok=True)
    about = folder.lstat()
    if about.st_uid != os.getuid() or stat.S_IMODE(about.st_mode) != 0o700:
        raise PermissionError(f"{folder} is open to others: remove it")
    return folder


def require_no_links(*folders: Path) -> None:
    """Raises ValueError if one of these folders is a link: what is written in it would be written
    elsewhere, in a folder from somebody else perhaps among the user's own files."""
    for folder in folders:
        if folder.is_symlink():
            raise ValueError(f"{folder} is a link: put the folder itself there")


def write_text(path: Path, text: str) -> None:
    """Replace `path` in one step. What no UTF-8 can hold, as of a folder's name, is escaped."""
    with replacing(path, encoding="utf-8", errors="backslashreplace") as file:
        file.write(text)


def read_text(path: Path, most: int) -> str:
    """The text of a file of at most so many bytes. Raises OSError, and ValueError for another."""
    about = path.stat()
    if not stat.S_ISREG(about.st_mode) or about.st_size > most:
        raise ValueError(f"it is no file of at most {most} bytes")
    return path.read_text(encoding="utf-8")


def sha256_of(path: Path, most: int) -> str | None:
    """The digest of a file of at most so many bytes; None of another, or one that cannot be
    read."""
    try:
        about = path.stat()
        if stat.S_ISREG(about.st_mode) and about.st_size <= most:
            with path.open("rb") as file:
                return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError:
        pass
    return None


def require_writable(path: Path, option: str) -> None:
    """Raises click.BadParameter, naming the option, if `path` could not be written."""
    import click  # Workers import this module, and need no command line.

    if path.is_dir():
        raise click.BadParameter(f"{path} is a folder: give a file", param_hint=option)
    temporary = _temporary(path)
    try:
        open(temporary, "a", opener=no_link).close()
        temporary.unlink()
    except OSError as error:
        raise click.BadParameter(
            f"{path} cannot be written: {error.strerror}", param_hint=option
        ) from None


def require_writable_folder(path: Path, option: str) -> None:
    """Make the folder if need be. Raises click.BadParameter if nothing can be written in it."""
    import click

    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise click.BadParameter(
            f"{path} cannot be made a folder: {error.strerror}", param_hint=option
        ) from None
    require_writable(path / "a file", option)


def remove_unfinished(folder: Path) -> None:
    """Remove what a process that was killed had not finished writing in the folder or below it."""
    for file in folder.rglob(_temporary(Path("*")).name):
        file.unlink()


def _temporary(path: Path) -> Path:
    return path.with_name(f".{path.name}.writing")


def require_numbers(*values: Any) -> None:
    """Raise ValueError if one of these values of a JSON file is not a number that a float holds."""
    for value in values:
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if not is_number or (isinstance(value, int) and abs(value) > sys.float_info.max):
            raise ValueError(f"{repr(value)[:50]} stands where a number should be")
