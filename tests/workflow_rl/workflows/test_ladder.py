"""Orders from best to worst, and whether the order matters."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from workflow_rl.workflows.ladder import FixCounts, Ladder
from workflow_rl.workflows.order import Order, Workflow, precedence, ranks_of
from workflow_rl.workflows.page import LEAST_EPISODES, order_verdict, workflow_page

NAMES = tuple("abcde")
FIVE = Workflow(NAMES, tuple((name,) for name in NAMES))
WEIGHTS = np.array([8.0, -1, 2, 0, 1, -3, 0, 2, 1, -2])


def worth(order: Order) -> float:
    """A sum over pairs of groups."""
    return float(precedence(ranks_of([order]))[0] @ WEIGHTS)


def ladder_of(effect: float) -> Ladder:
    random, orders = np.random.default_rng(0), FIVE.orders()
    worths = np.array([effect * worth(order) for order in orders])
    totals = worths[:, None] + random.normal(0, 1, (3, 120, 40))
    fixes = FixCounts(*np.full((5, 3, 120), 2))
    return Ladder(FIVE, orders, totals, fixes, totals[:, 0] + 7, fixes.over(1))


def test_a_ladder_tells_a_lead_from_luck() -> None:
    real, luck = ladder_of(1.0), ladder_of(0.0)
    assert worth(real.orders[real.ranked[0]]) == max(map(worth, real.orders))
    assert real.lead.mean - real.lead.interval_95 > 3
    assert abs(luck.lead.mean) < luck.lead.interval_95 < 2
    assert order_verdict(real).startswith("The order matters. ")
    assert "do not show that the order matters" in order_verdict(luck)
    best, median, worst, every = real.rows
    assert best.total.mean > median.total.mean > every.total.mean - 1 > worst.total.mean
    assert len(median.orders) == 2
    for row in real.rows:
        assert row.price is not None
        free = real.totals[:, 0, 1::2].mean() + 7
        assert row.price.mean == pytest.approx(free - row.total.mean)
    assert real.to_dict()["orders"][0]["order"] == FIVE.name_of(real.orders[real.ranked[0]])


def ladder_of_three(
    worths: Sequence[float], shape: tuple[int, int], random: np.random.Generator
) -> Ladder:
    """Agents whose episodes favour orders by chance, in the same way for all agents.

    worths: of a,b,c and a,c,b and c,a,b. shape: numbers of agents and of episodes.
    """
    workflow = Workflow(tuple("abc"), (("a",), ("b",), ("c",)), ((0, 1),))
    names = {"a,b,c": worths[0], "a,c,b": worths[1], "c,a,b": worths[2]}
    orders = workflow.orders()
    means = np.array([names[workflow.name_of(order)] for order in orders])
    by_chance = random.normal(0, 1, (1, len(orders), shape[1]))
    of_each = random.normal(0, 0.3, (shape[0], len(orders), shape[1]))
    fixes = FixCounts(*np.full((5, shape[0], len(orders)), 2))
    return Ladder(workflow, orders, means[:, None] + by_chance + of_each, fixes)


def test_a_pair_matters_where_the_median_order_is_as_good_as_the_best() -> None:
    said = order_verdict(ladder_of_three([0, 0, -13], (1, 40), np.random.default_rng(0)))
    assert said.startswith("The order matters. ")
    assert "a before c" in said


@pytest.mark.parametrize("n_agents", [1, 2, 5])
@pytest.mark.parametrize("n_episodes", [LEAST_EPISODES, 20])
def test_where_no_order_is_better_the_verdict_is_rarely_that_the_order_matters(
    n_agents: int, n_episodes: int
) -> None:
    random, n = np.random.default_rng(0), 200
    ladders = (ladder_of_three([0, 0, 0], (n_agents, n_episodes), random) for _ in range(n))
    assert sum(order_verdict(one).startswith("The order matters.") for one in ladders) <= 0.07 * n


@pytest.mark.parametrize("n_episodes", [1, 2, 5])
def test_too_few_episodes_to_choose_in_some_and_judge_in_others_tell_nothing(
    n_episodes: int,
) -> None:
    ladder = ladder_of_three([0, 0, -13], (2, n_episodes), np.random.default_rng(0))
    said = order_verdict(ladder)
    assert "do not tell whether the order matters" in said
    assert "did not choose" not in said
    page = workflow_page("runs", ladder)
    assert said in page
    assert ("the others are scored" in page) == (n_episodes > 1)
