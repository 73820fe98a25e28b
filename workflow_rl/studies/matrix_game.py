"""Two-player zero-sum games as tables of payoffs: equilibria, and whom to learn against."""

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
_ZERO, _CLOSE = 1e-12, 1e-6
MOST_PIVOTS, REGRET_STEPS = 10_000, 20_000


def equilibrium(payoffs: Array) -> tuple[Array, Array]:
    """Return the mixtures [R] and [C] of an equilibrium, of the players of rows and of columns.

    payoffs: what the player of columns pays to that of rows [R, C]. The linear program is solved by
    the simplex method with Bland's rule, which ends at the same vertex wherever it runs. Rows or
    columns that are almost alike can mislead it: then regret matching comes close instead.
    """
    rows, columns = _vertex(payoffs)
    span = float(np.ptp(payoffs))
    if exploitability(payoffs, rows, columns) <= _CLOSE * span:
        return rows, columns
    return _by_regrets(payoffs)


def _by_regrets(payoffs: Array) -> tuple[Array, Array]:
    """Return the mixtures of regret matching+ with linear averages (Tammelin 2014)."""
    regrets = [np.zeros(n) for n in payoffs.shape]
    sums = [np.zeros(n) for n in payoffs.shape]
    for weight in range(1, REGRET_STEPS + 1):
        rows, columns = (_shares(of) for of in regrets)
        of_rows, of_columns = payoffs @ columns, -(rows @ payoffs)
        regrets[0] = (regrets[0] + of_rows - rows @ of_rows).clip(0)
        regrets[1] = (regrets[1] + of_columns - columns @ of_columns).clip(0)
        sums[0] += weight * rows
        sums[1] += weight * columns
    return _shares(sums[0]), _shares(sums[1])


def _shares(values: Array) -> Array:
    total = values.sum()
    return values / total if total else np.full(len(values), 1 / len(values))


def _vertex(payoffs: Array) -> tuple[Array, Array]:
    n_rows, n_columns = payoffs.shape
    # With positive payoffs the columns' mixture y, over the value, maximises sum(y) in P y <= 1.
    tableau = np.zeros((n_rows + 1, n_columns + n_rows + 1))
    tableau[:-1, :n_columns] = payoffs - payoffs.min() + 1
    tableau[:-1, n_columns:-1] = np.eye(n_rows)
    tableau[:-1, -1] = 1
    tableau[-1, :n_columns] = -1
    basis = np.arange(n_columns, n_columns + n_rows)
    for _ in range(MOST_PIVOTS):
        if not (tableau[-1, :-1] < -_ZERO).any():
            break
        entering = int(np.argmax(tableau[-1, :-1] < -_ZERO))
        column = tableau[:-1, entering]
        ratios = np.full(n_rows, np.inf)
        np.divide(tableau[:-1, -1], column, out=ratios, where=column > _ZERO)
        tied = np.flatnonzero(ratios <= ratios.min() + _ZERO)
        leaving = tied[np.argmin(basis[tied])]
        tableau[leaving] /= tableau[leaving, entering]
        others = np.arange(n_rows + 1) != leaving
        tableau[others] -= np.outer(tableau[others, entering], tableau[leaving])
        basis[leaving] = entering
    columns = np.zeros(n_columns + n_rows)
    columns[basis] = tableau[:-1, -1]
    return _shares(tableau[-1, n_columns:-1].clip(0)), _shares(columns[:n_columns].clip(0))


def exploitability(payoffs: Array, rows: Array, columns: Array) -> float:
    """Return what a player gains on average by the best answer within the table to the other's
    mixture. 0 in equilibrium; half of what is called NashConv."""
    return float(((payoffs @ columns).max() - (rows @ payoffs).min()) / 2)


def priorities(payoffs: Array, power: float = 2.0) -> Array:
    """Return the weights [C] with which the latest player of rows meets each player of columns.

    The more a player of columns takes from the latest, the greater its weight: (1 - x)**power,
    where x is the latest's payoff, from 0 to 1 within the table (AlphaStar's prioritised fictitious
    self-play, Vinyals et al. 2019).
    """
    span = np.ptp(payoffs)
    if not span:
        return np.full(payoffs.shape[1], 1 / payoffs.shape[1])
    weights = (1 - (payoffs[-1] - payoffs.min()) / span) ** power
    return weights / weights.sum() if weights.sum() else np.full_like(weights, 1 / len(weights))
