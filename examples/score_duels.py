"""Train duels on games whose equilibria are known, and score both sides' mixtures exactly.

    python examples/score_duels.py --seeds 5

A mixture's exploitability is what the best answer to it gains over the game's value, on average
over both sides. It is computed from the policies' probabilities, without playing.
"""

from __future__ import annotations

import argparse
import itertools
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from workflow_rl.runs.config import TrainConfig  # isort: skip (before NumPy: see `portable`)

import numpy as np
from numpy.typing import NDArray
from prettytable import PrettyTable

from examples.small_games import DEALS, Matrix, payoff_of
from workflow_rl.agents.policies.numpy_policy import NumpyPolicy
from workflow_rl.agents.policies.team_file import load_policy_or_team
from workflow_rl.agents.policies.team_policy import TeamParameters
from workflow_rl.runs.duel_dir import DuelRecord, read_duel
from workflow_rl.studies.duel import DuelConfig, run_duel

Array = NDArray[np.float64]
GAMES: dict[str, dict[str, Any]] = {
    "Matrix": {"total_episodes": 2000, "generations": 6, "payoff_episodes": 3000},
    "Kuhn": {"total_episodes": 3000, "generations": 10, "payoff_episodes": 600},
}
KUHN_SEEN = [[*np.eye(3)[card], *said] for card in range(3) for said in ([0, 0], [1, 1])]
KUHN_SEEN_BY_SECOND = [[*np.eye(3)[card], *said] for card in range(3) for said in ([1, 0], [0, 1])]
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


def exploitability(game: str, path: Path, record: DuelRecord, generation: int = -1) -> float:
    """Return the exploitability of a generation's mixtures."""
    spaces = [[[1.0]]] * 2 if game == "Matrix" else [KUHN_SEEN, KUHN_SEEN_BY_SECOND]
    value = kuhn_value
    if game == "Matrix":
        payoffs = np.array(Matrix().payoffs)

        def value(first: Array, second: Array) -> float:
            return float(first[0] @ payoffs @ second[0])

    mixed = []
    for (side, shares), seen in zip(record.mixtures[generation].items(), spaces, strict=True):
        files = [path / name for name in record.agents[side]]
        met = [(share, file) for share, file in zip(shares, files, strict=False) if share]
        mixed.append([(share, strategy_of(file, seen)) for share, file in met])
    first, second = mixed
    n_actions = first[0][1].shape[1]
    n_rows = first[0][1].shape[0]
    best_first = max(
        sum(share * value(answer, of) for share, of in second) for answer in pure(n_rows, n_actions)
    )
    best_second = min(
        sum(share * value(of, answer) for share, of in first) for answer in pure(n_rows, n_actions)
    )
    return (best_first - best_second) / 2


def pure(n_rows: int, n_actions: int) -> Iterator[Array]:
    """Yield all strategies [n_rows, n_actions] that leave nothing to chance."""
    for choices in itertools.product(range(n_actions), repeat=n_rows):
        yield np.eye(n_actions)[list(choices)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--games", nargs="+", default=list(GAMES))
    parser.add_argument("--opponents", nargs="+", default=["equilibrium", "latest"])
    parser.add_argument("--folder", type=Path)
    options = parser.parse_args()
    table = PrettyTable(["game", "opponents", "median", "range"])
    folder = options.folder or Path(tempfile.mkdtemp())
    for game, opponents in itertools.product(options.games, options.opponents):
        size = GAMES[game]
        scores = []
        for seed in range(options.seeds):
            path = folder / f"{game}-{opponents}-{seed}"
            config = TrainConfig(
                "async", env=f"examples.small_games:{game}", seed=seed, n_envs=16, n_workers=1,
                total_episodes=size["total_episodes"], episodes_per_update=60,
                settings={"hidden_sizes": (16,), "learning_rate": 1e-2, "normalise_obs": False},
            )  # fmt: skip
            # Who meets the latest alone needs no table.
            episodes = 1 if opponents == "latest" else size["payoff_episodes"]
            settings = DuelConfig(
                generations=size["generations"], opponents=opponents, payoff_episodes=episodes
            )
            run_duel(config, path, settings)
            record = read_duel(path)
            curve = [exploitability(game, path, record, n) for n in range(len(record.mixtures))]
            print(game, opponents, seed, *(f"{x:.3f}" for x in curve), flush=True)
            scores.append(curve[-1])
        spread = f"{min(scores):.3f} to {max(scores):.3f}"
        table.add_row([game, opponents, f"{np.median(scores):.3f}", spread])
    print(table)


if __name__ == "__main__":
    main()
