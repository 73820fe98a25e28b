"""All orders, from best to worst: what each comes to, and whether the order matters."""

from __future__ import annotations

import itertools
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from workflow_rl.runs.intervals import FloatArray, Mean, over_agents
from workflow_rl.workflows.order import Order, Workflow, ranks_of


class Obeyed(NamedTuple):
    """How agents kept an order: fixes in an episode, made while a group was due; the share of them
    that fixed it; and this share where several groups needed fixing, so that the order decided."""

    fixes: Mean
    adherence: Mean
    adherence_decided: Mean

    def told(self) -> list[str]:
        """Return the three as text."""
        return [self.fixes.told(1), *(share.told(1, 100, "%") for share in self[1:])]

    def plain(self) -> dict[str, Any]:
        """Return what JSON can hold."""
        return {name: mean.plain() for name, mean in self._asdict().items()}


class FixCounts(NamedTuple):
    """Episodes; fixes in them that were made while a group was due, and those that fixed it; the
    same of the states in which several groups needed fixing, so that the order decided. int64,
    equal shapes."""

    episodes: NDArray[np.int64]
    ruled: NDArray[np.int64]
    kept: NDArray[np.int64]
    decided: NDArray[np.int64]
    decided_kept: NDArray[np.int64]

    def over(self, axis: int) -> FixCounts:
        """Return the sums over an axis."""
        return FixCounts(*(counts.sum(axis=axis) for counts in self))

    @property
    def an_episode(self) -> FloatArray:
        """The fixes in an episode."""
        return self.ruled / self.episodes

    @property
    def adherence(self) -> FloatArray:
        """The share of the fixes that kept to the order; NaN of no fixes."""
        return _share(self.kept, self.ruled)

    @property
    def adherence_decided(self) -> FloatArray:
        """The share, where the order decided, of the fixes that kept to the order."""
        return _share(self.decided_kept, self.decided)


class Row(NamedTuple):
    """The total of one order or of several. price: the loss compared with no order, None if there
    is no run without an order."""

    what: str
    orders: list[int]
    total: Mean
    price: Mean | None


class Ladder(NamedTuple):
    """What agents came to in all orders: O orders, A agents, E episodes.

    totals: [A, O, E]. fixes: in all episodes, by agent and order, [A, O]. free: totals of agents
    without an order, [A, E]; None if there are none. free_fixes: their fixes [A], each episode
    beside an order that its seed draws; None if the environment of those agents has no groups.
    """

    workflow: Workflow
    orders: list[Order]
    totals: FloatArray
    fixes: FixCounts
    free: FloatArray | None = None
    free_fixes: FixCounts | None = None

    @property
    def ranked(self) -> list[int]:
        """The places of the orders in `orders`, best first."""
        return _ranked(self.totals)

    def of(self, place: int) -> Mean:
        """Return the total of an order."""
        return over_agents(self.totals[:, place])

    @property
    def unconstrained(self) -> Mean | None:
        """The total without an order."""
        return None if self.free is None else over_agents(self.free)

    @property
    def rows(self) -> list[Row]:
        """The best, the median and the worst order, and the mean of all. The median of an even
        number is the mean of the middle two.

        Every second episode chooses the orders, and the others score them: the best of many is
        partly lucky in the episodes that chose it.
        """
        ranked, n = _ranked(self.totals[:, :, ::2]), len(self.orders)
        middle = ranked[(n - 1) // 2 : n // 2 + 1]
        chosen = {"best": ranked[:1], "median": middle, "worst": ranked[-1:], "all": ranked}
        return [
            Row(what, places, over_agents(self._scored(places)), self._price(places))
            for what, places in chosen.items()
        ]

    def _scored(self, places: list[int]) -> FloatArray:
        """Return the mean totals [A, E / 2] of orders, in the episodes that choose none."""
        mean: FloatArray = _odd(self.totals)[:, places].mean(axis=1)
        return mean

    def _price(self, places: list[int]) -> Mean | None:
        """Return what orders cost compared with no order. The n-th agents have the same seed."""
        return None if self.free is None else over_agents(_odd(self.free) - self._scored(places))

    @property
    def lead(self) -> Mean:
        """The best order's lead over the worst, in the episodes that did not choose them."""
        best, _, worst, _ = self.rows
        return over_agents(self._scored(best.orders) - self._scored(worst.orders))

    @property
    def pairs(self) -> list[tuple[str, str, Mean]]:
        """Which group had better come before which, and by how much: the mean total of the orders
        in which the first comes first, less that of the others; the largest first."""
        return self._pairs(self.totals)

    @property
    def decisive(self) -> tuple[str, str, Mean]:
        """The pair with the largest gain, and its gain in the episodes that did not choose it."""
        a, b, _ = self._pairs(self.totals[:, :, ::2])[0]
        gains = {(first, second): gain for first, second, gain in self._pairs(_odd(self.totals))}
        if (a, b) in gains:
            return a, b, gains[a, b]
        return a, b, gains[b, a]._replace(mean=-gains[b, a].mean)

    def _pairs(self, totals: FloatArray) -> list[tuple[str, str, Mean]]:
        ranks, names, found = ranks_of(self.orders), self.workflow.groups, []
        for a, b in itertools.combinations(self.workflow.contested, 2):
            first = ranks[:, a] < ranks[:, b]
            if first.all() or not first.any():
                continue
            gain = over_agents(totals[:, first].mean(axis=1) - totals[:, ~first].mean(axis=1))
            if gain.mean < 0:
                a, b, gain = b, a, gain._replace(mean=-gain.mean)
            found.append((names[a], names[b], gain))
        return sorted(found, key=lambda pair: -pair[2].mean)

    def obeyed_of(self, place: int) -> Obeyed:
        """Return how the agents kept an order."""
        return obeyed(FixCounts(*(counts[:, place] for counts in self.fixes)))

    @property
    def obeyed(self) -> Obeyed:
        """How the agents kept all orders."""
        return obeyed(self.fixes.over(1))

    @property
    def free_obeyed(self) -> Obeyed | None:
        """How agents without an order kept one that they did not know."""
        return None if self.free_fixes is None else obeyed(self.free_fixes)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, best order first."""
        names = self.workflow.name_of
        free = self.free_obeyed
        return {
            "groups": dict(zip(self.workflow.groups, self.workflow.members, strict=True)),
            "agents": len(self.totals),
            "episodes": self.totals.shape[2],
            "orders": [
                {
                    "order": names(self.orders[place]),
                    **self.of(place).plain(),
                    **self.obeyed_of(place).plain(),
                }
                for place in self.ranked
            ],
            "rows": {
                row.what: {
                    "orders": [names(self.orders[place]) for place in row.orders],
                    "total": row.total.plain(),
                    "price": row.price and row.price.plain(),
                }
                for row in self.rows
            },
            "obeyed": self.obeyed.plain(),
            "lead": self.lead.plain(),
            "decisive": [*self.decisive[:2], self.decisive[2].plain()],
            "pairs": [[a, b, gain.plain()] for a, b, gain in self.pairs],
            "unconstrained": self.unconstrained and self.unconstrained.plain(),
            "unconstrained_obeyed": free and free.plain(),
        }


def obeyed(fixes: FixCounts) -> Obeyed:
    """Return how agents kept orders. fixes: of every agent, [A]."""
    measured = (fixes.an_episode, fixes.adherence, fixes.adherence_decided)
    return Obeyed(*(over_agents(values[:, None]) for values in measured))


def _ranked(totals: FloatArray) -> list[int]:
    return np.argsort(-totals.mean(axis=(0, 2)), kind="stable").tolist()


def _odd(totals: FloatArray) -> FloatArray:
    """Return every second episode; of one episode, that episode."""
    odd = totals[..., 1::2]
    return odd if odd.size else totals


def _share(part: NDArray[np.int64], whole: NDArray[np.int64]) -> FloatArray:
    return np.where(whole > 0, part / np.maximum(whole, 1), np.nan)
