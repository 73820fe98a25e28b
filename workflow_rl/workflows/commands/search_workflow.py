"""The command `search-workflow`: what each order comes to, and which is best."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from workflow_rl.commands.clear import ClearCommand
from workflow_rl.commands.options import EPISODES, PATH, SEED, TRUST, given_options, spelling
from workflow_rl.output_files import (
    replacing,
    require_writable,
    require_writable_folder,
    write_text,
)

if TYPE_CHECKING:
    from workflow_rl.workflows.ladder import Ladder
    from workflow_rl.workflows.order import Order, Workflow

FILES = ("workflow.html", "workflow.json", "totals.npz")
SOME_ORDERS = click.IntRange(2, 5040)


@click.command(cls=ClearCommand)
@click.argument("runs", nargs=-1, required=True, type=PATH)
@click.option(
    "--orders",
    type=SOME_ORDERS,
    metavar="N",
    help="Score N random orders.  [default: all orders, of which there may be up to 5040]",
)
@click.option(
    "--episodes",
    type=EPISODES,
    default=1000,
    show_default=True,
    metavar="N",
    help="Episodes of each order. On CAGE-2 an episode is one game against each red "
    "agent of the training.",
)
@click.option("--beside", type=PATH, multiple=True, metavar="RUN",
              help="A run without an order, of the same seed as the first of RUNS, to tell the "
                   "price of obedience; may be given again, for the next of RUNS.")  # fmt: skip
@click.option("--output", type=PATH, default=Path("workflow"), show_default=True,
              metavar="FOLDER", help="Folder for the scores: workflow.html, workflow.json and "
                                     "totals.npz.")  # fmt: skip
@click.option("--seed", type=SEED, default=0, show_default=True, metavar="N",
              help="The same seed gives the same episodes.")  # fmt: skip
@click.option("--trust", is_flag=True, help=TRUST)
@click.option("--quiet", is_flag=True, help="No progress bar.")
def search_workflow(runs: tuple[Path, ...], **options: Any) -> None:
    """Find the order in which the agents of RUNS do best.

    RUNS are runs of train-workflow that differ in their seed, or of an environment of your own that
    takes an order. The scores are of greedy play in episodes that serve nothing else, the same for
    all orders.

    Example: search-workflow runs/workflow
    """
    import numpy as np

    from workflow_rl.commands.outputs import errors_in_one_line
    from workflow_rl.environments.environment import ENV
    from workflow_rl.workflows.page import order_verdict, workflow_page
    from workflow_rl.workflows.trained import Trained

    output: Path = options["output"]
    if output.is_symlink() and "output" not in given_options():
        raise click.BadParameter(f"{output} is a link: name a folder", param_hint="--output")
    require_writable_folder(output, "--output")
    for name in FILES:
        require_writable(output / name, "--output")
    with errors_in_one_line(lambda name: "RUNS" if name == ENV else spelling(name)):
        trained = Trained.load(runs, options["trust"])
        free = Trained.load(options["beside"], options["trust"]) if options["beside"] else None
        if free is not None:
            trained.require_beside(free)
        orders = _orders(trained.workflow, options["orders"], options["seed"])
        ladder = trained.ladder(
            orders, options["episodes"], options["seed"], free, options["quiet"]
        )
    output.mkdir(parents=True, exist_ok=True)
    names = np.array([ladder.workflow.name_of(order) for order in ladder.orders])
    with replacing(output / "totals.npz", "wb") as file:
        np.savez_compressed(file, totals=ladder.totals, orders=names)
    write_text(output / "workflow.html", workflow_page(", ".join(trained.names), ladder))
    scores = {"seed": options["seed"], **ladder.to_dict()}
    write_text(output / "workflow.json", json.dumps(scores, indent=2) + "\n")
    _show(ladder)
    click.echo(order_verdict(ladder))
    click.echo(f"scores: {shlex.quote(str(output / 'workflow.json'))}")
    click.echo(f"page:   {shlex.quote(str(output / 'workflow.html'))}")


def _orders(workflow: Workflow, n_orders: int | None, seed: int) -> list[Order]:
    """Return random orders, or all of them. Raises click.BadParameter if there is one order only,
    or if there are too many to score them all."""
    import numpy as np

    if n_orders is not None:
        orders = workflow.some_orders(n_orders, np.random.default_rng(seed))
    else:
        try:
            orders = workflow.orders()
        except ValueError as error:
            raise click.BadParameter(
                f"{error}, too many to score them all: say how many, such as 30",
                param_hint="--orders",
            ) from None
    if len(orders) == 1:
        raise click.BadParameter(
            f"the constraints leave one order, {workflow.name_of(orders[0])}: there is nothing to "
            "search",
            param_hint="RUNS",
        )
    return orders


def _show(ladder: Ladder) -> None:
    from workflow_rl.reporting.text_table import text_table
    from workflow_rl.runs.intervals import over_agents
    from workflow_rl.workflows.page import spelled_out

    headings = [
        "order",
        "total",
        "fixes",
        "in order",
        "in order, when several groups needed fixing",
    ]
    table = text_table(headings, [], left=5)
    for place in ladder.ranked:
        name = ladder.workflow.name_of(ladder.orders[place])
        table.add_row([name, ladder.of(place), *ladder.obeyed_of(place).told()])
    table.add_divider()
    table.add_row(["all", over_agents(ladder.totals.mean(axis=1)), *ladder.obeyed.told()])
    if ladder.unconstrained is not None:
        free = ladder.free_obeyed
        told = free.told() if free else [""] * 3
        table.add_row(["no order", ladder.unconstrained, *told])
    click.echo(table)
    rows = [
        [row.what, spelled_out(ladder, row.orders), row.total, row.price or ""]
        for row in ladder.rows
    ]
    headings = ["order", "", "total", "cost, compared with no order"]
    click.echo(text_table(headings, rows, left=4))
