"""How a command that fails ends: with a message, a hint and an exit code."""

import contextlib
import functools
import shlex
import sys
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path

import click

from workflow_rl.agents.algorithm import DivergedError
from workflow_rl.collection.messages import StopRequested, TooManyFailuresError
from workflow_rl.errors import ObservationError, signal_of
from workflow_rl.terminal import printable


def telling(hook: Callable[..., object] | None) -> Callable[..., object] | None:
    """Return a user's function that raises ClickException from any error in it, with the function's
    traceback as the message: see `training_errors`."""
    if hook is None:
        return None

    @functools.wraps(hook)
    def told(update: object) -> object:
        try:
            return hook(update)
        except Exception as error:
            frames = error.__traceback__ and error.__traceback__.tb_next
            shown = traceback.format_exception(type(error), error, frames)
            raise click.ClickException("".join(shown)) from error

    return told


@contextlib.contextmanager
def training_errors(again: str, path: Path, lower: str = "") -> Iterator[None]:
    """End the command with a message and an exit code if an error ends the training in `path`.

    again: the command to go on with. lower: the options of which smaller values make learning more
    careful, if the command has them, and --init-from.
    """
    # Imported here: an error in the options should not wait for torch.
    from workflow_rl.runs.run_dir import NotWrittenError

    code = 1
    try:
        yield
        return
    except StopRequested as stop:
        code, lines = 128 + stop.signal_number, [f"{stop}; go on with: {again}"]
    except KeyboardInterrupt as stop:
        if not any(path.rglob("checkpoint.safetensors")):
            raise
        number = signal_of(stop)
        code = 128 + number
        lines = [f"stopped by {number.name}; the last checkpoint is kept; go on with: {again}"]
    except ObservationError as error:
        batch = _batch_in(path)
        lines = [f"Error: {error}", *([f"The batch is in {batch}"] if batch else [])]
        lines += [f"A checkpoint is saved; correct the environment, then go on with: {again}"]
    except click.ClickException as error:
        if error.__cause__ is None:  # It is no error of a function: see `telling`.
            raise
        lines = error.message.splitlines()
        lines += ["Error: the function of --on-update failed: see above"]
        lines += [f"A checkpoint is saved; go on with: {again}"]
    except TooManyFailuresError as error:
        lines = [f"Error: {error}", f"A checkpoint is saved; go on with: {again}"]
    except NotWrittenError as error:
        lines = [f"Error: {error}", f"The last checkpoint is kept; go on with: {again}"]
    except DivergedError as error:
        batch = _batch_in(path)
        kept = f"The last checkpoint is kept, and the batch is in {batch}"
        if batch is None:  # The agent diverged while it copied a teacher.
            kept = "Nothing is kept"
        if lower:
            kept += f"; begin again with a smaller {lower}"
            if batch is not None:
                latest = batch.with_name("checkpoint.safetensors")
                kept += f", from its weights with --init-from {latest}"
        lines = [f"Error: learning diverged: {error}", kept]
    click.echo("\n".join(map(printable, lines)), err=True)
    raise SystemExit(code)


def _batch_in(path: Path) -> Path | None:
    """Return the batch that could not be learned from: of several policies, the latest."""
    from workflow_rl.runs.folder import DIVERGED_FILE

    return max(path.rglob(DIVERGED_FILE), key=lambda file: file.stat().st_mtime, default=None)


def own_command(*words: str | Path) -> str:
    """Return a command line, the words after the program's name, as it can be typed here."""
    return shlex.join([*_program(), *map(str, words)])


def _program() -> tuple[str, ...]:
    """Return how `workflow-rl` is called from here: installed or not, on the path or not."""
    import shutil  # An error in the options should not wait for it.

    if shutil.which("workflow-rl"):
        return ("workflow-rl",)
    python = Path(sys.executable)
    if python.is_relative_to(Path.cwd()):
        python = python.relative_to(Path.cwd())
    installed = python.with_name("workflow-rl")
    return (str(installed),) if installed.exists() else (str(python), "-m", "workflow_rl")
