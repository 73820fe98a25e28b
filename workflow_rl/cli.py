"""The command `workflow-rl`: training, evaluation, benchmark and plots."""

from __future__ import annotations

import importlib

import click

from workflow_rl.async_train_workflow_rl import train_async
from workflow_rl.parallel_train_workflow_rl import train_sync

COMMANDS = {
    "train-sync": train_sync,
    "train-async": train_async,
    "evaluate": "workflow_rl.evaluation",
    "benchmark": "workflow_rl.benchmark",
    "plot": "workflow_rl.plotting",
}


class LazyGroup(click.Group):
    """Imports a command's module when it is asked for: matplotlib alone takes half a second."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        command = COMMANDS.get(cmd_name)
        if isinstance(command, str):
            command = getattr(importlib.import_module(command), cmd_name)
        return command


@click.group(cls=LazyGroup)
def main() -> None:
    """Train and score blue agents for CybORG's CAGE Challenge 2."""


if __name__ == "__main__":
    main()
