"""How a policy decides, for recordings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

MOST_PROBABILITIES = 5


@dataclass(frozen=True)
class Decision:
    """How a policy decided.

    probabilities: those of the likeliest actions, at most MOST_PROBABILITIES, and of the chosen
    one. value: the return that the critic expects, see `critic_of`; None if there is no critic.
    is_opening: the action belongs to a fixed opening.
    """

    probabilities: tuple[tuple[str, float], ...]
    value: float | None = None
    is_opening: bool = False


def likeliest(
    probability: NDArray[np.float64], chosen: int, names: Sequence[str]
) -> tuple[tuple[str, float], ...]:
    """Return the likeliest actions and the chosen one, with their probabilities: see `Decision`.

    probability: `[len(names)]`.
    """
    shown = np.argsort(-probability, kind="stable")[:MOST_PROBABILITIES].tolist()
    if chosen not in shown:
        shown.append(chosen)
    return tuple((names[i], float(probability[i])) for i in shown if probability[i] > 0)
