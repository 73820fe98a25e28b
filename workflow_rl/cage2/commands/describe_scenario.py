"""The command `describe-scenario` checks a scenario file and shows what Red can reach."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from workflow_rl.commands.one_line_errors import ClearCommand
from workflow_rl.commands.options import OutputFile
from workflow_rl.output_files import require_writable, write_json
from workflow_rl.reporting.learning_curve import save_png

if TYPE_CHECKING:
    from workflow_rl.cage2.scenario.family import ScenarioFamily
    from workflow_rl.cage2.scenario.scenario import Scenario


@click.command("describe-scenario", cls=ClearCommand)
@click.argument("scenario", metavar="FILE")
@click.option("--draw", type=click.IntRange(0), metavar="N",
              help="Describe network N of a family. Training plays only the networks with numbers "
                   "below the family's `networks`.")  # fmt: skip
@click.option("--json", "json_path", type=OutputFile(".json"), metavar="FILE",
              help="JSON file for all facts.")  # fmt: skip
@click.option("--picture", type=OutputFile(".svg", ".png", ".pdf"), metavar="FILE",
              help="SVG, PNG or PDF file for a picture of the network.")  # fmt: skip
@click.option("--write", type=OutputFile(".yaml"), metavar="FILE",
              help="Scenario file to write, for you to change. Images that Scenario 2 does not "
                   "have go into the folder images beside this file.")  # fmt: skip
def describe_scenario(
    scenario: str,
    draw: int | None,
    json_path: Path | None,
    picture: Path | None,
    write: Path | None,
) -> None:
    """Check a scenario of CAGE-2's kind, or a family of scenarios, and describe it.

    FILE is a scenario file in CybORG's format, a family file, or scenario2 for the challenge's own
    scenario. The table shows the hosts, their values (confidentiality, and the OT service), their
    open ports, and how Red reaches each host if Blue does nothing.

    \b
    Examples:
      describe-scenario scenario2 --write office.yaml
      describe-scenario office.yaml --picture office.svg
      describe-scenario offices.yaml --draw 3
    """
    from workflow_rl.cage2.scenario.family import ScenarioFamily
    from workflow_rl.cage2.scenario.files import write_scenario
    from workflow_rl.cage2.scenario.report import (
        lines,
        lines_of_family,
        scenario_facts,
        scenario_figure,
    )
    from workflow_rl.cage2.scenario2 import ScenarioError

    written = {"--json": json_path, "--picture": picture, "--write": write}
    for option, path in written.items():
        if path is not None:
            require_writable(path, option)
    if write is not None and write.exists():
        raise click.BadParameter(f"{write} exists already: give another name", param_hint="--write")
    try:
        network = _network(scenario, draw)
    except ScenarioError as error:
        raise click.BadParameter(str(error), param_hint="FILE") from None
    if isinstance(network, ScenarioFamily):
        if any(written.values()):
            raise click.UsageError(f"{network} is a family: choose a network with --draw")
        click.echo("\n".join(lines_of_family(network)))
        return
    click.echo("\n".join(lines(network)))
    if json_path is not None:
        write_json(json_path, scenario_facts(network))
        click.echo(f"facts: {json_path}")
    if picture is not None:
        save_png(scenario_figure(network), picture)
        click.echo(f"picture: {picture}")
    if write is not None:
        try:
            write_scenario(network, write)
        except ScenarioError as error:
            raise click.BadParameter(str(error), param_hint="--write") from None
        click.echo(f"scenario file: {write}")


def _network(scenario: str, draw: int | None) -> Scenario | ScenarioFamily:
    """Return the scenario, or network `draw` of a family. Return the family if `draw` is None."""
    from workflow_rl.cage2.scenario.family import ScenarioFamily
    from workflow_rl.cage2.scenario.loading import played_of

    played = played_of(scenario)
    if draw is None:
        return played
    if isinstance(played, ScenarioFamily):
        return played.draw(draw)
    raise click.UsageError(f"--draw {draw} goes with a family, and {played} is one scenario")
