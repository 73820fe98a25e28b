"""The command `workflow-rl`: training, evaluation, benchmark and plots."""

import ast
import importlib
import importlib.util
from pathlib import Path

import click

from workflow_rl import __version__
from workflow_rl.commands.one_line_errors import ClearCommand
from workflow_rl.plug_ins import is_ours, plug_ins

SECTIONS = {
    "Train": ("train-sync", "train-async"),
    "Score": ("compare", "evaluate", "exploit"),
    "Look": ("plot", "replay", "report"),
    "Use": ("export", "record"),
    "Studies": ("train-duel", "train-population", "tune"),
    "Check": ("benchmark", "check-env", "doctor", "verify"),
}
"""The commands in the sections of --help. A module of this folder makes the command of its name.
What the package's guests bring stands under CAGE, and what other packages bring under Others."""
TRAINERS = {
    "train-sync": ("workflow_rl.parallel_train_workflow_rl", "train_sync"),
    "train-async": ("workflow_rl.async_train_workflow_rl", "train_async"),
}


def places() -> dict[str, tuple[str, str]]:
    """Return the module and the function of each command, by name: of the general ones, and of
    those that guests and other packages bring by the entry point `workflow_rl.commands`."""
    found = {}
    for names in SECTIONS.values():
        for name in names:
            function = name.replace("-", "_")
            found[name] = TRAINERS.get(name, (f"workflow_rl.commands.{function}", function))
    for name, point in plug_ins("commands").items():
        found.setdefault(name, (point.module, point.attr))
    return found


class LazyGroup(ClearCommand, click.Group):
    """Imports a command's module when it is asked for: matplotlib alone takes half a second."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(places())

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if (place := places().get(cmd_name)) is None:
            return None
        module, function = place
        command: click.Command = getattr(importlib.import_module(module), function)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        section_of = {name: section for section, names in SECTIONS.items() for name in names}
        for name, point in plug_ins("commands").items():
            section_of.setdefault(name, "CAGE" if is_ours(point) else "Others")
        sections: dict[str, list[tuple[str, str]]] = {}
        for name, (module, function) in places().items():
            line = (name, _summary(module, function))
            sections.setdefault(section_of[name], []).append(line)
        for section, lines in sections.items():
            with formatter.section(section):
                formatter.write_dl(lines)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0]
        if name not in places() and not name.startswith("-"):
            from workflow_rl.suggestions import question, word_meant  # Only an error needs it.

            meant = question(word_meant(name, places()))
            raise click.UsageError(f"No such command '{name}'.{meant}", ctx)
        return super().resolve_command(ctx, args)


def _summary(module: str, function: str) -> str:
    """Return the first sentence of a command's docstring, without importing the module. Return ""
    if another package's command is broken."""
    try:
        spec = importlib.util.find_spec(module)
    except ImportError:
        spec = None
    source = b"" if spec is None or spec.origin is None else Path(spec.origin).read_bytes()
    definitions = [node for node in ast.parse(source).body if isinstance(node, ast.FunctionDef)]
    found = next((node for node in definitions if node.name == function), None)
    description = "" if found is None else ast.get_docstring(found) or ""
    return click.Command(function, help=description).get_short_help_str(limit=200)


@click.group(cls=LazyGroup)
@click.version_option(__version__, prog_name="workflow-rl")
def main() -> None:
    """Train and score agents for CAGE Challenges 2 and 4, or for any Gymnasium environment."""


if __name__ == "__main__":
    main()
