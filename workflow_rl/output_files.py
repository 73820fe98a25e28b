"""Write each file in one step: after a crash, too, a reader finds the old file or the new file.

The readers here refuse links, pipes and files of an unexpected size. Only this module writes files,
makes folders in a run's folder, or removes files there. Only `put` replaces a file, and only
`remove_own` removes a file. Callers name only outputs of our commands: in a run's folder, which its
id or record identifies, or where the user names an output.
"""

import errno
import fcntl
import functools
import hashlib
import json
import os
import shutil
import stat
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

from workflow_rl.errors import UserError

NOT_OURS = (
    OSError, ValueError, LookupError, TypeError, AttributeError,
    ArithmeticError, RecursionError,
)  # fmt: skip
"""The errors of reading a file that is missing, damaged or a stranger's."""
MOST_OF_RECORD, MOST_OF_LONG_RECORD = 2**20, 2**26
"""The most bytes of a JSON file that we write, and of a JSON file that grows with a study."""
MOST_OF_AGENT = 2**32
"""The most bytes of a checkpoint or a policy file."""
A_LINK = "is a link: put what it leads to there"
_WRITING = ".writing"
UNFINISHED = f".{'[0-9a-f]' * 16}{_WRITING}"
"""The pattern of the names that `replacing` gives to unfinished files."""


@contextmanager
def replacing(path: Path, mode: str = "w", **options: Any) -> Iterator[IO[Any]]:
    """Yield a new file, which replaces `path` at the end. After an error `path` is unchanged.

    mode, options: see `open`. Raises OSError, which names `path`.
    """
    temporary = _temporary(path)
    try:
        with open(temporary, mode, opener=_new, **options) as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        put(temporary, path)
    except BaseException as error:
        remove_own(temporary)
        unnamed = (None, str(temporary))
        if isinstance(error, OSError) and error.errno is not None and error.filename in unnamed:
            error.filename, error.filename2 = str(path), None
        raise


def put(whole: Path, path: Path) -> None:
    """Move a complete file or folder to `path`, where it replaces a file or an empty folder. Raises
    OSError if `path` is a link, a pipe or a device, which then stays."""
    _require_no_other(path)
    whole.replace(path)


def remove_own(path: Path) -> None:
    """Remove a file or an empty folder that the package has made, if it exists. Raises OSError if
    `path` is a link, a pipe, a device or a folder with content, which then stays."""
    _require_no_other(path)
    with suppress(FileNotFoundError):
        path.rmdir() if path.is_dir() else path.unlink()


def _require_no_other(path: Path) -> None:
    """Raise OSError if the path exists, but is neither a file nor a folder."""
    with suppress(FileNotFoundError):
        mode = path.lstat().st_mode
        if stat.S_ISLNK(mode):
            raise OSError(errno.ELOOP, f"{path.name} {A_LINK}", str(path))
        if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
            raise OSError(errno.EINVAL, f"{path.name} is no file", str(path))


def _new(path: str, flags: int, mode: int = 0o666) -> int:
    """Make a new file, as `open`'s opener.

    The lock tells `remove_unfinished` that a process is writing the file.
    """
    descriptor = os.open(path, flags | os.O_EXCL, mode)
    with suppress(OSError):  # Not all file systems have locks.
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    return descriptor


def no_link(path: str, flags: int) -> int:
    """Open a file, as `open`'s opener. Raises OSError for links and pipes, because a stranger's
    folder may hold links to the user's own files."""
    return no_pipe(path, flags | os.O_NOFOLLOW)


def no_pipe(path: str, flags: int) -> int:
    """Open a file, as `open`'s opener. Raises OSError for pipes, which an open would wait for, and
    devices, even if one replaces the file after a check of the path."""
    descriptor = os.open(path, flags | os.O_NONBLOCK, 0o666)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, "it is no file", path)
    return descriptor


def appending(path: Path, **options: Any) -> IO[str]:
    """Open a text file to append text. Raises OSError, also for a link."""
    return open(path, "a", opener=no_link, **options)


def new_file(path: Path) -> IO[bytes]:
    """Make and open a new file. Raises OSError, also if it exists."""
    return open(path, "xb")


def copy_file(source: Path, path: Path, most: int) -> None:
    """Replace `path` by a copy of a file. Raises ValueError if it has more than `most` bytes, and
    OSError, also for a link, because it may lead to a secret file of the user."""
    _require_file(source, most)
    _require_no_other(source)
    with open(source, "rb", opener=no_link) as file, replacing(path, "wb") as copy:
        shutil.copyfileobj(file, copy)


def make_folder(path: Path) -> None:
    """Make a folder in a run's folder if it is missing. Raises OSError, also if the folder is a
    link, because its files would be written elsewhere."""
    path.mkdir(exist_ok=True)
    if path.is_symlink():
        raise OSError(errno.ELOOP, f"{path.name} {A_LINK}", str(path))


def begin_folder(path: Path, name: str, content: Any) -> None:
    """Make a folder, which must be new or empty, with this file of JSON in it. Raises UserError."""
    try:
        path.mkdir(parents=True, exist_ok=True)
        if not all(entry.match(UNFINISHED) for entry in path.iterdir()):
            raise UserError(
                f"{path} is not empty: choose another folder, or go on with --resume (in Python "
                "resume=True)"
            )
        remove_unfinished(path)
        write_json(path / name, content)
    except OSError as error:
        raise UserError(f"{path} cannot be used: {error.strerror}") from None


def private_folder(make: bool = True) -> Path:
    """Return this user's private temporary folder, which replaces a home that cannot be written.

    make: whether to make the folder. Raises OSError if the folder is missing or another user's, or
    if Python's only temporary folder is the current folder, which may be a stranger's.
    """
    place = tempfile.gettempdir()
    if place == os.getcwd() and place != "/tmp":
        raise PermissionError(errno.EACCES, "it is the current folder", place)
    folder = Path(place, f"workflow_rl-{os.getuid()}")
    if make:
        folder.mkdir(mode=0o700, exist_ok=True)
    about = folder.lstat()
    if about.st_uid != os.getuid() or stat.S_IMODE(about.st_mode) != 0o700:
        raise PermissionError(f"{folder} is open to others: remove it")
    return folder


def made_once(path: Path, content: bytes) -> bytes:
    """Make a file that only this user may read, and its folder, unless the file exists. Return the
    file's content. Only one of several processes makes the file. Raises what `read_private` raises.
    """
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        temporary = _temporary(path)
        try:
            with open(temporary, "wb", opener=functools.partial(_new, mode=0o600)) as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            with suppress(FileExistsError):
                os.link(temporary, path)
        finally:
            remove_own(temporary)
    return read_private(path, len(content))


def read_private(path: Path, least: int) -> bytes:
    """Return the content of a file that only this user may read. Raises OSError, also if others may
    read the file, or if it has fewer than `least` bytes."""
    with open(path, "rb", opener=no_link) as file:
        about = os.fstat(file.fileno())
        if about.st_uid != os.getuid() or stat.S_IMODE(about.st_mode) & 0o077:
            raise PermissionError(errno.EACCES, "it is open to others", str(path))
        if about.st_size < least:
            raise OSError(errno.EINVAL, f"it has fewer bytes than {least}", str(path))
        return file.read()


def require_no_links(*paths: Path) -> None:
    """Raise ValueError if one of these files and folders is a link. A link in a stranger's folder
    could lead to the user's own files, which would be overwritten."""
    for path in paths:
        if path.is_symlink():
            raise ValueError(f"{path} {A_LINK}")


def write_text(path: Path, text: str) -> None:
    """Replace `path` in one step. Escape characters that UTF-8 cannot encode, as in file names."""
    with replacing(path, encoding="utf-8", errors="backslashreplace") as file:
        file.write(text)


def write_json(path: Path, content: Any) -> None:
    write_text(path, json.dumps(content, indent=2) + "\n")


def written(path: Path, text: str) -> str:
    """Replace `path` in one step. Return its path, and whether the file existed, as text."""
    before = " (in the place of an earlier one)" if path.exists() else ""
    write_text(path, text)
    return f"{path}{before}"


def read_text(path: Path, most: int) -> str:
    """Return a file's text. Raises OSError, and ValueError if it has more than `most` bytes."""
    _require_file(path, most)
    with open(path, encoding="utf-8", opener=no_pipe) as file:
        return file.read(most)


def read_json(path: Path, most: int = MOST_OF_RECORD) -> Any:
    """Return a JSON file's content. Raises NOT_OURS, also if it has more than `most` bytes."""
    return json.loads(read_text(path, most))


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """Turn each error of NOT_OURS into a UserError that names the file."""
    try:
        yield
    except KeyError as error:
        raise UserError(f"{path} cannot be read: it has no {error!s:.300}") from None
    except NOT_OURS as error:  # The error may quote a long value of the file.
        raise UserError(f"{path} cannot be read: {str(error)[:300]}") from None


def _require_file(path: Path, most: int) -> None:
    about = path.stat()
    if not stat.S_ISREG(about.st_mode):
        raise ValueError("it is no regular file")
    if about.st_size > most:
        raise ValueError(f"it has more than {most:,} bytes")


def sha256_of(path: Path) -> str | None:
    """Return the SHA-256 of an agent's file. Return None if it is too large or not readable."""
    with suppress(OSError, ValueError):
        _require_file(path, MOST_OF_AGENT)
        with open(path, "rb", opener=no_pipe) as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    return None


def require_writable(path: Path, option: str) -> None:
    """Raise click.BadParameter, which names the option, if `path` cannot be written."""
    import click  # Workers import this module, and need no command line.

    if path.is_dir():
        raise click.BadParameter(f"{path} is a folder: give a file", param_hint=option)
    temporary = _temporary(path)
    try:
        _require_no_other(path)
        open(temporary, "w", opener=_new).close()
        remove_own(temporary)
    except OSError as error:
        told = f"{path} cannot be written: {error.strerror}"
        raise click.BadParameter(told, param_hint=option) from None


def require_writable_folder(path: Path, option: str) -> None:
    """Make a missing folder. Raises click.BadParameter if no file can be written in the folder."""
    import click

    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        told = f"{path} cannot be made a folder: {error.strerror}"
        raise click.BadParameter(told, param_hint=option) from None
    require_writable(path / "a file", option)


def remove_unfinished(folder: Path) -> None:
    """Remove the unfinished files of killed processes from the folder and its subfolders."""
    for path in folder.rglob(UNFINISHED):
        # Files that another process is writing are locked. Links and folders raise OSError.
        with suppress(OSError), open(path, "a", opener=no_link) as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            remove_own(path)


def _temporary(path: Path) -> Path:
    """Return a random path that no other process uses, and that no attacker can have prepared."""
    return path.with_name(f".{os.urandom(8).hex()}{_WRITING}")


def require_numbers(*values: Any) -> None:
    """Raise ValueError if one of these values of a JSON file is not a number that a float holds."""
    for value in values:
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if not is_number or (isinstance(value, int) and abs(value) > sys.float_info.max):
            raise ValueError(f"{repr(value)[:50]} stands where a number should be")
