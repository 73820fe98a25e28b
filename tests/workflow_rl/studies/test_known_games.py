"""Games whose equilibria are known: exact exploitability, and duels that come close."""

from __future__ import annotations

import numpy as np
import pytest

from scripts.score_duels import curve_of, exploitability, kuhn_value, matrix_value, train


def chances(*of_action_1: float) -> np.ndarray:
    return np.array([[1 - p, p] for p in of_action_1])


def test_kuhn_poker_is_scored_exactly():
    """Two of its equilibria (Kuhn 1950), in which the first player loses 1/18."""
    second = chances(1 / 3, 0, 0, 1 / 3, 1, 1)
    for alpha in (0.0, 1 / 3):
        first = chances(alpha, 0, 0, alpha + 1 / 3, 3 * alpha, 1)
        assert kuhn_value(first, second) == pytest.approx(-1 / 18)
        assert exploitability(kuhn_value, [(1, first)], [(1, second)]) == pytest.approx(0)
    never = chances(0, 0, 0, 0, 0, 0)
    # Whoever never bets nor calls loses the ante to whoever always bets.
    assert exploitability(kuhn_value, [(1, never)], [(1, never)]) == 1


def test_the_matrix_game_is_scored_exactly():
    mixture = [(share, row[None]) for share, row in zip((0.25, 0.5, 0.25), np.eye(3), strict=True)]
    assert exploitability(matrix_value, mixture, mixture) == pytest.approx(0)
    rock = [(1.0, np.eye(3)[:1])]
    assert exploitability(matrix_value, rock, rock) == 1


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize(("game", "bar"), [("Matrix", 0.02), ("Kuhn", 0.05)])
def test_a_duel_comes_close_to_the_equilibrium(game, bar, tmp_path):
    train(game, "equilibrium", 0, tmp_path / "duel")
    assert curve_of(game, tmp_path / "duel")[-1] < bar
