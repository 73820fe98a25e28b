"""Files that a command is asked to write: checked before its work, replaced in one step after."""

from __future__ import annotations

from pathlib import Path

import click


def require_writable(path: Path, option: str) -> None:
    """Raises click.BadParameter, naming the option, if `path` could not be written."""
    if path.is_dir():
        raise click.BadParameter(f"{path} is a folder: give a file", param_hint=option)
    temporary = _temporary(path)
    try:
        temporary.touch()
        temporary.unlink()
    except OSError as error:
        raise click.BadParameter(
            f"{path} cannot be written: {error.strerror}", param_hint=option
        ) from None


def require_writable_folder(path: Path, option: str) -> None:
    """Make the folder if need be. Raises click.BadParameter if nothing can be written in it."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise click.BadParameter(
            f"{path} cannot be made a folder: {error.strerror}", param_hint=option
        ) from None
    require_writable(path / "a file", option)


def write_text(path: Path, text: str) -> None:
    """Replace `path` in one step."""
    temporary = _temporary(path)
    temporary.write_text(text, encoding="utf-8")
    temporary.replace(path)


def _temporary(path: Path) -> Path:
    return path.with_name(f".{path.name}.writing")
