from __future__ import annotations

import numpy as np
import pytest

from workflow_rl.cage4.agent.belief import Belief
from workflow_rl.cage4.scenario4 import FIRST_OBS, N_ACTIONS, OBS_SIZES, OWN_ZONES

USER, OTHER_USER, SERVER = 8, 9, 2
PROCESS, CONNECTION = 27, 43


def belief() -> Belief:
    return Belief(np.ones((1, sum(N_ACTIONS)), np.bool_))


def seen(*events: tuple[int, int, int]) -> np.ndarray:
    """Observations with events: zone, kind, host."""
    observations = np.zeros((1, sum(OBS_SIZES)), np.int8)
    for zone, kind, host in events:
        agent, i = OWN_ZONES[zone]
        observations[0, FIRST_OBS[agent] + 1 + 59 * i + kind + host] = 1
    return observations


def where(conclusions: np.ndarray) -> list[tuple[int, ...]]:
    return [tuple(map(int, at[1:])) for at in np.argwhere(conclusions)]


@pytest.mark.parametrize("zone", [0, 3, 6])
def test_an_attack_shows_its_target_and_its_source(zone: int) -> None:
    known = belief()
    known.update(
        seen((zone, PROCESS, USER), (zone, CONNECTION, USER), (zone, CONNECTION, OTHER_USER))
    )
    assert where(known.exploited) == [(zone, USER)]
    assert where(known.sources) == [(zone, OTHER_USER)]
    assert known.may_be_first[0, zone, OTHER_USER]
    assert not known.doubtful.any()


def test_a_process_alone_is_doubtful_on_a_user_host_and_an_attack_on_a_server() -> None:
    known = belief()
    known.update(seen((1, PROCESS, USER), (1, PROCESS, SERVER)))
    assert where(known.exploited) == [(1, SERVER)]
    assert where(known.doubtful) == [(1, USER)]
    known.remove(np.array([0]), 1, np.array([USER]))
    assert not known.doubtful.any()
    assert where(known.ever_doubtful) == [(1, USER)]
    known.restore(np.array([0]), 1, np.array([USER]))
    assert not known.ever_doubtful.any()


def test_scans_leave_the_first_foothold_fewer_hosts() -> None:
    known = belief()
    known.update(seen())
    assert not known.first_foothold.any()
    for host in range(6, 14):
        known.update(seen((2, CONNECTION, host)))
    chance = known.first_foothold
    assert chance[0, 2, 14] == chance[0, 2, 15] == 0.5
    assert chance.sum() == 1
    known.restore(np.array([0]), 2, np.array([14]))
    assert known.first_foothold[0, 2, 15] == 1


def test_the_zones_of_the_headquarters_have_one_red_agent() -> None:
    known = belief()
    known.update(seen((4, CONNECTION, USER)))
    assert known.n_possible[0].tolist() == [10, 10, 10, 10, 29, 29, 29]
    assert (known.first_activity[0] >= 0).tolist() == [False] * 4 + [True] * 3
    assert known.first_foothold.sum() == pytest.approx(1)


def test_features_are_those_of_hosts_that_exist() -> None:
    masks = np.ones((2, sum(N_ACTIONS)), np.bool_)
    masks[:, 15] = False
    known = Belief(masks)
    known.update(np.zeros((2, sum(OBS_SIZES)), np.int8))
    features = known.features()
    assert features.shape == (2, 7, 16, 6)
    assert features[:, 0, 15, 0].tolist() == [0, 0]
    assert features[..., 0].sum() == 2 * (7 * 16 - 1)
