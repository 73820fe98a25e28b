"""The command `workflow-rl`: its subcommands are the scripts' commands."""

from __future__ import annotations

import click

from workflow_rl.async_train_workflow_rl import train_async
from workflow_rl.parallel_train_workflow_rl import train_sync


@click.group()
def main() -> None:
    """Train and score blue agents for CybORG's CAGE Challenge 2."""


for command in (train_sync, train_async):
    main.add_command(command)
