"""Folders and files as a stranger would send them, and a watch over what is done with them."""

from __future__ import annotations

import functools
import io
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

from agents.policies.archive import sealed

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


def _watch(event: str, arguments: tuple[Any, ...]) -> None:
    if not _watching or event in HARMLESS:
        return
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
    assert not _breaches
    assert not list(Path().glob(f"{CANARY}.*ed"))


def save(path: Path, content: Any) -> None:
    """Write a checkpoint file of this content, with a checksum that is right."""
    archive = io.BytesIO()
    torch.save(content, archive)
    path.write_bytes(sealed(archive.getvalue()))
