"""The command `search-workflow` scores each order, and finds the best order."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from workflow_rl.commands.one_line_errors import ClearCommand
from workflow_rl.commands.options import PATH, SAVED, SEED, blaming, given_options, spelling
from workflow_rl.output_files import (
    require_writable,
    require_writable_folder,
    write_json,
    write_text,
)

if TYPE_CHECKING:
    from workflow_rl.workflows.ranking import Ranking

FILES = ("workflow.html", "workflow.json")
SEVERAL = click.IntRange(2, 1_000_000)
"""At least two, because one half of the episodes chooses an order and the other half scores it."""
SOME_ORDERS = click.IntRange(2, 5040)


@click.command(cls=ClearCommand)
@click.argument("runs", nargs=-1, required=True, type=SAVED)
@click.option("--orders", type=SOME_ORDERS, metavar="N",
              help="Score N random orders.  [default: all orders, of which there may be up to "
                   "5040]")  # fmt: skip
@click.option("--episodes", type=SEVERAL, default=1000, show_default=True, metavar="N",
              help="Episodes of each order. On CAGE-2 an episode is one game against each red "
                   "agent of the training.")  # fmt: skip
@click.option("--output", type=PATH, default=Path("workflow"), show_default=True,
              metavar="FOLDER", help="Folder for workflow.html and workflow.json.")  # fmt: skip
@click.option("--seed", type=SEED, default=0, show_default=True, metavar="N",
              help="The same seed gives the same episodes and the same random orders.")  # fmt: skip
@click.option("--quiet", is_flag=True, help="No progress bar.")
def search_workflow(runs: tuple[Path, ...], **options: Any) -> None:
    """Find the order with which the agents of RUNS score best.

    RUNS are runs of train-workflow with different seeds, or runs of an environment of your own that
    takes an order. All orders are scored in the same episodes, which have no other use.

    Example: search-workflow runs/workflow
    """
    from workflow_rl.environments.environment import ENV
    from workflow_rl.workflows.page import workflow_page
    from workflow_rl.workflows.search import OrderedAgents

    output, seed = options["output"], options["seed"]
    if output.is_symlink() and "output" not in given_options():
        raise click.BadParameter(f"{output} is a link: name a folder", param_hint="--output")
    require_writable_folder(output, "--output")
    for name in FILES:
        require_writable(output / name, "--output")
    with blaming(lambda name: "RUNS" if name == ENV else spelling(name)):
        agents = OrderedAgents.load(runs)
        orders = agents.orders(options["orders"], seed)
        ranking = agents.ranking(orders, options["episodes"], seed, options["quiet"])
    page, scores = [output / name for name in FILES]
    output.mkdir(parents=True, exist_ok=True)
    write_text(page, workflow_page(", ".join(agents.names), ranking))
    write_json(scores, {"seed": seed, **ranking.to_dict()})
    _show(ranking)
    click.echo(f"scores:     {shlex.quote(str(scores))}")
    click.echo(f"page:       {shlex.quote(str(page))}")


def _show(ranking: Ranking) -> None:
    from workflow_rl.text_table import text_table
    from workflow_rl.workflows.page import HEADINGS

    table = text_table(HEADINGS, [])
    for place in ranking.ranked:
        kept = ranking.kept_of(place).told(1, 100, "%")
        table.add_row([ranking.name_of(place), ranking.total_of(place), kept])
    table.add_divider()
    table.add_row(["all", ranking.total_of_all, ranking.kept_of_all.told(1, 100, "%")])
    click.echo(table)
    click.echo(ranking.verdict)
    click.echo(f"best order: {ranking.name_of(ranking.best)}")
    click.echo(f"its total:  {ranking.total_of_best}, in the episodes that did not choose it")
