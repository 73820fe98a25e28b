"""Orders from best to worst, and whether the order matters."""

from collections.abc import Sequence

import numpy as np
import pytest

from workflow_rl.workflows.order import Order, Workflow, precedence, ranks_of
from workflow_rl.workflows.page import workflow_page
from workflow_rl.workflows.ranking import LEAST_EPISODES, Ranking

NAMES = tuple("abcde")
FIVE = Workflow(NAMES, tuple((name,) for name in NAMES))
WEIGHTS = np.array([8.0, -1, 2, 0, 1, -3, 0, 2, 1, -2])


def worth(order: Order) -> float:
    """A sum over pairs of groups."""
    return float(precedence(ranks_of([order]))[0] @ WEIGHTS)


def ranking_of(effect: float) -> Ranking:
    random, orders = np.random.default_rng(0), FIVE.orders()
    worths = np.array([effect * worth(order) for order in orders])
    totals = worths[:, None] + random.normal(0, 1, (3, 120, 40))
    n_decided = np.full((3, 120), 4)
    return Ranking(FIVE, orders, totals, n_decided, n_decided - 1)


def test_a_ranking_tells_a_lead_from_luck():
    real, luck = ranking_of(1.0), ranking_of(0.0)
    assert worth(real.orders[real.ranked[0]]) == max(map(worth, real.orders))
    assert real.lead.mean - real.lead.interval_95 > 3
    assert abs(luck.lead.mean) < luck.lead.interval_95 < 2
    assert real.verdict.startswith("The order matters. ")
    assert "do not show that the order matters" in luck.verdict
    scores = real.to_dict()
    assert scores["orders"][0]["order"] == FIVE.name_of(real.orders[real.ranked[0]])
    assert scores["best"]["mean"] == real.totals[:, real.best, 1::2].mean()
    assert scores["lead"]["mean"] == pytest.approx(
        scores["best"]["mean"] - real.totals[:, real.worst, 1::2].mean()
    )


def test_the_share_of_fixes_in_order_is_of_those_that_the_order_decided():
    n_decided = np.array([[4, 0, 2], [2, 0, 0]])
    n_kept = np.array([[2, 0, 1], [2, 0, 0]])
    workflow = Workflow(tuple("abc"), (("a",), ("b",), ("c",)), ((0, 1),))
    ranking = Ranking(workflow, workflow.orders(), np.zeros((2, 3, 6)), n_decided, n_kept)
    shares = [ranking.kept_of(place).mean for place in range(3)]
    assert shares == pytest.approx([3 / 4, np.nan, np.nan], nan_ok=True)
    assert ranking.kept_of_all.mean == pytest.approx((3 / 6 + 2 / 2) / 2)
    assert ranking.to_dict()["orders"][1]["kept"]["mean"] is None


def ranking_of_three(
    worths: Sequence[float], shape: tuple[int, int], random: np.random.Generator
) -> Ranking:
    """Agents whose episodes favour orders by chance, in the same way for all agents.

    worths: of a,b,c and a,c,b and c,a,b. shape: numbers of agents and of episodes.
    """
    workflow = Workflow(tuple("abc"), (("a",), ("b",), ("c",)), ((0, 1),))
    names = {"a,b,c": worths[0], "a,c,b": worths[1], "c,a,b": worths[2]}
    orders = workflow.orders()
    means = np.array([names[workflow.name_of(order)] for order in orders])
    by_chance = random.normal(0, 1, (1, len(orders), shape[1]))
    of_each = random.normal(0, 0.3, (shape[0], len(orders), shape[1]))
    n_decided = np.full((shape[0], len(orders)), 2)
    return Ranking(workflow, orders, means[:, None] + by_chance + of_each, n_decided, n_decided)


@pytest.mark.parametrize("n_agents", [1, 2, 5])
@pytest.mark.parametrize("n_episodes", [LEAST_EPISODES, 20])
def test_where_no_order_is_better_the_verdict_is_rarely_that_the_order_matters(
    n_agents, n_episodes
):
    random, n = np.random.default_rng(0), 200
    rankings = (ranking_of_three([0, 0, 0], (n_agents, n_episodes), random) for _ in range(n))
    n_wrong = sum(ranking.verdict.startswith("The order matters.") for ranking in rankings)
    assert n_wrong <= 0.07 * n


@pytest.mark.parametrize("n_episodes", [2, 5])
def test_too_few_episodes_to_choose_in_some_and_judge_in_others_tell_nothing(n_episodes):
    ranking = ranking_of_three([0, 0, -13], (2, n_episodes), np.random.default_rng(0))
    assert "to see whether the order matters" in ranking.verdict
    assert "did not choose" not in ranking.verdict
    assert ranking.verdict in workflow_page("runs", ranking)
