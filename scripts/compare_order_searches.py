"""How close searches for the best order come to the scores of all orders, with a share of the
episodes; and what agents lose that are told another order than they are held to (--placebo).

TOTALS is the file totals.npz that search-workflow wrote.
"""

from __future__ import annotations

from pathlib import Path

import click
import numpy as np
from numpy.typing import NDArray

from workflow_rl.workflows.ladder import FixCounts, obeyed, over_agents
from workflow_rl.workflows.order import Order, Workflow
from workflow_rl.workflows.scoring import play
from workflow_rl.workflows.search import METHODS, Pull
from workflow_rl.workflows.trained import Trained


def compare(
    totals: NDArray[np.float64], names: list[str], budget: int, methods: list[str], n_searches: int
) -> None:
    """Search in scores that are known. totals: by order and episode, [O, E]."""
    groups = tuple(sorted(names[0].split(",")))
    workflow = Workflow(groups, tuple((group,) for group in groups))
    place = {workflow.order_named(name): n for n, name in enumerate(names)}
    worth, n_episodes = totals.mean(axis=1), totals.shape[1]
    regrets = {}
    for method in methods:
        orders = [
            METHODS[method](
                workflow, _pull(totals, place, n_episodes, number), budget, number
            ).order
            for number in range(n_searches)
        ]
        regrets[method] = worth.max() - np.array([worth[place[order]] for order in orders])
    for method, regret in regrets.items():
        # The searches of a number play the same episodes with all methods.
        gain = over_agents((regrets["random"] - regret)[:, None])
        print(
            f"{budget:6} episodes, {method:17} regret: mean {regret.mean():.2f}, median "
            f"{np.median(regret):.2f}, largest {regret.max():.2f}; less than random by {gain}"
        )


def _pull(
    totals: NDArray[np.float64], place: dict[Order, int], n_episodes: int, number: int
) -> Pull:
    shuffled = np.random.default_rng(number).permutation(n_episodes)

    def pull(order: Order, numbers: range) -> NDArray[np.float64]:
        return totals[place[order], shuffled[np.arange(numbers.start, numbers.stop) % n_episodes]]

    return pull


def placebo(runs: list[Path], episodes: int) -> None:
    """Play with agents that are told the order, which each episode draws, and another one."""
    trained, totals = Trained.load(runs), []
    for what, is_placebo in (("told", False), ("told another", True)):
        played = [
            play(
                actor, trained.environment, trained.rules, None, range(episodes), placebo=is_placebo
            )
            for actor in trained.actors
        ]
        totals.append(np.array([one.totals for one in played]))
        fixes = np.transpose([one.fixes.over(0) for one in played])
        _, kept, decided = obeyed(FixCounts(*fixes)).told()
        print(f"{what:13} total {over_agents(totals[-1])}, in order {kept}, of several {decided}")
    print(f"gain of the right order: {over_agents(totals[0] - totals[1])}")


@click.command(help=__doc__, context_settings={"show_default": True})
@click.argument("totals", type=click.Path(path_type=Path))
@click.option("--share", "shares", multiple=True, default=[0.1], type=click.FloatRange(0, 1),
              help="Of all episodes, for a search. May be given again.")  # fmt: skip
@click.option("--method", "methods", multiple=True, default=METHODS, type=click.Choice([*METHODS]))
@click.option("--searches", default=20, type=click.IntRange(2))
@click.option("--placebo", "runs", type=click.Path(path_type=Path), multiple=True, metavar="RUN")
@click.option("--episodes", default=1000, type=click.IntRange(1), help="Of each RUN.")
def main(
    totals: Path,
    shares: list[float],
    methods: list[str],
    searches: int,
    runs: tuple[Path, ...],
    episodes: int,
) -> None:
    with np.load(totals, allow_pickle=False) as saved:
        known, names = saved["totals"].mean(axis=0), saved["orders"].tolist()
    best = known[known.mean(axis=1).argmax()]
    print(f"{len(names)} orders, {known.shape[1]} episodes each")
    print(f"best {over_agents(best[None])}, median {np.median(known.mean(axis=1)):.2f}")
    print(f"regret of an order with a random name: mean {best.mean() - known.mean():.2f}")
    for share in shares:
        compare(
            known,
            names,
            round(share * known.size),
            [*{"random": 0, **dict.fromkeys(methods)}],
            searches,
        )
    if runs:
        placebo(list(runs), episodes)


if __name__ == "__main__":
    main()
