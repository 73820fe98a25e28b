"""Compare searches for the best order: print how good the orders are that they find.

TOTALS is the file totals.npz that search-workflow wrote: the searches draw from its episodes, with
a share of all. Give a run that has too many orders to score them all as --run: the searches play
--budget episodes, and further episodes score the orders that they find.
--placebo tells what agents lose that are told another order than they are held to.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path

import click
import numpy as np
from numpy.typing import NDArray

from workflow_rl.runs.intervals import over_agents
from workflow_rl.workflows.ladder import FixCounts, obeyed
from workflow_rl.workflows.order import Order, Workflow
from workflow_rl.workflows.scoring import play_orders
from workflow_rl.workflows.search import METHODS, Pull
from workflow_rl.workflows.trained import Trained


def compare(
    totals: NDArray[np.float64], names: list[str], budget: int, methods: list[str], n_searches: int
) -> None:
    """Search in scores that are known. totals: by order and episode, [O, E]."""
    groups = tuple(sorted(names[0].split(",")))
    workflow = Workflow(groups, tuple((group,) for group in groups), _before(names, groups))
    place = {workflow.order_named(name): n for n, name in enumerate(names)}
    worth, n_episodes = totals.mean(axis=1), totals.shape[1]

    def regret(method: str, number: int) -> float:
        pull = _pull(totals, place, n_episodes, number)
        order = METHODS[method](workflow, pull, budget, number).order
        return float(worth.max() - worth[place[order]])

    tell(budget, "regret", methods, n_searches, regret)


def _before(names: list[str], groups: tuple[str, ...]) -> tuple[tuple[int, int], ...]:
    """Return the pairs of groups of which the first comes before the second in every order."""
    orders = [[groups.index(group) for group in name.split(",")] for name in names]
    pairs = itertools.permutations(range(len(groups)), 2)
    return tuple(
        (first, second)
        for first, second in pairs
        if all(order.index(first) < order.index(second) for order in orders)
    )


def tell(
    budget: int,
    what: str,
    methods: list[str],
    n_searches: int,
    measured: Callable[[str, int], float],
) -> None:
    """Print what the searches of each method come to, and the difference from the first method.

    measured: takes a method and the number of a search, which decides the episodes that are played.
    """
    at_first = np.zeros(0)
    for method in methods:
        found = np.array([measured(method, number) for number in range(n_searches)])
        at_first = at_first if len(at_first) else found
        beside = over_agents((found - at_first)[:, None])
        print(
            f"{budget:6} episodes, {method:17} {what}: mean {found.mean():.2f}, median "
            f"{np.median(found):.2f}, {found.min():.2f} to {found.max():.2f}; "
            f"beside {methods[0]} {beside}",
            flush=True,
        )


def search_runs(
    runs: list[Path],
    budget: int,
    episodes: int,
    methods: list[str],
    n_searches: int,
    trust: bool,
) -> None:
    """Search by playing. Search number n plays episodes of the seed n + 1; those of seed 0 score.

    The row `drawn` is a random order in the place of a found one.
    """
    trained = Trained.load(runs, trust)
    scored = trained.puller(0)

    def total(method: str, number: int) -> float:
        seed = number + 1
        if method == "drawn":
            order = trained.workflow.drawn(np.random.default_rng(seed))
        else:
            order = METHODS[method](trained.workflow, trained.puller(seed), budget, seed).order
        return float(scored(order, range(episodes)).mean())

    tell(budget, "total", [*methods, "drawn"], n_searches, total)


def _pull(
    totals: NDArray[np.float64], place: dict[Order, int], n_episodes: int, number: int
) -> Pull:
    shuffled = np.random.default_rng(number).permutation(n_episodes)

    def pull(order: Order, numbers: range) -> NDArray[np.float64]:
        return totals[place[order], shuffled[np.arange(numbers.start, numbers.stop) % n_episodes]]

    return pull


def placebo(runs: list[Path], episodes: int, trust: bool) -> None:
    """Play with agents that are told the order, which each episode draws, and another one."""
    trained, totals = Trained.load(runs, trust), []
    for what, is_placebo in (("told", False), ("told another", True)):
        played = [
            play_orders(
                actor, trained.environment, trained.rules, None, range(episodes), placebo=is_placebo
            )
            for actor in trained.actors
        ]
        totals.append(np.array([episodes.totals for episodes in played]))
        fixes = np.transpose([episodes.fixes.over(0) for episodes in played])
        _, kept, decided = obeyed(FixCounts(*fixes)).told()
        print(f"{what:13} total {over_agents(totals[-1])}, in order {kept}, of several {decided}")
    print(f"gain of the right order: {over_agents(totals[0] - totals[1])}")


@click.command(help=__doc__, context_settings={"show_default": True})
@click.argument("totals", type=click.Path(path_type=Path), required=False)
@click.option("--share", "shares", multiple=True, default=[0.1], type=click.FloatRange(0, 1),
              help="Of all episodes, for a search. May be given again.")  # fmt: skip
@click.option(
    "--method", "methods", multiple=True, default=[*METHODS], type=click.Choice([*METHODS])
)
@click.option("--searches", default=20, type=click.IntRange(2))
@click.option("--run", "searched", type=click.Path(path_type=Path), multiple=True, metavar="RUN")
@click.option(
    "--budget", default=3000, type=click.IntRange(1), help="Episodes of a search of --run."
)
@click.option("--placebo", "runs", type=click.Path(path_type=Path), multiple=True, metavar="RUN")
@click.option(
    "--episodes",
    default=1000,
    type=click.IntRange(1),
    help="Episodes that score an order of --run, or a RUN of --placebo.",
)
@click.option("--trust", is_flag=True, help="Import the factories that the runs name.")
def main(
    totals: Path | None,
    shares: list[float],
    methods: list[str],
    searches: int,
    searched: tuple[Path, ...],
    budget: int,
    runs: tuple[Path, ...],
    episodes: int,
    trust: bool,
) -> None:
    if totals is None and not searched and not runs:
        raise click.UsageError("give TOTALS, --run or --placebo")
    methods = [*{"random": 0, **dict.fromkeys(methods)}]
    if totals is not None:
        _search_totals(totals, shares, methods, searches)
    if searched:
        search_runs(list(searched), budget, episodes, methods, searches, trust)
    if runs:
        placebo(list(runs), episodes, trust)


def _search_totals(path: Path, shares: list[float], methods: list[str], searches: int) -> None:
    with np.load(path, allow_pickle=False) as saved:
        known, names = saved["totals"].mean(axis=0), saved["orders"].tolist()
    best = known[known.mean(axis=1).argmax()]
    print(f"{len(names)} orders, {known.shape[1]} episodes each")
    print(f"best {over_agents(best[None])}, median {np.median(known.mean(axis=1)):.2f}")
    print(f"regret of an order with a random name: mean {best.mean() - known.mean():.2f}")
    for share in shares:
        compare(known, names, round(share * known.size), methods, searches)


if __name__ == "__main__":
    main()
