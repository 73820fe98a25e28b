"""Stored digests of CybORG as published, played by a simulator."""

from pathlib import Path

import numpy as np

from tests.kept.cage4_digests import STORED_TEAMS, EpisodeDigests, episode_digests, pair_of
from tests.workflow_rl.cage4.counting_simulator import CountingSimulator
from workflow_rl.cage.comparison import ComparedEpisode
from workflow_rl.cage4.scenario.scenario4 import RED_AGENTS

FILE = Path(__file__).parent / "cage4_digests.npz"


def stored_digests() -> dict[ComparedEpisode, EpisodeDigests]:
    """The digests of the file, by episode."""
    with np.load(FILE) as file:
        names = {key.rpartition("/")[0] for key in file.files}
        return {
            pair_of(name): EpisodeDigests(file[f"{name}/steps"], file[f"{name}/states"])
            for name in sorted(names)
        }


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
