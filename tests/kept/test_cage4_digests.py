"""Stored digests of CybORG as published, played by a simulator."""

from tests.kept.cage4_digests import STORED_TEAMS, episode_digests, stored_digests
from tests.workflow_rl.cage4.counting_simulator import CountingSimulator
from workflow_rl.cage.comparison import ComparedEpisode
from workflow_rl.cage4.scenario.scenario4 import RED_AGENTS


def test_every_pair_of_blue_and_red_is_stored() -> None:
    pairs = {(pair.blue, pair.red_agent) for pair in stored_digests()}
    assert pairs == {(blue, red) for blue in STORED_TEAMS for red in RED_AGENTS}


def test_the_first_difference_is_found() -> None:
    pair = ComparedEpisode("random", "SleepAgent", 1, 120)
    whole = episode_digests(CountingSimulator(), pair)
    assert len(whole.steps) == 121
    assert len(whole.states) == 3
    assert whole.first_difference(episode_digests(CountingSimulator(), pair)) is None
    late = episode_digests(CountingSimulator(differs_at=70), pair)
    assert whole.first_difference(late) == 100
    failed = episode_digests(CountingSimulator(fails_at=30), pair)
    assert whole.first_difference(failed) == 30
