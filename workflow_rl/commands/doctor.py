"""The command `doctor`: check this installation."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterable

import click

from workflow_rl.commands.one_line_errors import ClearCommand
from workflow_rl.commands.options import PYTHON
from workflow_rl.environments.source import guests
from workflow_rl.runs import installation
from workflow_rl.runs.installation import Finding, findings_of


@click.command(cls=ClearCommand)
@click.option(
    "--env-python",
    type=PYTHON,
    default="",
    metavar="PATH",
    help="Check this Python interpreter instead, as one that plays environments.",
)
def doctor(env_python: str) -> None:
    """Check this installation: versions, machine, simulators' speeds, and the same weights.

    A short run is trained, and its weights are compared with those that every processor gives. The
    command exits with 1 if something is wrong, and names the likeliest fix.
    """
    wrong = 0
    machine = installation.versions, installation.processor_and_cores, installation.memory
    checks: list[Callable[[], Iterable[Finding]]]
    if env_python:

        def python() -> Iterable[Finding]:
            return installation.simulators_python(env_python)

        checks = [python]
    else:
        of_guests = [check for guest in guests.importable() for check in guest.findings()]
        checks = [*machine, *of_guests]
    for check in checks:
        for finding in findings_of(check):
            wrong += bool(finding.fix)
            _show(finding)
    if wrong:
        click.echo(f"Wrong: {wrong}.")
        raise SystemExit(1)
    click.echo("All is well.")


def _show(finding: Finding) -> None:
    mark = "WRONG" if finding.fix else "ok   "
    text = textwrap.fill(finding.text, 100, initial_indent=" " * 20, subsequent_indent=" " * 20)
    click.echo(f"{finding.subject:<13}{mark}  {text.strip()}")
    if finding.fix:
        fix = textwrap.fill(f"fix: {finding.fix}", 100, subsequent_indent=" " * 5)
        click.echo(textwrap.indent(fix, " " * 20))
