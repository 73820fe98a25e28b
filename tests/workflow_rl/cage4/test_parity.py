"""Comparisons of CAGE-4: what a difference is called, the record, and the summary."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.workflow_rl.cage4.counting_simulator import CountingSimulator
from tests.workflow_rl.cage4.lock_step import compare, episode_of
from workflow_rl.cage import comparison
from workflow_rl.cage4 import parity
from workflow_rl.cage4.parity import Cage4Comparison, SimulatorSide, recorded_comparisons, summary
from workflow_rl.cage4.scenario.scenario4 import Scenario

EPISODE = episode_of("random", "SleepAgent", 3, 25)
CHALLENGE = Cage4Comparison(("published", "compiled"), max_steps=9)


def words_of(second: CountingSimulator) -> str:
    """The difference from a simulator that counts right."""
    first = CountingSimulator()
    _, difference, _ = compare(first, second, EPISODE)
    return CHALLENGE.described(difference, SimulatorSide(first), SimulatorSide(second))


@pytest.mark.parametrize(
    ("second", "words"),
    [
        (
            CountingSimulator(differs_at=12),
            "20: state[0][host_0][sshd][1] is 22 in the first simulator, 23 in the second",
        ),
        (
            CountingSimulator(shows_at=7),
            "7: length of raw observation of blue_agent_0[host_0][1][Files][1] is 0 in the first "
            "simulator, 1 in the second",
        ),
        (
            CountingSimulator(fails_at=6),
            "6: error is 'none' in the first simulator, 'no step 6' in the second",
        ),
    ],
    ids=["state", "raw observation", "error"],
)
def test_a_difference_is_named(second: CountingSimulator, words: str) -> None:
    assert words_of(second) == f"blue random, red SleepAgent, seed 3, step {words}"


def test_a_bit_that_differs_is_named() -> None:
    class OtherMessages(CountingSimulator):
        def _observations(self):  # type: ignore[no-untyped-def]
            vectors = super()._observations()
            if self.step_count == 4:
                vectors[2][-5] = 7
            return vectors

    told = "step 4: messages to blue_agent_2[27] is 0 in the first simulator, 7 in the second"
    assert words_of(OtherMessages()).endswith(told)


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names of the simulators that the runner makes; they count."""
    names: list[str] = []

    def make_simulator(name: str, red_agent: str, max_steps: int, scenario: Scenario) -> Any:
        names.append(name)
        differs_at = 5 if red_agent == "DiscoveryFSRed" and name == "compiled" else None
        return CountingSimulator(red_agent, max_steps, differs_at)

    monkeypatch.setattr(parity, "make_simulator", make_simulator)
    comparison._simulators.cache_clear()
    yield names  # type: ignore[misc]
    comparison._simulators.cache_clear()


def test_the_runner_goes_on_where_it_stopped(made: list[str], tmp_path: Path) -> None:
    record = tmp_path / "record.jsonl"
    reds = ("SleepAgent", "DiscoveryFSRed")
    episodes = [episode_of("sleep", red, seed, 8) for red in reds for seed in (1, 2)]
    first = list(recorded_comparisons(CHALLENGE, episodes[:3], record))
    with record.open("a") as file:
        file.write('{"names": [\n')  # A run that was killed while it wrote.
    made.clear()
    results = list(recorded_comparisons(CHALLENGE, episodes, record))
    assert results[:3] == first
    assert [result.episode for result in results] == episodes
    assert [bool(result.difference) for result in results] == [False, False, True, True]
    comparison._simulators.cache_clear()
    made.clear()
    assert list(recorded_comparisons(CHALLENGE, episodes, record)) == results
    assert made == []


def test_a_record_of_other_questions_is_not_used(made: list[str], tmp_path: Path) -> None:
    record = tmp_path / "record.jsonl"
    episodes = [episode_of("sleep", "SleepAgent", 1, 8)]
    list(recorded_comparisons(CHALLENGE, episodes, record))
    list(recorded_comparisons(CHALLENGE, episodes, record, state_every=1))
    other = Cage4Comparison(CHALLENGE.names, 9, Scenario(phishing_rate=0.75))
    list(recorded_comparisons(other, episodes, record))
    lines = [json.loads(line) for line in record.read_text().splitlines()]
    assert [line["state_every"] for line in lines] == [10, 1, 10]
    assert [line["scenario"]["phishing_rate"] for line in lines] == [0.01, 0.01, 0.75]


def test_the_summary_counts_and_shows_differences(made: list[str], tmp_path: Path) -> None:
    episodes = [episode_of("sleep", red, 1, 8) for red in ("SleepAgent", "DiscoveryFSRed")]
    results = list(recorded_comparisons(CHALLENGE, episodes, tmp_path / "record.jsonl"))
    lines = summary(results, CHALLENGE.names)
    assert lines[0] == "2 episodes, 16 steps, 1 differences"
    assert lines[1] == f"  {results[1].difference}"
    assert "step 8: state[0][host_0][sshd][1]" in lines[1]
    assert [line.partition(":")[0] for line in lines[2:]] == [
        *CHALLENGE.names,
        "ratio of CPU seconds",
    ]
    failed = results[0]._replace(error="no step 9")
    summed = summary([failed, failed], CHALLENGE.names)
    assert summed[-1] == "raised by both in 2 episodes: no step 9"
