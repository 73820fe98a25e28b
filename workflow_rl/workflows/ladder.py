"""All orders, from best to worst: what each comes to, and whether the order matters."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from workflow_rl.runs.seed_groups import mean_and_interval
from workflow_rl.workflows.order import Order, Workflow, ranks_of

FloatArray = NDArray[np.float64]


class Mean(NamedTuple):
    """A mean, and half its 95% interval: Student's over agents, or, of one agent, over episodes."""

    mean: float
    interval_95: float

    def __str__(self) -> str:
        return f"{self.mean:.2f} ± {self.interval_95:.2f}"


class Ladder(NamedTuple):
    """What agents came to in all orders: O orders, A agents, E episodes.

    totals: [A, O, E]. fixes: made in an episode while a group was due, and adherence: the share of
    them that kept to the order; means by agent and order, [A, O]. free: totals of agents without an
    order, [B, E]; None if there are none. free_fixes: their fixes in an episode, [B].
    """

    workflow: Workflow
    orders: list[Order]
    totals: FloatArray
    fixes: FloatArray
    adherence: FloatArray
    free: FloatArray | None = None
    free_fixes: FloatArray | None = None

    @property
    def ranked(self) -> list[int]:
        """The places of the orders in `orders`, best first."""
        return np.argsort(-self.totals.mean(axis=(0, 2)), kind="stable").tolist()

    def of(self, place: int) -> Mean:
        """Return the total of an order."""
        return over_agents(self.totals[:, place])

    @property
    def unconstrained(self) -> Mean | None:
        """The total without an order."""
        return None if self.free is None else over_agents(self.free)

    @property
    def lead(self) -> Mean:
        """The best order's lead over the median order, which of an even number is the mean of the
        middle two. Every second episode chooses them, and the others give the lead: a lead in the
        episodes that chose is partly luck."""
        chosen, scored = self.totals[:, :, ::2], self.totals[:, :, 1::2]
        scored = scored if scored.size else chosen
        best, median = _best_and_median(chosen)
        return over_agents(scored[:, best] - scored[:, median].mean(axis=1))

    @property
    def pairs(self) -> list[tuple[str, str, Mean]]:
        """Which group had better come before which, and by how much: the mean total of the orders
        in which the first comes first, less that of the others; the largest first."""
        ranks, names, found = ranks_of(self.orders), self.workflow.groups, []
        for a, b in itertools.combinations(self.workflow.contested, 2):
            first = ranks[:, a] < ranks[:, b]
            if first.all() or not first.any():
                continue
            gain = over_agents(
                self.totals[:, first].mean(axis=1) - self.totals[:, ~first].mean(axis=1)
            )
            if gain.mean < 0:
                a, b, gain = b, a, gain._replace(mean=-gain.mean)
            found.append((names[a], names[b], gain))
        return sorted(found, key=lambda pair: -pair[2].mean)

    def price(self, place: int) -> Mean | None:
        """Return what an order costs beside no order; the n-th agents are of the same seed."""
        if self.free is None:
            return None
        n = min(len(self.free), len(self.totals))
        return over_agents(self.free[:n] - self.totals[:n, place])

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, best order first."""
        names = self.workflow.name_of
        return {
            "groups": dict(zip(self.workflow.groups, self.workflow.members, strict=True)),
            "agents": len(self.totals),
            "episodes": self.totals.shape[2],
            "orders": [
                {
                    "order": names(self.orders[place]),
                    **self.of(place)._asdict(),
                    "fixes": float(self.fixes[:, place].mean()),
                    "adherence": float(self.adherence[:, place].mean()),
                }
                for place in self.ranked
            ],
            "lead": self.lead._asdict(),
            "pairs": [[a, b, gain._asdict()] for a, b, gain in self.pairs],
            "unconstrained": None if self.unconstrained is None else self.unconstrained._asdict(),
            "unconstrained_fixes": _mean(self.free_fixes),
        }


def over_agents(totals: FloatArray) -> Mean:
    """Return the mean of totals [A, E]."""
    if len(totals) == 1:
        n = totals.shape[1]
        error = totals.std(ddof=1) / np.sqrt(n) if n > 1 else np.nan
        return Mean(float(totals.mean()), float(1.96 * error))
    mean, half = mean_and_interval(totals.mean(axis=1, keepdims=True))
    return Mean(float(mean[0]), float(half[0]))


def _best_and_median(totals: FloatArray) -> tuple[int, list[int]]:
    places = np.argsort(-totals.mean(axis=(0, 2)), kind="stable").tolist()
    return places[0], places[(len(places) - 1) // 2 : len(places) // 2 + 1]


def _mean(values: FloatArray | Sequence[float] | None) -> float | None:
    return None if values is None else float(np.mean(values))
