"""All orders, from best to worst: what each comes to, and whether the order matters."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from workflow_rl.runs.seed_groups import mean_and_interval
from workflow_rl.workflows.order import Order, Workflow

FloatArray = NDArray[np.float64]
SHUFFLES = 1000


class Mean(NamedTuple):
    """A mean, and half its 95% interval: Student's over agents, or, of one agent, over episodes."""

    mean: float
    interval_95: float

    def __str__(self) -> str:
        return f"{self.mean:.2f} ± {self.interval_95:.2f}"


class Ladder(NamedTuple):
    """What agents came to in all orders: O orders, A agents, E episodes.

    totals: [A, O, E]. fixes, adherence: means by agent and order, [A, O]. free: totals of agents
    without an order, [B, E]; None if there are none. free_fixes: their fixes in an episode, [B].
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
        """The best order's lead over the median order. Every second episode chooses the two, and
        the others give the lead: a lead in the episodes that chose is partly luck."""
        best, median = _best_and_median(self.totals[:, :, ::2])
        return over_agents(self.totals[:, best, 1::2] - self.totals[:, median, 1::2])

    def shuffled_lead(self, seed: int = 0) -> tuple[float, float]:
        """Return the range of 95% of such leads if the orders' names are shuffled after the choice:
        a lead outside is no luck."""
        random, means = np.random.default_rng(seed), self.totals[:, :, 1::2].mean(axis=(0, 2))
        shuffled = (random.permutation(means) for _ in range(SHUFFLES))
        low, high = np.quantile([one[0] - one[1] for one in shuffled], [0.025, 0.975])
        return float(low), float(high)

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
            "shuffled_lead": self.shuffled_lead(),
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


def _best_and_median(totals: FloatArray) -> tuple[int, int]:
    places = np.argsort(-totals.mean(axis=(0, 2)), kind="stable")
    return int(places[0]), int(places[len(places) // 2])


def _mean(values: FloatArray | Sequence[float] | None) -> float | None:
    return None if values is None else float(np.mean(values))
