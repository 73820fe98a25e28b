"""Costs of steps as environments give them: `info["cost"]` is a number, which is Safety-Gymnasium's
convention, and `info["costs"]` a mapping of names to numbers."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from workflow_rl.environments.answers import as_reward
from workflow_rl.errors import ObservationError

COST, COSTS = "cost", "costs"


def costs_in(info: Any) -> dict[str, Any]:
    """Return the costs in the info of a step, by name, as the environment gives them. What stands
    in their place and is no mapping of texts counts as something else of the environment's."""
    if not isinstance(info, Mapping) or (COST not in info and COSTS not in info):
        return {}
    costs = info.get(COSTS)
    is_named = isinstance(costs, Mapping) and all(map(_is_name, costs))
    found = {COST: info.get(COST), **(dict(costs) if is_named and costs else {})}
    return {name: value for name, value in found.items() if value is not None}


def _is_name(name: object) -> bool:
    return isinstance(name, str) and name != "" and name.isprintable()


def of_a_team(infos: Any) -> dict[str, Any]:
    """Return the costs in the infos of agents: the sum over the agents for each name. A value that
    is no number stands for its sum, so that whoever reads the sum refuses it."""
    totals: dict[str, Any] = {}
    for info in infos.values():
        for name, value in costs_in(info).items():
            both = totals.get(name, 0.0), value
            wrong = [part for part in both if not _is_number(part)]
            totals[name] = wrong[0] if wrong else both[0] + as_reward(value)
    return totals


def _is_number(value: Any) -> bool:
    try:
        as_reward(value)
    except ObservationError:
        return False
    return True


def names_in(info: Any) -> tuple[str, ...]:
    """Return the names of the numbers among the costs in the info of a step."""
    return tuple(sorted(name for name, value in costs_in(info).items() if _is_number(value)))


def read_costs(info: Any, names: Sequence[str], step: int) -> list[float]:
    """Return the costs of a step in the order of `names`. Raise ObservationError for a cost that is
    missing, is no finite number, or has another name."""
    found = costs_in(info)
    if further := sorted(found.keys() - {*names}):
        raise ObservationError(
            f"step {step} has the cost {further[0]!r:.80}, which the environment's first step did "
            f"not have: {_wanted(further[0])}"
        )
    costs = []
    for name in names:
        if name not in found:
            raise ObservationError(f"step {step} lacks the cost {name!r}: {_wanted(name)}")
        costs.append(as_reward(found[name], "the cost", repr(name), "of step", step))
        if not math.isfinite(costs[-1]):
            raise ObservationError(
                f"the cost {name!r} of step {step} is {costs[-1]}, not a finite number"
            )
    return costs


def _wanted(name: str) -> str:
    place = f"info[{COST!r}]" if name == COST else f"info[{COSTS!r}][{name!r:.80}]"
    return f"give {place} with every step, 0 where there is no cost"


def require_finite(costs: NDArray[Any], names: Iterable[str]) -> NDArray[np.float64]:
    """Return costs [M, C] as float64. Raise ObservationError for one that is not finite."""
    numbers = costs.astype(np.float64)
    for name, column in zip(names, numbers.T, strict=True):
        if not np.isfinite(column).all():
            wrong = column[~np.isfinite(column)][0]
            raise ObservationError(f"the cost {name!r} of a step is {wrong}: give a finite number")
    return numbers
