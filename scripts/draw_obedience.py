"""How agents keep orders, and what they come to, by the price of a fix that breaks the order.

RUNS are runs of train-workflow: with --obedience mask or penalty, several seeds of each. Every
episode draws an order, and all agents play the same episodes.
"""

from __future__ import annotations

from pathlib import Path

import click
import numpy as np
from matplotlib.figure import Figure

from workflow_rl.reporting.drawing import save_png
from workflow_rl.runs.intervals import Mean, over_agents
from workflow_rl.workflows.ladder import FixCounts, Obeyed, obeyed
from workflow_rl.workflows.rules import MASK
from workflow_rl.workflows.scoring import OrderEpisodes, play_orders
from workflow_rl.workflows.trained import Trained


def measured(played: list[OrderEpisodes]) -> tuple[Mean, Obeyed]:
    """Return the total, and how the order was kept, of agents that differ in their seed."""
    total = over_agents(np.array([episodes.totals for episodes in played]))
    return total, obeyed(FixCounts(*np.transpose([episodes.fixes.over(0) for episodes in played])))


def draw(path: Path, rows: dict[str, tuple[Mean, Obeyed]]) -> None:
    figure = Figure(figsize=(7, 4.2), layout="constrained")
    axes = figure.subplots()
    for place, (adherence, name) in enumerate(
        [("adherence_decided", "where several groups need fixing"), ("adherence", "all fixes")]
    ):
        shares = [getattr(how, adherence) for _, how in rows.values()]
        totals = [total for total, _ in rows.values()]
        axes.errorbar(
            [100 * share.mean for share in shares],
            [total.mean for total in totals],
            [np.nan_to_num(total.interval_95) for total in totals],
            [np.nan_to_num(100 * share.interval_95) for share in shares],
            fmt="o-" if place == 0 else "s--",
            label=name,
            color=f"C{place}",
            alpha=1 - 0.5 * place,
            capsize=3,
        )
        for what, share, total in zip(rows, shares, totals, strict=True):
            if place == 0:
                axes.annotate(
                    what, (100 * share.mean, total.mean), (6, 6), textcoords="offset points"
                )
    axes.set(xlabel="fixes that kept to the order, %", ylabel="mean total")
    axes.grid(alpha=0.3)
    axes.legend(loc="lower left")
    save_png(figure, path)


@click.command(help=__doc__, context_settings={"show_default": True})
@click.argument("runs", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--episodes", default=1000, type=click.IntRange(1))
@click.option("--output", default=Path("obedience.png"), type=click.Path(path_type=Path))
def main(runs: tuple[Path, ...], episodes: int, output: Path) -> None:
    by_price: dict[float, list[OrderEpisodes]] = {}
    for run in runs:
        trained = Trained.load([run])
        args, (actor,) = trained.environment.args, trained.actors
        price = np.inf if args["obedience"] == MASK else args["penalty"]
        played = play_orders(actor, trained.environment, trained.rules, None, range(episodes))
        by_price.setdefault(price, []).append(played)
    rows = {}
    for price in sorted(by_price):
        rows[MASK if price == np.inf else f"price {price:g}"] = measured(by_price[price])
    heading = "price of a fix that breaks the order", "agents", "mean total", "fixes", "in order"
    print("|", " | ".join([*heading, "in order, when several groups needed fixing"]), "|")
    print("| --- | --- | --- | --- | --- | --- |")
    for (name, (total, how)), price in zip(rows.items(), sorted(by_price), strict=True):
        print("|", " | ".join([name, str(len(by_price[price])), str(total), *how.told()]), "|")
    draw(output, rows)


if __name__ == "__main__":
    main()
