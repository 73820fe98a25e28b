"""The command `doctor`: check this installation."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator

import click

from workflow_rl.cage2 import installation as cage2
from workflow_rl.cage4 import installation as cage4
from workflow_rl.commands.clear import ClearCommand
from workflow_rl.portable import NATIVE, is_native
from workflow_rl.runs import installation
from workflow_rl.runs.installation import Finding, findings_of


@click.command(cls=ClearCommand)
def doctor() -> None:
    """Check this installation: versions, machine, simulators' speeds, and the same weights.

    A short run is trained, and its weights are compared with those that every processor gives. The
    command exits with 1 if something is wrong, and names the likeliest fix.
    """
    wrong = 0
    machine = installation.versions, installation.machine, installation.memory
    for check in (*machine, cage2.simulators, cage4.simulators, weights):
        for finding in findings_of(check):
            wrong += bool(finding.fix)
            _show(finding)
    if wrong:
        click.echo(f"Wrong: {wrong}.")
        raise SystemExit(1)
    click.echo("All is well.")


def weights() -> Iterator[Finding]:
    """Compare the reference run's weights with those of this machine."""
    from workflow_rl.commands.verify import config_of, differing, replayed
    from workflow_rl.runs.machine import machine
    from workflow_rl.runs.run_record import read_record

    record = read_record(cage2.REFERENCE)
    differences = ", ".join(differing(record.machines[0], machine()))
    fix = f"look at what differs from where they were made: {differences}"
    if is_native():
        fix = f"unset {NATIVE}: with it, weights are this processor's own"
    yield from cage2.weights(config_of(record), record.weights, replayed, fix)


def _show(finding: Finding) -> None:
    mark = "WRONG" if finding.fix else "ok   "
    text = textwrap.fill(finding.text, 100, initial_indent=" " * 20, subsequent_indent=" " * 20)
    click.echo(f"{finding.subject:<13}{mark}  {text.strip()}")
    if finding.fix:
        fix = textwrap.fill(f"fix: {finding.fix}", 100, subsequent_indent=" " * 5)
        click.echo(textwrap.indent(fix, " " * 20))
