"""What Blue has seen and done on each host, as bits."""

import numpy as np

from workflow_rl.cage2.agent.history_counts import (
    EXPLOITED,
    RESTORED,
    HistoryCounts,
    columns_of_hosts,
)
from workflow_rl.cage2.agent.network_facts import untold_facts
from workflow_rl.cage2.scenario.scenario import Scenario
from workflow_rl.cage2.scenario2 import ACTION_NAMES, HOSTS

FACTS = untold_facts(Scenario.scenario2())
USER1 = HOSTS.index("User1")


def step(history: HistoryCounts, action: str, activity: str = "") -> dict[str, np.ndarray]:
    """Return the bits of one env about User1 by their kind, after an action and an activity."""
    obs = np.zeros((1, len(HOSTS), 4), np.uint8)
    obs[0, USER1, : {"": 0, "scan": 1, "exploit": 2}[activity]] = 1
    history.after([0], np.array([ACTION_NAMES.index(action)]), obs.reshape(1, -1))
    bits = history.of_hosts([0]).ravel()
    return {name: bits[columns[USER1]] for name, columns in columns_of_hosts(len(HOSTS)).items()}


def begun() -> HistoryCounts:
    history = HistoryCounts(FACTS)
    history.begin([0])
    return history


def test_the_age_of_an_exploit_grows_until_the_host_is_restored() -> None:
    history = begun()
    assert not history.of_hosts([0]).ravel()[columns_of_hosts(len(HOSTS))["ages"]].any()
    shown = step(history, "Sleep", "exploit")
    assert shown["ages"][EXPLOITED].tolist() == [1, 1, 1, 1, 1]
    assert shown["counts"][0].tolist() == [1, 0, 0]
    shown = step(history, "Sleep")
    assert shown["ages"][EXPLOITED].tolist() == [0, 1, 1, 1, 1]
    quiet = 2  # Red has had one step in which it may have become root.
    assert shown["counts"][quiet].tolist() == [1, 0, 0]
    for _ in range(2):
        shown = step(history, "Remove User1")
    assert shown["ages"][EXPLOITED].tolist() == [0, 0, 1, 1, 1]
    assert shown["counts"][quiet].tolist() == [1, 1, 0]
    shown = step(history, "Restore User1")
    assert not shown["ages"][EXPLOITED].any()
    assert shown["ages"][RESTORED].all()
    assert shown["counts"][: quiet + 1].tolist() == [[1, 0, 0], [1, 0, 0], [0, 0, 0]]
