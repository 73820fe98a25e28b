"""Kuhn poker, whose equilibria are known: exact exploitability, and a duel that comes close.

A mixture's exploitability is what the best answer to it gains over the game's value, on average
over both sides. It is computed from the policies' probabilities, without playing.
"""

import itertools
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from examples.small_games import DEALS, payoff_of
from workflow_rl.agents.policies.numpy_policy import NumpyPolicy
from workflow_rl.agents.policies.team_policy import TeamParameters, load_policy_or_team
from workflow_rl.runs.config import TrainConfig
from workflow_rl.studies.duel import DuelConfig, run_duel

Array = NDArray[np.float64]
Mixture = Sequence[tuple[float, Array]]
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


def exploitability(first: Mixture, second: Mixture) -> float:
    """Return what the best answers to two mixtures gain, on average over both players."""
    # All strategies that leave nothing to chance.
    pure = [np.eye(2)[list(choices)] for choices in itertools.product(range(2), repeat=6)]
    to_second = [sum(share * kuhn_value(own, of) for share, of in second) for own in pure]
    to_first = [sum(share * kuhn_value(of, own) for share, of in first) for own in pure]
    return (max(to_second) - min(to_first)) / 2


def chances(*of_action_1: float) -> np.ndarray:
    return np.array([[1 - p, p] for p in of_action_1])


def test_kuhn_poker_is_scored_exactly():
    """Two of its equilibria (Kuhn 1950), in which the first player loses 1/18."""
    second = chances(1 / 3, 0, 0, 1 / 3, 1, 1)
    for alpha in (0.0, 1 / 3):
        first = chances(alpha, 0, 0, alpha + 1 / 3, 3 * alpha, 1)
        assert kuhn_value(first, second) == pytest.approx(-1 / 18)
        assert exploitability([(1, first)], [(1, second)]) == pytest.approx(0)
    never = chances(0, 0, 0, 0, 0, 0)
    # Whoever never bets nor calls loses the ante to whoever always bets.
    assert exploitability([(1, never)], [(1, never)]) == 1


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_a_duel_comes_close_to_the_equilibrium(tmp_path):
    config = TrainConfig(
        "async", env="examples.small_games:Kuhn", seed=0, n_envs=16, n_workers=1,
        total_episodes=3000, episodes_per_update=60,
        settings={"hidden_sizes": (16,), "learning_rate": 1e-2, "normalise_obs": False},
    )  # fmt: skip
    settings = DuelConfig(generations=10, opponents="equilibrium", payoff_episodes=600)
    record = run_duel(config, tmp_path, settings)
    mixtures = [
        [
            (share, strategy_of(tmp_path / name, rows))
            for name, share in zip(record.agents[side], shares, strict=True)
            if share
        ]
        for (side, shares), rows in zip(
            record.mixtures[-1].items(), (SEEN_BY_FIRST, SEEN_BY_SECOND), strict=True
        )
    ]
    assert exploitability(*mixtures) < 0.05
