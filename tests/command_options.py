"""All options that a command can have, whatever its command line names."""

import click

from workflow_rl.commands.main import main
from workflow_rl.commands.options import ALGORITHMS
from workflow_rl.commands.options_by_env import Look, OpenCommand
from workflow_rl.environments.source import guests


def command_named(name: str) -> click.Command:
    command = main.get_command(click.Context(main), name)
    assert command is not None
    return command


def options_of(command: click.Command) -> list[click.Option]:
    """Those of the default environment and algorithm come first."""
    looks = [Look(), *(Look({"env": env_id}) for env_id in guests)]
    looks += [Look({"algorithm": name}) for name in ALGORITHMS]
    found: dict[str, click.Option] = {}
    further = [command.named(look) for look in looks] if isinstance(command, OpenCommand) else []
    for option in [*command.params, *(option for one in further for option in one.options)]:
        if isinstance(option, click.Option):
            found.setdefault(option.opts[0], option)
    return list(found.values())
