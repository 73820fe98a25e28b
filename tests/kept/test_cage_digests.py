"""The CAGE guests play, see and learn what cage_digests.json has, bit for bit.

`cage_adapter` is all that knows the package, and `cage_digests` tells what is played.
"""

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.kept import cage_adapter as cage
from tests.kept import cage_digests as kept

RECORD = json.loads(kept.FILE.read_text())
SLOW = (*kept.OF_CAGE4, *kept.OF_A_FAMILY)


ALL = slice(None)


def differing_episodes(section: str, simulator: str, some: slice = ALL) -> list[str]:
    """Return the names of episodes that are not as stored. some: of the section's names."""
    listed = [*kept.PUBLISHED[section].items()][some]
    digests = {name: kept.digests_of_episodes(played, simulator) for name, played in listed}
    return [name for name in digests if digests[name] != RECORD[section][name]]


def differing_games(names: Sequence[str], episodes: int) -> list[str]:
    """Return the names of games that are not as stored."""
    digests = {name: kept.digests_of_game(name, episodes) for name in names}
    stored = {name: RECORD["agents"][name][f"{episodes} episodes"] for name in names}
    return [name for name in names if digests[name] != stored[name]]


def test_all_that_is_played_is_stored() -> None:
    stored = {section: [*names] for section, names in RECORD.items()}
    assert stored == {section: [*names] for section, names in kept.SECTIONS.items()}


@pytest.mark.parametrize("section", [name for name in kept.PUBLISHED if name != "large networks"])
def test_compiled_code_plays_as_published_cyborg(section: str) -> None:
    assert differing_episodes(section, cage.COMPILED) == []


@pytest.mark.system
@pytest.mark.parametrize(
    ("section", "some"),
    [
        ("CAGE-2", slice(None, None, 7)),
        # An address that a process is bound to, and PIDs that are drawn again.
        ("CAGE-2, rare paths", slice(2)),
        ("small networks", ALL),
        ("large networks", slice(2, 4)),
    ],
)
def test_sped_up_cyborg_plays_as_published_cyborg(section: str, some: slice) -> None:
    assert differing_episodes(section, cage.SPED_UP, some) == []


@pytest.mark.slow
@pytest.mark.parametrize("section", kept.PUBLISHED)
@pytest.mark.parametrize("simulator", [cage.COMPILED, cage.SPED_UP, cage.PUBLISHED])
def test_every_simulator_plays_as_published_cyborg(section: str, simulator: str) -> None:
    (scenario, *_), *_ = kept.PUBLISHED[section].values()
    if not cage.is_here(simulator, cage.scenario_named(scenario)):
        pytest.skip(f"there is no {simulator} CybORG that plays {scenario}")
    assert differing_episodes(section, simulator) == []


def test_agents_see_and_do_what_is_stored() -> None:
    assert differing_games([name for name in kept.GAMES if name not in SLOW], kept.MANY) == []


def test_agents_of_cage4_see_and_do_what_is_stored() -> None:
    assert differing_games(kept.OF_CAGE4, kept.FEW) == []


@pytest.mark.slow
@pytest.mark.parametrize("name", SLOW)
def test_slow_games_are_as_stored(name: str) -> None:
    assert differing_games([name], kept.MANY) == []


@pytest.mark.slow
@pytest.mark.parametrize("name", kept.TRAININGS)
def test_weights_after_two_updates_are_as_stored(name: str, tmp_path: Path) -> None:
    assert kept.results_of_training(name, tmp_path / "run") == RECORD["trainings"][name]
