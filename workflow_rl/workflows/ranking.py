"""Rank orders by their totals, and tell whether the order matters."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from workflow_rl.evaluation.intervals import FloatArray, Mean, over_agents
from workflow_rl.workflows.order import Order, Workflow

LEAST_EPISODES = 6
"""One half of the episodes scores the best order. An interval needs three episodes."""


class Ranking(NamedTuple):
    """The results of A agents in E episodes of each of O orders.

    totals: float64 [A, O, E], total rewards. n_decided: int64 [A, O], the number of fixes while
    several groups needed fixing. For these fixes, the order decides which group is due. n_kept:
    int64 [A, O], how many of these fixes were fixes of the group that was due."""

    workflow: Workflow
    orders: list[Order]
    totals: FloatArray
    n_decided: NDArray[np.int64]
    n_kept: NDArray[np.int64]

    @property
    def ranked(self) -> list[int]:
        """The indices of the orders in `orders`, best first."""
        return _ranked(self.totals)

    def name_of(self, place: int) -> str:
        return self.workflow.name_of(self.orders[place])

    def total_of(self, place: int) -> Mean:
        return over_agents(self.totals[:, place])

    def kept_of(self, place: int) -> Mean:
        """Return the share n_kept / n_decided for one order."""
        return _share(self.n_kept[:, place], self.n_decided[:, place])

    @property
    def total_of_all(self) -> Mean:
        return over_agents(self.totals.mean(axis=1))

    @property
    def kept_of_all(self) -> Mean:
        """The share n_kept / n_decided over all orders."""
        return _share(self.n_kept.sum(axis=1), self.n_decided.sum(axis=1))

    @property
    def best(self) -> int:
        """The index of the order that is best in every second episode. The other episodes score
        this order, because the best of many orders is partly lucky in the episodes that chose it.
        """
        return _ranked(self.totals[:, :, ::2])[0]

    @property
    def worst(self) -> int:
        """The index of the order that is worst in the episodes that choose the best order."""
        return _ranked(self.totals[:, :, ::2])[-1]

    @property
    def total_of_best(self) -> Mean:
        """The total of the best order in the other episodes, which did not choose this order."""
        return over_agents(self.totals[:, self.best, 1::2])

    @property
    def lead(self) -> Mean:
        """The lead of the best order over the worst order in the other episodes."""
        scored = self.totals[:, :, 1::2]
        return over_agents(scored[:, self.best] - scored[:, self.worst])

    @property
    def verdict(self) -> str:
        """Two sentences that tell whether the order matters. If the order does not matter, the
        probability of the verdict "The order matters." is at most 5%."""
        if self.totals.shape[2] < LEAST_EPISODES:
            return f"Give {LEAST_EPISODES} or more episodes, to see whether the order matters."
        claim = "These episodes do not show that the order matters."
        if self.lead.mean > self.lead.interval_95:
            claim = "The order matters."
        return (
            f"{claim} In the episodes that did not choose them, the best order leads the worst by "
            f"{self.lead}."
        )

    def to_dict(self) -> dict[str, Any]:
        """Return plain values. The best order is first."""
        orders = [
            {
                "order": self.name_of(place),
                **self.total_of(place).plain(),
                "kept": self.kept_of(place).plain(),
            }
            for place in self.ranked
        ]
        return {
            "groups": dict(zip(self.workflow.groups, self.workflow.members, strict=True)),
            "agents": len(self.totals),
            "episodes": self.totals.shape[2],
            "orders": orders,
            "all": {**self.total_of_all.plain(), "kept": self.kept_of_all.plain()},
            "best": {"order": self.name_of(self.best), **self.total_of_best.plain()},
            "worst": {"order": self.name_of(self.worst)},
            "lead": self.lead.plain(),
        }


def _ranked(totals: FloatArray) -> list[int]:
    """Return the indices of orders, the best order first. totals: [A, O, E]."""
    return np.argsort(-totals.mean(axis=(0, 2)), kind="stable").tolist()


def _share(part: NDArray[np.int64], whole: NDArray[np.int64]) -> Mean:
    """Return the mean over agents of part / whole, each [A]. NaN if an agent's whole is 0."""
    shares = np.where(whole > 0, part / np.maximum(whole, 1), np.nan)
    return over_agents(shares[:, None])
