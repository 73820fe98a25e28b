"""Commands whose errors are one line each."""

from __future__ import annotations

import contextlib
import errno
import logging
import os
import re
import resource
import signal
import sys
import threading
from collections.abc import Iterator
from typing import Any

import click

from workflow_rl.environments.source import register_envs
from workflow_rl.errors import ConfigError, ObservationError, UserError, signal_of
from workflow_rl.portable import load_elsewhere
from workflow_rl.terminal import PrintableFormatter, printable, safe_output

ADDED = ("trust",)
"""Names of the options that a ClearCommand may add to its own."""
REPEAT_SECONDS = 0.05
_NO_MEMORY = re.compile(
    "failed to map segment|can(no|')t allocate|not enough memory|can't start new thread", re.I
)
"""What the loader, torch, NumPy's libraries and threads say where memory ends."""


@contextlib.contextmanager
def one_line() -> Iterator[None]:
    """Turn each error of the user in this context, and Ctrl-C, into a single line."""
    try:
        yield
    except (KeyboardInterrupt, click.Abort) as stop:
        number = signal_of(stop)
        click.echo(f"\nstopped by {number.name}", err=True)
        raise SystemExit(128 + number) from None
    except click.exceptions.NoArgsIsHelpError:
        raise  # The message is the help.
    except click.NoSuchOption as error:
        from workflow_rl.suggestions import option_meant, question  # Only an error needs it.

        option = error.option_name
        parameters = [] if error.ctx is None else error.ctx.command.get_params(error.ctx)
        names = [name for named in parameters for name in named.opts]
        meant = question(option_meant(option, names))
        for argument in parameters:
            name = argument.human_readable_name
            parts = f"{argument.name}_{name}".lower().split("_")
            if isinstance(argument, click.Argument) and option.lstrip("-") in parts:
                meant = f" {name} is given without an option."
        typed = option.encode("unicode_escape").decode()
        raise click.UsageError(f"No such option '{typed}'.{meant}", error.ctx) from None
    except click.UsageError as error:
        message = _line(error.format_message() + _choice_meant(error))
        if message == error.format_message():
            raise
        raise click.UsageError(message, error.ctx) from None
    except Exception as error:
        if (end := _end_of(error)) is None:
            raise
        raise end from None


def _end_of(error: Exception) -> click.ClickException | SystemExit | None:
    """Return how an error of the user, or of the user's code, ends a command. Return None for other
    errors, whose traceback is shown."""
    if isinstance(error, OSError) and error.errno not in (None, errno.EPIPE):
        # A full disk, too few descriptors, or a file that may not be read, wherever that shows.
        where = f"{printable(error.filename)}: " if error.filename is not None else ""
        return click.ClickException(f"{where}{error.strerror}")
    if isinstance(error, MemoryError) or (
        isinstance(error, ImportError | RuntimeError) and _NO_MEMORY.search(str(error))
    ):
        return click.ClickException(_out_of_memory(error))
    if isinstance(error, UserError):
        return click.UsageError(_line(str(error)), click.get_current_context())
    # Only an error needs these modules.
    from workflow_rl.agents.algorithm import DivergedError
    from workflow_rl.collection.messages import StopRequested, TooManyFailuresError, WorkerError
    from workflow_rl.commands.options import usage_error

    if isinstance(error, ConfigError):
        message = _line(usage_error(error).format_message())
        return click.UsageError(message, click.get_current_context())
    if isinstance(error, StopRequested):
        return SystemExit(128 + error.signal_number)
    if isinstance(error, TooManyFailuresError | WorkerError | ObservationError | DivergedError):
        return click.ClickException(printable(error))
    return None


def _out_of_memory(error: Exception) -> str:
    limit, told = resource.getrlimit(resource.RLIMIT_AS)[0], printable(str(error).strip())
    allowed = "" if limit < 0 else f" This process may have {limit / 2**20:,.0f} MiB (ulimit -v)."
    first = told.partition("\n")[0] or type(error).__name__
    return f"memory or threads ran out: {first}.{allowed}"


@contextlib.contextmanager
def _stops_come_again() -> Iterator[None]:
    """Repeat a signal whose exception is lost in code that cannot raise, as compilers call back."""
    before = sys.unraisablehook

    def repeat(lost: sys.UnraisableHookArgs) -> None:
        number = getattr(lost.exc_value, "signal_number", None)
        if isinstance(lost.exc_value, KeyboardInterrupt):
            number = signal_of(lost.exc_value)
        if number is not None:
            # The main thread may wait in a call that only a signal to itself interrupts.
            main = threading.main_thread().ident
            threading.Timer(REPEAT_SECONDS, signal.pthread_kill, [main, number]).start()
        else:
            before(lost)

    sys.unraisablehook = repeat
    try:
        yield
    finally:
        sys.unraisablehook = before


def _line(text: str) -> str:
    return printable(" ".join(text.split()))


def _choice_meant(error: click.UsageError) -> str:
    kind = getattr(getattr(error, "param", None), "type", None)
    typed = re.match("'(.*)' is not one of", error.message)
    if not isinstance(kind, click.Choice) or typed is None:
        return ""
    from workflow_rl.suggestions import question, word_meant

    return question(word_meant(typed[1], [str(choice) for choice in kind.choices]))


class ClearCommand(click.Command):
    """A command whose errors are one line each. `-h` shows its help, too. The command takes
    `--trust` if the type of a parameter `is_of_others`: somebody else may have made its files."""

    def __init__(self, *arguments: Any, **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        if any(hasattr(parameter.type, "is_of_others") for parameter in self.params):
            text = "Import and call what the given files name. Trust the files' authors first."
            self.params.append(click.Option(["--trust"], is_flag=True, help=text))

    def main(self, *arguments: Any, **extra: Any) -> Any:
        with safe_output(), _stops_come_again():
            return super().main(*arguments, **extra)

    def get_help_option_names(self, ctx: click.Context) -> list[str]:
        return ["--help", "-h"]

    def make_context(self, *arguments: Any, **extra: Any) -> click.Context:
        with one_line():
            return super().make_context(*arguments, **extra)

    def invoke(self, ctx: click.Context) -> Any:
        logged = logging.StreamHandler()
        logged.setFormatter(PrintableFormatter("%(levelname)s: %(message)s"))
        logging.basicConfig(handlers=[logged])
        if os.path.exists("matplotlibrc"):
            load_elsewhere("matplotlib")
        if not isinstance(self, click.Group):  # Whose command has not accepted its options yet.
            register_envs()
        with one_line():
            if ctx.params.pop("trust", False):
                from workflow_rl.commands.options import given_options
                from workflow_rl.runs.trust import sign_named

                # A default is no word of the user's, and a folder here may be called like one.
                sign_named({name: ctx.params[name] for name in given_options()})
            return super().invoke(ctx)
