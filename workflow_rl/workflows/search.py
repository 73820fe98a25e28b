"""Which order is best, found with fewer episodes than all orders take.

Successive halving (Karnin et al., 2013), and Thompson sampling in a Gaussian process. The
covariance of two orders is the mean of Kendall's correlation (Jiao and Vert, 2015), which compares
which of two groups comes first, and of the share of groups that directly follow the same group in
both orders.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from workflow_rl.workflows.order import Order, Workflow, precedence, ranks_of

Pull: TypeAlias = Callable[[Order, range], NDArray[np.float64]]
"""Return an order's totals in the episodes of these numbers."""

LEAST_EPISODES = 10
"""Episodes that an order plays before it may be given up."""
MOST_STEP, N_STEPS = 50, 30
"""The Gaussian process and random search play an order in steps of this many episodes, or of fewer,
so that a small budget too is for this many steps."""
N_FIRST = 6
"""Orders that are played before the Gaussian process is first asked."""
MOST_CANDIDATES = 500
N_CONSIDERED = 200
"""Random orders of which the Gaussian process draws totals at once: the time of a draw grows with
the cube of their number."""


class Best(NamedTuple):
    """The order that a search chose, the mean total that it expects, and episodes played."""

    order: Order
    mean: float
    episodes: int


class _Tally:
    """What orders have come to so far. Every order plays the episodes 0, 1, 2, ..."""

    def __init__(self, pull: Pull, budget: int) -> None:
        self.left = budget
        self.totals: dict[Order, NDArray[np.float64]] = {}
        self._pull = pull
        self._budget = budget

    def play(self, order: Order, episodes: int) -> None:
        """Play the order's next episodes, as far as the budget goes."""
        before = self.totals.get(order, np.zeros(0))
        episodes = min(episodes, self.left)
        if episodes > 0:
            more = self._pull(order, range(len(before), len(before) + episodes))
            self.totals[order] = np.concatenate([before, more])
            self.left -= episodes

    def mean(self, order: Order) -> float:
        return float(self.totals[order].mean())

    def found(self, order: Order, mean: float | None = None) -> Best:
        return Best(order, self.mean(order) if mean is None else mean, self._budget - self.left)


def candidates(workflow: Workflow, random: np.random.Generator) -> list[Order]:
    """Return all orders in random order, or as many as can be considered."""
    try:
        orders = workflow.orders()
    except ValueError:
        drawn = (workflow.drawn(random) for _ in range(2 * MOST_CANDIDATES))
        return list(dict.fromkeys(drawn))[:MOST_CANDIDATES]
    return [orders[n] for n in random.permutation(len(orders))]


def halving(workflow: Workflow, pull: Pull, budget: int, seed: int = 0) -> Best:
    """Play all candidates a little, the better half more, and so on."""
    orders = candidates(workflow, np.random.default_rng(seed))
    while len(orders) > 2 and len(orders) * math.log2(len(orders)) * LEAST_EPISODES > budget:
        orders.pop()
    n_rounds, tally = math.ceil(math.log2(len(orders))), _Tally(pull, budget)
    for number in range(n_rounds):
        share = tally.left // (n_rounds - number) // len(orders)
        for order in orders:
            tally.play(order, max(1, share))
        orders = sorted(
            (order for order in orders if order in tally.totals), key=tally.mean, reverse=True
        )
        orders = orders[: math.ceil(len(orders) / 2)]
    return tally.found(orders[0])


def random_search(workflow: Workflow, pull: Pull, budget: int, seed: int = 0) -> Best:
    """Play random orders, each as often: what other ways of searching have to beat."""
    orders = candidates(workflow, np.random.default_rng(seed))[: budget // _step(budget)]
    tally = _Tally(pull, budget)
    for order in orders:
        tally.play(order, budget // len(orders))
    return tally.found(max(tally.totals, key=tally.mean))


def gaussian_process(workflow: Workflow, pull: Pull, budget: int, seed: int = 0) -> Best:
    """Play the order that is best in a draw from what the episodes so far make likely.

    Raises ModuleNotFoundError without scikit-learn.
    """
    random, tally, step = np.random.default_rng(seed), _Tally(pull, budget), _step(budget)
    for order in candidates(workflow, random)[:N_FIRST]:
        tally.play(order, step)
    while tally.left:
        model = OrderModel(workflow, tally.totals)
        best, _ = model.best(list(tally.totals))
        orders = [best, *swapped(workflow, best)]
        orders += candidates(workflow, random)[:N_CONSIDERED]
        tally.play(orders[int(model.drawn(orders, random).argmax())], step)
    order, mean = OrderModel(workflow, tally.totals).best(list(tally.totals))
    return tally.found(order, mean)


def _step(budget: int) -> int:
    return min(MOST_STEP, max(1, budget // N_STEPS))


def swapped(workflow: Workflow, order: Order) -> list[Order]:
    """Return the orders in which two groups that follow one another change places."""
    found = [
        (*order[:n], order[n + 1], order[n], *order[n + 2 :])
        for n in range(len(workflow.contested) - 1)
    ]
    # Groups that never need fixing stand last, whatever the constraints say of them.
    pairs, n_contested = workflow.implied, len(workflow.contested)
    return [
        order
        for order in found
        if not any((b, a) in pairs for a, b in itertools.combinations(order[:n_contested], 2))
    ]


def _follows(ranks: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return for each group whether it comes first, and for each two whether the second follows the
    first directly: 0 or 1, [M, (G + 1) G]. Each order has G ones. ranks: [M, G]."""
    order, n_groups = np.argsort(ranks, axis=1), ranks.shape[1]
    follows = np.zeros((len(ranks), n_groups + 1, n_groups))
    start = np.full((len(ranks), 1), n_groups)
    earlier = np.concatenate([start, order[:, :-1]], axis=1)
    follows[np.arange(len(ranks))[:, None], earlier, order] = 1
    return follows.reshape(len(ranks), -1)


class OrderModel:
    """A Gaussian process over orders. The noise of an order's mean is its episodes' variance by
    their number. totals: of the orders that were played."""

    def __init__(self, workflow: Workflow, totals: Mapping[Order, NDArray[np.float64]]) -> None:
        from sklearn.gaussian_process import GaussianProcessRegressor
        from sklearn.gaussian_process.kernels import DotProduct

        self._contested = workflow.contested
        means = np.array([values.mean() for values in totals.values()])
        n_played = np.array([len(values) for values in totals.values()])
        within = sum(((values - values.mean()) ** 2).sum() for values in totals.values())
        variance = within / max(1, n_played.sum() - len(totals))
        self._middle, self._scale = means.mean(), max(means.std(), 1e-9)
        noise = variance / n_played / self._scale**2
        # The prior variance is that of the means: few orders tell too little to fit it better.
        self._process = GaussianProcessRegressor(
            DotProduct(sigma_0=0.0, sigma_0_bounds="fixed"), alpha=noise + 1e-9, optimizer=None
        )
        self._process.fit(self._features(list(totals)), (means - self._middle) / self._scale)

    def _features(self, orders: Sequence[Order]) -> NDArray[np.float64]:
        """Return vectors [M, F] of which the products are the covariances."""
        ranks = ranks_of(orders)[:, self._contested]
        bits = precedence(ranks)
        before = (2.0 * bits.astype(np.float64) - 1.0) / math.sqrt(bits.shape[1])
        beside = _follows(ranks) / math.sqrt(ranks.shape[1])
        return np.concatenate([before, beside], axis=1) / math.sqrt(2)

    def best(self, orders: Sequence[Order]) -> tuple[Order, float]:
        """Return the order with the highest expected total, and this total."""
        means = self._process.predict(self._features(orders))
        best = int(means.argmax())
        return orders[best], float(self._middle + self._scale * means[best])

    def drawn(self, orders: Sequence[Order], random: np.random.Generator) -> Any:
        """Return totals [M] of orders, in its units, as one draw from the posterior has them."""
        mean, covariance = self._process.predict(self._features(orders), return_cov=True)
        # Many more orders than features: the covariance is singular, and rounding errors make its
        # smallest eigenvalues negative.
        return random.multivariate_normal(mean, covariance, method="eigh", check_valid="ignore")


METHODS: Mapping[str, Callable[[Workflow, Pull, int, int], Best]] = {
    "halving": halving,
    "gaussian-process": gaussian_process,
    "random": random_search,
}
"""Ways to find the best order within a number of episodes."""
