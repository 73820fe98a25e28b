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
    from workflow_rl.workflows.order import Workflow
    from workflow_rl.workflows.search import Best
    from workflow_rl.workflows.trained import Trained

ALL = "all"
FRESH = 200
"""Episodes that score the order that a search has found."""
FILES = {ALL: ("workflow.html", "workflow.json", "totals.npz")}
METHODS = (ALL, "halving", "gaussian-process", "random")


@click.command(cls=ClearCommand)
@click.argument("runs", nargs=-1, required=True, type=PATH)
@click.option("--method", type=click.Choice(METHODS), default=ALL, show_default=True,
              help="all: score every order. halving and gaussian-process find the best order with "
                   "fewer episodes; the latter needs scikit-learn. random tries random "
                   "orders.")  # fmt: skip
@click.option("--episodes", type=EPISODES, default=1000, show_default=True, metavar="N",
              help="Episodes: with all, of each order; otherwise, of the whole search. On CAGE-2 "
                   "an episode is one game against each red agent of the training.")  # fmt: skip
@click.option("--beside", type=PATH, multiple=True, metavar="RUN",
              help="A run without an order, of the same seed as the first of RUNS, to tell the "
                   "price of obedience; may be given again, for the next of RUNS.")  # fmt: skip
@click.option("--output", type=PATH, default=Path("workflow"), show_default=True,
              metavar="FOLDER", help="Folder for the scores: with all workflow.html, "
                                     "workflow.json and totals.npz, else METHOD.json.")  # fmt: skip
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
    from workflow_rl.commands.outputs import errors_in_one_line
    from workflow_rl.environments.environment import ENV
    from workflow_rl.workflows.trained import Trained

    output: Path = options["output"]
    if options["beside"] and options["method"] != ALL:
        raise click.UsageError(f"--beside goes with --method {ALL}, not {options['method']}")
    if output.is_symlink() and "output" not in given_options():
        raise click.BadParameter(f"{output} is a link: name a folder", param_hint="--output")
    require_writable_folder(output, "--output")
    for name in FILES.get(options["method"], (f"{options['method']}.json",)):
        require_writable(output / name, "--output")
    with errors_in_one_line(lambda name: "RUNS" if name == ENV else spelling(name)):
        trained = Trained.load(runs, options["trust"])
        free = Trained.load(options["beside"], options["trust"]) if options["beside"] else None
        if free is not None:
            trained.require_beside(free)
        _require_orders(trained.workflow, options["method"])
        if options["method"] == ALL:
            _score_all(trained, free, output, options)
        else:
            _search(trained, output, options)


def _require_orders(workflow: Workflow, method: str) -> None:
    """Raise click.BadParameter if there is one order only, or too many to score them all."""
    try:
        orders = workflow.orders()
    except ValueError as error:
        if method == ALL:
            raise click.BadParameter(
                f"{error}, too many to score them all: give --method halving", param_hint="--method"
            ) from None
    else:
        if len(orders) == 1:
            name = workflow.name_of(orders[0])
            raise click.BadParameter(
                f"the constraints leave one order, {name}: there is nothing to search",
                param_hint="RUNS",
            )


def _score_all(
    trained: Trained, free: Trained | None, output: Path, options: dict[str, Any]
) -> None:
    import numpy as np

    from workflow_rl.workflows.page import order_verdict, workflow_page

    episodes, seed = options["episodes"], options["seed"]
    ladder = trained.ladder(episodes, seed, free, options["quiet"])
    page = workflow_page(", ".join(trained.names), ladder)
    output.mkdir(parents=True, exist_ok=True)
    names = np.array([ladder.workflow.name_of(order) for order in ladder.orders])
    with replacing(output / "totals.npz", "wb") as file:
        np.savez_compressed(file, totals=ladder.totals, orders=names)
    write_text(output / "workflow.html", page)
    scores = _write(output, ladder.to_dict(), options)
    _show(ladder)
    page_line = f"page:  {output / 'workflow.html'}"
    click.echo("\n".join([order_verdict(ladder), scores, page_line]))


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


def _search(trained: Trained, output: Path, options: dict[str, Any]) -> None:
    from workflow_rl.runs.intervals import over_agents
    from workflow_rl.workflows.scoring import MOST_EPISODES
    from workflow_rl.workflows.search import METHODS as SEARCHES

    budget, pull = options["episodes"], trained.puller(options["seed"])
    if budget + FRESH > MOST_EPISODES:
        raise click.BadParameter(
            f"{budget} is more than {MOST_EPISODES - FRESH}: {FRESH} further episodes score the "
            "order that is found",
            param_hint="--episodes",
        )
    try:
        found: Best = SEARCHES[options["method"]](trained.workflow, pull, budget, options["seed"])
    except ModuleNotFoundError as error:
        raise click.BadParameter(
            f"{options['method']} needs {error.name}: pip install -e '.[workflows]'",
            param_hint="--method",
        ) from None
    name = trained.workflow.name_of(found.order)
    # The episodes of the search chose the order: their mean is too good.
    numbers = range(budget, budget + FRESH)
    fresh = over_agents(trained.totals(found.order, numbers, options["seed"]))
    output.mkdir(parents=True, exist_ok=True)
    about = {"order": name, "total": fresh._asdict(), "mean_in_search": found.mean}
    scores = _write(output, {**about, "episodes": found.episodes}, options)
    click.echo(f"best order: {name}")
    click.echo(f"its total:  {fresh}, in {FRESH} fresh episodes")
    click.echo(f"the search: {found.mean:.2f}, in {found.episodes} episodes of all orders")
    click.echo(scores)


def _write(output: Path, content: dict[str, Any], options: dict[str, Any]) -> str:
    """Return a line that says where the scores were written."""
    about = {"method": options["method"], "seed": options["seed"], **content}
    # Of a search, beside the scores of all orders that the folder may have.
    name = "workflow" if options["method"] == ALL else options["method"]
    write_text(output / f"{name}.json", json.dumps(about, indent=2) + "\n")
    return f"scores: {shlex.quote(str(output / f'{name}.json'))}"
