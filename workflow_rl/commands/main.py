"""The command `workflow-rl`: training, evaluation, benchmark and plots.

--help lists a command in the section that its module names, as SECTION.
"""

from __future__ import annotations

import ast
import functools
import importlib
import importlib.util
import re
from pathlib import Path

import click

from workflow_rl.commands.one_line_errors import ClearCommand
from workflow_rl.plug_ins import plug_ins
from workflow_rl.version import __version__

TRAINERS = {
    "train-sync": ("workflow_rl.parallel_train_workflow_rl", "train_sync"),
    "train-async": ("workflow_rl.async_train_workflow_rl", "train_async"),
}

SECTIONS = ("Train", "Score", "Look", "Use", "Studies", "Check", "CAGE")
OTHERS = "Others"
"""The section of a command whose module names none."""


def places() -> dict[str, tuple[str, str]]:
    """Return the module and the function of each command, by name: of the general ones, and of
    those that guests and other packages bring by the entry point `workflow_rl.commands`."""
    points = plug_ins("commands").items()
    brought = {name: (point.module, point.attribute) for name, point in points}
    return {**_general(), **brought, **_general()}  # General ones win.


@functools.cache
def _general() -> dict[str, tuple[str, str]]:
    """Return the trainers, and the modules here that make a command of their own name."""
    files = sorted(Path(__file__).parent.glob("*.py"))
    makes_command = re.compile(rb"^@(click\.|training_)command\(", re.MULTILINE)
    stems = [file.stem for file in files if makes_command.search(file.read_bytes())]
    found = {stem.replace("_", "-"): (f"workflow_rl.commands.{stem}", stem) for stem in stems}
    return {**TRAINERS, **found}


def _place(name: str) -> tuple[str, str] | None:
    return TRAINERS.get(name) or places().get(name)


class LazyGroup(ClearCommand, click.Group):
    """Imports a command's module when it is asked for: matplotlib alone takes half a second."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(places())

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if (place := _place(cmd_name)) is None:
            return None
        module, function = place
        command: click.Command = getattr(importlib.import_module(module), function)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Click's, in sections and with whole sentences. Both are read from the modules without
        importing them."""
        sections: dict[str, list[tuple[str, str]]] = {name: [] for name in SECTIONS}
        for name, (module, function) in places().items():
            tree = _tree(module)
            lines = sections.setdefault(_section(tree), [])
            lines.append((name, _summary(tree, function)))
        for section, lines in sections.items():
            if lines:
                with formatter.section(section):
                    formatter.write_dl(lines)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Click's, with what somebody may have meant."""
        name = args[0]
        if _place(name) is None and not name.startswith("-"):
            from workflow_rl.suggestions import question, word_meant  # Only an error needs it.

            meant = question(word_meant(name, places()))
            raise click.UsageError(f"No such command '{name}'.{meant}", ctx)
        return super().resolve_command(ctx, args)


def _tree(module: str) -> ast.Module:
    """Return the syntax tree of a module, which is empty if another package's command is broken."""
    try:
        spec = importlib.util.find_spec(module)
    except ImportError:
        spec = None
    source = b"" if spec is None or spec.origin is None else Path(spec.origin).read_bytes()
    return ast.parse(source)


def _section(tree: ast.Module) -> str:
    for node in tree.body:
        match node:
            case ast.Assign(targets=[ast.Name("SECTION")], value=ast.Constant(str(section))):
                return section
    return OTHERS


def _summary(tree: ast.Module, function: str) -> str:
    functions = {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef)}
    description = ast.get_docstring(functions[function]) if function in functions else ""
    return click.Command(function, help=description or "").get_short_help_str(limit=200)


@click.group(cls=LazyGroup)
@click.version_option(__version__, prog_name="workflow-rl")
def main() -> None:
    """Train and score agents for CAGE Challenges 2 and 4, or for any Gymnasium environment."""


if __name__ == "__main__":
    main()
