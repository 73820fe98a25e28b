"""Folders and files as a stranger would send them, and a watch over what is done with them."""

import functools
import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

CANARY = "canary_of_a_stranger"
"""A word in every name that a hostile file uses. Any event of the interpreter that mentions the
word is a breach."""

HOSTILE_MODULE = f"""
import gymnasium
open({CANARY + ".imported"!r}, "w")
def make(*args, **kwargs):
    open({CANARY + ".called"!r}, "w")
class Env(gymnasium.Env):
    def __init__(self, **kwargs):
        open({CANARY + ".called"!r}, "w")
"""

TINY = ["--n-envs", "2", "--hidden-sizes", "8", "--seed", "1", "--quiet", "--n-workers", "1"]
"""Options of a training that takes a moment."""

_breaches: list[str] = []
_watching = False
# Events that only ask whether a file exists, and those of Python reading the tests' own modules.
HARMLESS = ("os.listdir", "os.scandir", "glob.glob", "pathlib.Path.glob")
CHANGES = ("os.mkdir", "os.rename", "os.remove", "os.rmdir", "os.symlink", "os.link", "os.truncate")
WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND


def _may_change(path: Any) -> bool:
    """Whether a command called in this folder may change a file: here, the user's key, temporary
    files, and what libraries keep for themselves."""
    if not isinstance(path, str | bytes | os.PathLike):
        return True  # A descriptor, of a file that was opened before.
    real = os.path.realpath(os.fsdecode(path))
    own = (os.getcwd(), os.environ["XDG_STATE_HOME"], os.path.expanduser("~/.cache"))
    temporary = (
        os.path.join(tempfile.gettempdir(), "tmp"),
        os.path.join(tempfile.gettempdir(), "pymp"),
    )
    return real.startswith((*own, *temporary, "/dev/", "/proc/")) or "__pycache__" in real


def _watch(event: str, arguments: tuple[Any, ...]) -> None:
    if not _watching or event in HARMLESS:
        return
    if event == "open":
        path, _, flags = arguments
        if flags & WRITING and not _may_change(path):
            _breaches.append(f"written: {path!r:.200}")
    elif event in CHANGES and not _may_change(arguments[event in ("os.symlink", "os.link")]):
        _breaches.append(f"{event}{arguments!r:.200}")
    # Of an import only the name counts: the search path follows it.
    heard = arguments[:1] if event == "import" else arguments
    if any(isinstance(one, str | bytes | list | tuple) and CANARY in repr(one) for one in heard):
        _breaches.append(f"{event}{arguments!r:.200}")


@functools.cache
def _start_watch() -> None:
    # A process keeps its audit hooks for life, so only processes that need the hook get it.
    sys.addaudithook(_watch)


@contextmanager
def watched() -> Iterator[None]:
    """Fail if the interpreter does anything with the canary in this block."""
    global _watching
    _start_watch()
    _breaches.clear()
    _watching = True
    try:
        yield
    finally:
        _watching = False
    assert not _breaches, "; ".join(_breaches)
    assert not list(Path().glob(f"{CANARY}.*ed"))
