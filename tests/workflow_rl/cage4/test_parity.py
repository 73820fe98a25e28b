from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.workflow_rl.cage4.counting_simulator import CountingSimulator
from workflow_rl.cage4 import parity
from workflow_rl.cage4.parity import Pair, compare_episode, comparisons, difference_of, summary
from workflow_rl.cage4.scenario.scenario4 import Scenario

PAIR = Pair("random", "SleepAgent", 3, 25)
NAMES = ("published", "compiled")


def test_equal_simulators_have_no_difference() -> None:
    steps, difference, error, _ = compare_episode(CountingSimulator(), CountingSimulator(), PAIR)
    assert (steps, difference, error) == (25, None, "")


def test_both_simulators_get_the_same_actions_and_messages() -> None:
    first, second = CountingSimulator(), CountingSimulator()
    compare_episode(first, second, PAIR)
    assert len(first.seen) == 25
    assert repr(first.seen) == repr(second.seen)


def test_a_difference_of_the_state_is_found_at_the_next_look_and_named() -> None:
    second = CountingSimulator(differs_at=12)
    _, difference, _, _ = compare_episode(CountingSimulator(), second, PAIR, state_every=10)
    assert str(difference) == (
        "blue random, red SleepAgent, seed 3, step 20: state[0][host_0][sshd][1] is 22 in the "
        "first simulator, 23 in the second"
    )


def test_the_last_state_is_compared() -> None:
    second = CountingSimulator(differs_at=25)
    _, difference, _, _ = compare_episode(CountingSimulator(), second, PAIR, state_every=10)
    assert difference is not None
    assert difference.step == 25


def test_a_bit_that_differs_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    class OtherMessages(CountingSimulator):
        def _observations(self, messages):  # type: ignore[no-untyped-def]
            vectors = super()._observations(messages)
            if self.step_count == 4:
                vectors[2][-5] = 7
            return vectors

    _, difference, _, _ = compare_episode(CountingSimulator(), OtherMessages(), PAIR)
    assert difference is not None
    assert (difference.step, difference.what) == (4, "messages to blue_agent_2[27]")
    assert difference.second == 7


def test_a_raw_observation_that_differs_is_named() -> None:
    _, difference, _, _ = compare_episode(CountingSimulator(), CountingSimulator(shows_at=7), PAIR)
    assert difference is not None
    assert (difference.step, difference.first, difference.second) == (7, 0, 1)
    assert difference.what == ("length of raw observation of blue_agent_0[host_0][1][Files][1]")


def test_keys_in_another_order_are_a_difference() -> None:
    found = difference_of({"a": 1, "b": [True]}, {"b": [True], "a": 1}, "raw")
    assert found == ("raw[a][0]", "a", "b")


def test_an_error_of_both_at_one_step_ends_the_episode_without_a_difference() -> None:
    pair = compare_episode(CountingSimulator(fails_at=6), CountingSimulator(fails_at=6), PAIR)
    assert pair[:3] == (6, None, "no step 6")


def test_an_error_of_one_simulator_is_a_difference() -> None:
    _, difference, _, _ = compare_episode(CountingSimulator(), CountingSimulator(fails_at=6), PAIR)
    assert difference is not None
    assert (difference.step, difference.what) == (6, "error")
    assert (difference.first, difference.second) == ("none", "raised")


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names of the simulators that the runner makes; they count."""
    names: list[str] = []

    def make_simulator(
        name: str, red_agent: str, max_steps: int, scenario: Scenario
    ) -> CountingSimulator:
        names.append(name)
        differs_at = 5 if red_agent == "DiscoveryFSRed" and name == "compiled" else None
        return CountingSimulator(red_agent, max_steps, differs_at)

    monkeypatch.setattr(parity, "make_simulator", make_simulator)
    parity._simulators.cache_clear()
    yield names  # type: ignore[misc]
    parity._simulators.cache_clear()


def test_the_runner_goes_on_where_it_stopped(made: list[str], tmp_path: Path) -> None:
    record = tmp_path / "record.jsonl"
    pairs = [
        Pair("sleep", red, seed, 8) for red in ("SleepAgent", "DiscoveryFSRed") for seed in (1, 2)
    ]
    first = list(comparisons(pairs[:3], NAMES, record, max_steps=9))
    with record.open("a") as file:
        file.write('{"names": [')  # A run that was killed while it wrote.
        file.write("\n")
    made.clear()
    results = list(comparisons(pairs, NAMES, record, max_steps=9))
    assert results[:3] == first
    assert [result.pair for result in results] == pairs
    assert [bool(result.difference) for result in results] == [False, False, True, True]
    parity._simulators.cache_clear()
    made.clear()
    assert list(comparisons(pairs, NAMES, record, max_steps=9)) == results
    assert made == []


def test_a_record_of_other_questions_is_not_used(made: list[str], tmp_path: Path) -> None:
    record = tmp_path / "record.jsonl"
    pairs = [Pair("sleep", "SleepAgent", 1, 8)]
    list(comparisons(pairs, NAMES, record, max_steps=9))
    list(comparisons(pairs, NAMES, record, max_steps=9, state_every=1))
    other = Scenario(phishing_rate=0.75)
    list(comparisons(pairs, NAMES, record, max_steps=9, scenario=other))
    lines = [json.loads(line) for line in record.read_text().splitlines()]
    assert [line["state_every"] for line in lines] == [10, 1, 10]
    assert [line["scenario"]["phishing_rate"] for line in lines] == [0.01, 0.01, 0.75]


def test_the_summary_counts_and_shows_differences(made: list[str], tmp_path: Path) -> None:
    pairs = [Pair("sleep", red, 1, 8) for red in ("SleepAgent", "DiscoveryFSRed")]
    results = list(comparisons(pairs, NAMES, tmp_path / "record.jsonl", max_steps=9))
    lines = summary(results, NAMES)
    assert lines[0] == "2 episodes, 16 steps, 1 differences"
    assert "step 8: state[0][host_0][sshd][1]" in lines[1]
