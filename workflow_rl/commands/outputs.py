"""What commands that measure have in common: their files, and one line for every error."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Collection, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from workflow_rl.agents.algorithm import DivergedError
from workflow_rl.collection.failures import (
    StopRequested,
    TooManyFailuresError,
    WorkerError,
)
from workflow_rl.commands.options import OutputFile, given_options, spelling, usage_error
from workflow_rl.environments.environment import InvalidEnvironmentError
from workflow_rl.errors import NotFiniteError
from workflow_rl.output_files import require_writable, write_text
from workflow_rl.runs.config import ConfigError
from workflow_rl.terminal import printable

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from workflow_rl.agents.settings import Settings


def output_options(json_help: str, png_help: str) -> list[click.Parameter]:
    return [
        click.Option(
            ["--json", "json_path"], type=OutputFile(".json"), metavar="FILE", help=json_help
        ),
        click.Option(["--png", "png_path"], type=OutputFile(".png"), metavar="FILE", help=png_help),
        click.Option(["--quiet"], is_flag=True, help="No progress bar."),
    ]


def require_outputs(options: Mapping[str, Any]) -> None:
    """Raise click.BadParameter if a file of `output_options` could not be written."""
    for option in ("json", "png"):
        if options[f"{option}_path"] is not None:
            require_writable(options[f"{option}_path"], f"--{option}")


def write_outputs(
    options: Mapping[str, Any], content: Any, draw: Callable[[], Figure], names: tuple[str, str]
) -> list[str]:
    """Write the files that were asked for, and return lines that say where they are.

    content: what the JSON file holds. names: what the two files are called in the output.
    """
    json_path: Path | None = options["json_path"]
    png_path: Path | None = options["png_path"]
    lines = []
    if json_path is not None:
        write_text(json_path, json.dumps(content, indent=2) + "\n")
        lines.append(f"{names[0]}: {json_path}")
    if png_path is not None:
        from workflow_rl.reporting.drawing import save_png

        save_png(draw(), png_path)
        lines.append(f"{names[1]}: {png_path}")
    return lines


@contextlib.contextmanager
def errors_in_one_line(spelled: Callable[[str], str] = spelling) -> Iterator[None]:
    """Turn what ends a measurement into one line and an exit code.

    spelled: a field of a config as the command's option.
    """
    try:
        yield
    except (ConfigError, InvalidEnvironmentError) as error:
        raise usage_error(error, spelled) from None
    except StopRequested as stop:
        raise SystemExit(128 + stop.signal_number) from None
    except (TooManyFailuresError, WorkerError, NotFiniteError, DivergedError) as error:
        click.echo(f"Error: {printable(error)}", err=True)
        raise SystemExit(1) from None


def given_settings(
    settings: type[Settings], options: Mapping[str, Any], also: Collection[str] = ()
) -> Settings:
    """Return settings that the command line asks for, with defaults for the others.

    also: names of options that count as given.
    """
    names = settings.model_fields.keys() & {*given_options(), *also} & options.keys()
    return settings(**{name: options[name] for name in names})
