"""Comparisons of two simulators that count, with a difference that was planted."""

from typing import Any

import numpy as np
import pytest

from workflow_rl.cage.comparison import (
    ComparedEpisode,
    are_same,
    compare_episode,
)

EPISODE = ComparedEpisode("doubler", "nobody", 3, 25)


class Counter:
    """It shows how many steps it has played. From some step on it differs, openly or hidden, and
    some step it cannot play."""

    def __init__(
        self, differs_at: int = 99, hides_from: int = 99, fails_at: int = 99, word: str = "failed"
    ) -> None:
        self.differs_at, self.hides_from, self.fails_at = differs_at, hides_from, fails_at
        self.word = word
        self.looks: list[int] = []

    def reset(self, episode: ComparedEpisode) -> None:
        self.seed, self.step_count, self.told = episode.seed, 0, list[int]()

    def step(self, chosen: int) -> None:
        self.step_count += 1
        if self.step_count == self.fails_at:
            raise RuntimeError(self.word)
        self.told.append(chosen)

    def shown(self) -> dict[str, Any]:
        number = self.step_count + (self.step_count >= self.differs_at)
        return {"vector": np.array([self.seed, number]), "told": self.told[-1:]}

    def network(self) -> dict[str, Any]:
        self.looks.append(self.step_count)
        return {"hidden": self.step_count >= self.hides_from}


class Doubler:
    """It chooses twice the number that the first simulator shows."""

    def reset(self, episode: ComparedEpisode, first: Counter) -> None:
        assert first.step_count == 0

    def choose(self, first: Counter) -> int:
        return 2 * int(first.shown()["vector"][1])


def compare(first: Counter, second: Counter, every: int = 0) -> tuple[int, Any, str]:
    return compare_episode(first, second, Doubler(), EPISODE, every)[:3]


def test_equal_simulators_play_to_the_end_and_are_told_the_same() -> None:
    first, second = Counter(), Counter()
    assert compare(first, second) == (25, None, "")
    assert first.told == second.told == [2 * step for step in range(25)]
    assert second.looks == []


def test_networks_are_compared_every_so_often_and_at_the_end() -> None:
    first, second = Counter(), Counter()
    assert compare(first, second, 10) == (25, None, "")
    assert first.looks == second.looks == [0, 10, 20, 25]


def test_a_planted_difference_is_found_and_named() -> None:
    steps, difference, error = compare(Counter(), Counter(differs_at=4), 10)
    assert (steps, error) == (4, "")
    assert (difference.episode, difference.step, list(difference.what)) == (EPISODE, 4, ["vector"])
    assert [vector.tolist() for vector in difference.what["vector"]] == [[3, 4], [3, 5]]


@pytest.mark.parametrize(("hides_from", "found"), [(0, 0), (12, 20), (25, 25)])
def test_a_hidden_difference_is_found_at_the_next_look(hides_from: int, found: int) -> None:
    _, difference, _ = compare(Counter(), Counter(hides_from=hides_from), 10)
    assert (difference.step, difference.what) == (found, {"hidden": (False, True)})
    assert compare(Counter(), Counter(hides_from=hides_from))[1] is None


def test_an_error_of_both_ends_the_episode_and_is_no_difference() -> None:
    second = Counter(fails_at=6, word="in other words")
    assert compare(Counter(fails_at=6), second) == (6, None, "failed")


@pytest.mark.parametrize("which", [0, 1])
def test_an_error_of_one_is_a_difference(which: int) -> None:
    simulators, words = [Counter(), Counter()], ["none", "none"]
    simulators[which], words[which] = Counter(fails_at=6), "failed"
    _, difference, error = compare(*simulators)
    assert (difference.step, difference.what, error) == (6, {"error": tuple(words)}, "")


def test_types_and_the_order_of_keys_count() -> None:
    assert are_same({"a": [1, 0.5, None]}, {"a": [1, 0.5, None]})
    assert not are_same({"a": 1, "b": 2}, {"b": 2, "a": 1})
    assert not are_same([1], [True])
    assert not are_same(np.zeros(2), np.zeros(3))
