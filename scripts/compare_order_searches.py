"""How close searches for the best order come to the scores of all orders, with a tenth of the
episodes; and what agents lose that are told another order than they are held to (--placebo).

TOTALS is the file totals.npz that search-workflow wrote.
"""

from __future__ import annotations

from pathlib import Path

import click
import numpy as np
from numpy.typing import NDArray

from workflow_rl.workflows.order import Order, Workflow
from workflow_rl.workflows.scoring import play
from workflow_rl.workflows.search import METHODS, Pull
from workflow_rl.workflows.trained import Trained


def searches(totals: NDArray[np.float64], names: list[str], repetitions: int) -> None:
    """Search in scores that are known. totals: by order and episode, [O, E]."""
    groups = tuple(sorted(names[0].split(",")))
    contested = _contested(names)
    members = tuple((group,) if group in contested else () for group in groups)
    workflow = Workflow(groups, members)
    place = {workflow.order_named(name): n for n, name in enumerate(names)}
    worth, n_episodes = totals.mean(axis=1), totals.shape[1]
    budget = totals.size // 10
    spread = 1.96 * totals[worth.argmax()].std(ddof=1) / np.sqrt(n_episodes)
    print(f"{len(names)} orders, {n_episodes} episodes each; a search has {budget} episodes")
    print(f"best {worth.max():.2f} ± {spread:.2f}, median {np.median(worth):.2f}")
    print(f"regret of an order whose name was shuffled: mean {worth.max() - worth.mean():.2f}")
    for method, search in METHODS.items():
        found = []
        for repetition in range(repetitions):
            shuffled = np.random.default_rng(repetition).permutation(n_episodes)
            order = search(workflow, _pull(totals, place, shuffled), budget, repetition).order
            found.append(worth[place[order]])
        regret = worth.max() - np.array(found)
        print(
            f"{method:17} regret: mean {regret.mean():.2f}, median {np.median(regret):.2f}, "
            f"largest {regret.max():.2f}"
        )


def _contested(names: list[str]) -> set[str]:
    """Return the groups whose place varies: the others stand at the end of every order."""
    orders = [name.split(",") for name in names]
    return {
        group for column in zip(*orders, strict=True) if len(set(column)) > 1 for group in column
    }


def _pull(
    totals: NDArray[np.float64], place: dict[Order, int], shuffled: NDArray[np.int64]
) -> Pull:
    def pull(order: Order, numbers: range) -> NDArray[np.float64]:
        return totals[
            place[order], shuffled[np.arange(numbers.start, numbers.stop) % len(shuffled)]
        ]

    return pull


def placebo(runs: list[Path], episodes: int) -> None:
    """Play each order with agents that are told it, and that are told another one."""
    trained = Trained.load(runs)
    orders = trained.workflow.orders()
    others = [orders[n] for n in np.random.default_rng(0).permutation(len(orders))]
    for what, labels in (("told", orders), ("told another", others)):
        played = [
            play(actor, trained.environment, trained.rules, order, range(episodes), label=label)
            for actor in trained.actors
            for order, label in zip(orders, labels, strict=True)
        ]
        total = np.mean([one.totals.mean() for one in played])
        kept = sum(one.kept.sum() for one in played) / sum(one.ruled.sum() for one in played)
        print(f"{what:13} mean total {total:.2f}, fixes in order {100 * kept:.1f}%")


@click.command(help=__doc__, context_settings={"show_default": True})
@click.argument("totals", type=click.Path(path_type=Path))
@click.option("--placebo", "runs", type=click.Path(path_type=Path), multiple=True, metavar="RUN")
@click.option("--repetitions", default=20, type=click.IntRange(1))
@click.option("--episodes", default=100, type=click.IntRange(1), help="Of each order, with RUN.")
def main(totals: Path, runs: tuple[Path, ...], repetitions: int, episodes: int) -> None:
    with np.load(totals, allow_pickle=False) as saved:
        searches(saved["totals"].mean(axis=0), saved["orders"].tolist(), repetitions)
    if runs:
        placebo(list(runs), episodes)


if __name__ == "__main__":
    main()
