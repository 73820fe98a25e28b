import numpy as np
import pytest

from workflow_rl.studies.matrix_game import equilibrium, exploitability, priorities


@pytest.mark.parametrize(
    ("payoffs", "rows", "columns"),
    [
        ([[1, -1], [-1, 1]], [0.5, 0.5], [0.5, 0.5]),
        ([[0, -1, 2], [1, 0, -1], [-2, 1, 0]], [0.25, 0.5, 0.25], [0.25, 0.5, 0.25]),
        ([[3, 1], [2, 0]], [1, 0], [0, 1]),
        ([[2, 0], [0, 1]], [1 / 3, 2 / 3], [1 / 3, 2 / 3]),
        ([[5.0]], [1], [1]),
        ([[4, 2, 7]], [1], [0, 1, 0]),
    ],
)
def test_a_known_equilibrium_is_found(payoffs, rows, columns):
    found = equilibrium(np.array(payoffs, float))
    np.testing.assert_allclose(found[0], rows, atol=1e-12)
    np.testing.assert_allclose(found[1], columns, atol=1e-12)


def test_nobody_gains_in_an_equilibrium_of_any_table():
    random = np.random.default_rng(0)
    for _ in range(200):
        payoffs = random.normal(size=random.integers(1, 12, size=2)) * 10.0 ** random.integers(
            -2, 3
        )
        if random.random() < 0.3:  # Ties, and agents that are there twice.
            payoffs = np.repeat(np.round(payoffs), 2, axis=0)
        rows, columns = equilibrium(payoffs)
        assert rows.sum() == pytest.approx(1)
        assert columns.min() >= 0
        assert exploitability(payoffs, rows, columns) <= 1e-9 * max(1, np.abs(payoffs).max())


def test_exploitability_is_what_the_best_answers_gain_on_average():
    payoffs = np.array([[1.0, -1.0], [-1.0, 1.0]])
    heads = np.array([1.0, 0.0])
    assert exploitability(payoffs, heads, heads) == 1.0
    assert exploitability(payoffs, np.array([0.5, 0.5]), heads) == 0.5


def test_those_who_win_most_against_the_latest_come_first():
    payoffs = np.array([[9.0, 9.0, 9.0], [-1.0, 4.0, 9.0]])
    np.testing.assert_allclose(priorities(payoffs), [0.8, 0.2, 0.0])
    np.testing.assert_allclose(priorities(np.ones((2, 4))), np.full(4, 0.25))


def test_players_that_are_almost_alike_mislead_nobody():
    for seed in range(40):
        generator = np.random.default_rng(seed)
        table = generator.normal(size=(5, 6))
        noise = generator.normal(size=(3, 6)) * 10.0 ** -generator.integers(7, 13)
        table = np.vstack([table, table[:3] + noise])
        assert exploitability(table, *equilibrium(table)) <= 3e-3 * np.ptp(table)
