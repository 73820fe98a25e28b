"""Games whose equilibria are known: exact exploitability, and duels that come close.

A mixture's exploitability is what the best answer to it gains over the game's value, on average
over both sides. It is computed from the policies' probabilities, without playing.
"""

import itertools
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from examples.small_games import DEALS, Matrix, payoff_of
from workflow_rl.agents.policies.numpy_policy import NumpyPolicy
from workflow_rl.agents.policies.team_policy import TeamParameters, load_policy_or_team
from workflow_rl.runs.config import TrainConfig
from workflow_rl.runs.duel_dir import read_duel
from workflow_rl.studies.duel import DuelConfig, run_duel

Array = NDArray[np.float64]
Value = Callable[[Array, Array], float]
Mixture = Sequence[tuple[float, Array]]
GAMES: dict[str, dict[str, Any]] = {
    "Matrix": {"total_episodes": 2000, "generations": 6, "payoff_episodes": 3000},
    "Kuhn": {"total_episodes": 3000, "generations": 10, "payoff_episodes": 600},
}
SEEN_BY_FIRST = [[*np.eye(3)[card], *said] for card in range(3) for said in ([0, 0], [1, 1])]
SEEN_BY_SECOND = [[*np.eye(3)[card], *said] for card in range(3) for said in ([1, 0], [0, 1])]
"""What each player of Kuhn poker can have seen when it decides; two rows a card."""


def strategy_of(file: Path, seen: Any) -> Array:
    """Return the probabilities [O, A] of a policy's actions after observations [O, D]."""
    team, _ = load_policy_or_team(file)
    assert isinstance(team, TeamParameters)
    (policy,) = team.parameters.values()
    logits = NumpyPolicy(policy).outputs(np.array(seen, np.float32)).astype(np.float64)
    odds = np.exp(logits - logits.max(axis=1, keepdims=True))
    return np.asarray(odds / odds.sum(axis=1, keepdims=True))


def kuhn_value(first: Array, second: Array) -> float:
    """Return what the first player of Kuhn poker gets. first, second: [6, 2], rows as above."""

    def value(cards: tuple[int, int], history: str) -> float:
        if (payoff := payoff_of(history, cards)) is not None:
            return float(payoff)
        player = len(history) % 2
        row = 2 * cards[player] + ("1" in history)
        chances = (first, second)[player][row]
        return sum(chance * value(cards, f"{history}{a}") for a, chance in enumerate(chances))

    return float(np.mean([value(cards, "") for cards in DEALS]))


def matrix_value(first: Array, second: Array) -> float:
    """Return what the player of rows gets. first, second: [1, 3]."""
    return float(first[0] @ np.array(Matrix().payoffs) @ second[0])


def exploitability(value: Value, first: Mixture, second: Mixture) -> float:
    """Return what the best answers to two mixtures gain, on average over both players."""
    strategies = list(pure(*first[0][1].shape))
    to_second = [sum(share * value(own, of) for share, of in second) for own in strategies]
    to_first = [sum(share * value(of, own) for share, of in first) for own in strategies]
    return (max(to_second) - min(to_first)) / 2


def pure(n_rows: int, n_actions: int) -> Iterator[Array]:
    """Yield all strategies [n_rows, n_actions] that leave nothing to chance."""
    for choices in itertools.product(range(n_actions), repeat=n_rows):
        yield np.eye(n_actions)[list(choices)]


def curve_of(game: str, path: Path) -> list[float]:
    """Return the exploitability of each generation's mixtures of a duel in a folder."""
    record, curve = read_duel(path), []
    seen = [[[1.0]]] * 2 if game == "Matrix" else [SEEN_BY_FIRST, SEEN_BY_SECOND]
    value = matrix_value if game == "Matrix" else kuhn_value
    for shares in record.mixtures:
        mixtures = [
            [
                (share, strategy_of(path / name, rows))
                for name, share in zip(record.agents[side], shares[side], strict=False)
                if share
            ]
            for side, rows in zip(shares, seen, strict=True)
        ]
        curve.append(exploitability(value, *mixtures))
    return curve


def train(game: str, path: Path) -> None:
    size = GAMES[game]
    config = TrainConfig(
        "async", env=f"examples.small_games:{game}", seed=0, n_envs=16, n_workers=1,
        total_episodes=size["total_episodes"], episodes_per_update=60,
        settings={"hidden_sizes": (16,), "learning_rate": 1e-2, "normalise_obs": False},
    )  # fmt: skip
    settings = DuelConfig(
        generations=size["generations"],
        opponents="equilibrium",
        payoff_episodes=size["payoff_episodes"],
    )
    run_duel(config, path, settings)


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
    train(game, tmp_path / "duel")
    assert curve_of(game, tmp_path / "duel")[-1] < bar
