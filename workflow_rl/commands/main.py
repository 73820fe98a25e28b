"""The command `workflow-rl`: training, evaluation, benchmark and plots."""

from __future__ import annotations

import ast
import importlib
import importlib.util
from pathlib import Path

import click

from workflow_rl.commands.clear import ClearCommand
from workflow_rl.plug_ins import plug_ins
from workflow_rl.suggestions import question, word_meant
from workflow_rl.version import __version__

MODULES = {
    "train-sync": "workflow_rl.parallel_train_workflow_rl",
    "train-async": "workflow_rl.async_train_workflow_rl",
    "train-population": "workflow_rl.commands.train_population",
    "tune": "workflow_rl.commands.tune",
    "evaluate": "workflow_rl.commands.evaluate",
    "replay": "workflow_rl.commands.replay",
    "export": "workflow_rl.commands.export",
    "check-env": "workflow_rl.commands.check_env",
    "verify": "workflow_rl.commands.verify",
    "doctor": "workflow_rl.commands.doctor",
    "benchmark": "workflow_rl.commands.benchmark",
    "compare-modes": "workflow_rl.commands.compare_modes",
    "parity": "workflow_rl.commands.parity",
    "train-champion": "workflow_rl.commands.train_champion",
    "plot": "workflow_rl.commands.plot",
    "report": "workflow_rl.commands.report",
}


def places() -> dict[str, tuple[str, str]]:
    """Return the module and the function of each command, by name: of the general ones, and of
    those that guests and other packages bring by the entry point `workflow_rl.commands`."""
    brought = {
        name: (point.module, point.attribute) for name, point in plug_ins("commands").items()
    }
    general = {name: (module, name.replace("-", "_")) for name, module in MODULES.items()}
    return {**general, **{name: place for name, place in brought.items() if name not in general}}


class LazyGroup(ClearCommand, click.Group):
    """Imports a command's module when it is asked for: matplotlib alone takes half a second."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(places())

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in places():
            return None
        module, function = places()[cmd_name]
        command: click.Command = getattr(importlib.import_module(module), function)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Click's, with whole sentences, which are read from the modules without importing them."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, _summary(name)) for name in places()])

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Click's, with what somebody may have meant."""
        name = args[0]
        if name not in places() and not name.startswith("-"):
            meant = question(word_meant(name, places()))
            raise click.UsageError(f"No such command '{name}'.{meant}", ctx)
        return super().resolve_command(ctx, args)


def _summary(name: str) -> str:
    module, function = places()[name]
    try:
        spec = importlib.util.find_spec(module)
    except ImportError:
        spec = None
    if spec is None or spec.origin is None:
        return ""  # Another package's command is broken. Others are not.
    functions = {
        node.name: node
        for node in ast.parse(Path(spec.origin).read_bytes()).body
        if isinstance(node, ast.FunctionDef)
    }
    description = ast.get_docstring(functions[function]) if function in functions else ""
    return click.Command(name, help=description or "").get_short_help_str(limit=200)


@click.group(cls=LazyGroup)
@click.version_option(__version__, prog_name="workflow-rl")
def main() -> None:
    """Train and score agents for CAGE Challenges 2 and 4, or for any Gymnasium environment."""


if __name__ == "__main__":
    main()
