"""How training commands end if they do not come to their end: a message, a hint, an exit code."""

from __future__ import annotations

import contextlib
import shlex
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import click

from agents.settings import ConfigError
from workflow_rl.collection.cluster import ClusterError
from workflow_rl.commands.asked import typed
from workflow_rl.commands.options import option_words, spelling
from workflow_rl.environments.environment import InvalidEnvironmentError


class Ending(NamedTuple):
    """What a training that an error ends says.

    lines: for users. They may have {error}; {again}, the command to go on with; {batch}, the file
    of what could not be learned from; {checkpoint}, the one beside it; and {lower}, the options
    that make learning more careful. code: the exit code, or None for 128 and the signal's number.
    """

    lines: tuple[str, ...]
    code: int | None = 1


def _endings() -> dict[type[BaseException], Ending]:
    """Return the endings by the type of the error. Subclasses come before their bases."""
    # Imported here: an error in the options should not wait for torch.
    from agents.algorithm import DivergedError
    from workflow_rl.collection.failures import StopRequested, TooManyFailuresError
    from workflow_rl.collection.rollout import NotFiniteError
    from workflow_rl.runs.folder import NotWrittenError

    return {
        StopRequested: Ending(("{error}; go on with: {again}",), None),
        NotFiniteError: Ending(
            (
                "Error: {error}",
                "The batch is in {batch}",
                "A checkpoint is saved; correct the environment, then go on with: {again}",
            )
        ),
        TooManyFailuresError: Ending(
            ("Error: {error}", "A checkpoint is saved; go on with: {again}")
        ),
        NotWrittenError: Ending(
            ("Error: {error}", "The last checkpoint is kept; go on with: {again}")
        ),
        DivergedError: Ending(
            (
                "Error: learning diverged: {error}",
                "The last checkpoint is kept, and the batch is in {batch}; begin again with a "
                "smaller {lower}, from its weights with --init-from {checkpoint}",
            )
        ),
    }


@contextlib.contextmanager
def training_errors(again: str, path: Path, lower: Callable[[], str] = str) -> Iterator[None]:
    """End the command with the ending of an error that ends the training in `path`.

    again: the command to go on with. lower: returns the options that make learning more careful.
    """
    try:
        yield
    except Exception as error:
        known = (ending for kind, ending in _endings().items() if isinstance(error, kind))
        ending = next(known, None)
        if ending is None:
            raise
        batch = _batch_in(path)
        known_words = {
            "error": error,
            "again": again,
            "batch": batch,
            "checkpoint": batch and batch.with_name("checkpoint.pt"),
            "lower": lower(),
        }
        for line in ending.lines:
            click.echo(line.format(**known_words), err=True)
        code = 128 + error.signal_number if ending.code is None else ending.code  # type: ignore[attr-defined]
        raise SystemExit(code) from None


@contextlib.contextmanager
def usage_errors(options: dict[str, Any]) -> Iterator[None]:
    """Make what cannot be used as asked a usage error of one line, which names the option."""
    try:
        yield
    except ConfigError as error:
        message = option_words(error.message)
        raise click.BadParameter(message, param_hint=typed(error, options)) from None
    except ClusterError as error:
        raise click.BadParameter(str(error), param_hint="--cluster") from None
    except InvalidEnvironmentError as error:
        raise click.BadParameter(str(error), param_hint=spelling(error.argument)) from None


def _batch_in(path: Path) -> Path | None:
    """Return the batch that could not be learned from: of several policies, the latest."""
    from workflow_rl.runs.folder import DIVERGED_FILE

    return max(path.rglob(DIVERGED_FILE), key=lambda file: file.stat().st_mtime, default=None)


def own_command(*words: str | Path) -> str:
    """Return a command line, the words after the program's name, as it can be typed here."""
    return f"{_program()} {shlex.join(map(str, words))}"


def _program() -> str:
    """Return how `workflow-rl` is called from here: installed or not, on the path or not."""
    import shutil  # An error in the options should not wait for it.

    if shutil.which("workflow-rl"):
        return "workflow-rl"
    python = Path(sys.executable)
    if python.is_relative_to(Path.cwd()):
        python = python.relative_to(Path.cwd())
    installed = python.with_name("workflow-rl")
    return str(installed) if installed.exists() else f"{python} -m workflow_rl"
