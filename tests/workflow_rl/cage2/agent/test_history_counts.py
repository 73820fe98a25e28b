"""What Blue has seen and done on each host, as bits."""

from __future__ import annotations

import numpy as np

from workflow_rl.cage2.agent.history_counts import AGES, COUNTS, EXPLOITED, RESTORED, HistoryCounts
from workflow_rl.cage2.scenario2 import ACTION_NAMES, HOSTS

SLEEP, USER1, HOST = 0, HOSTS.index("User1"), 7
"""HOST: User1's place among the hosts that are shown."""
N_HOSTS, N_EVENTS = len(HOSTS) - 2, 5


def step(history: HistoryCounts, action: str, activity: str = "") -> dict[str, np.ndarray]:
    """Return the bits of one env by their kind, after an action and an activity on User1."""
    obs = np.zeros((1, len(HOSTS), 4), np.uint8)
    obs[0, USER1, : {"": 0, "scan": 1, "exploit": 2}[activity]] = 1
    action_number = np.array([ACTION_NAMES.index(action)])
    (bits,) = history.after([0], action_number, obs.reshape(1, -1))
    n_ages, n_counts = N_EVENTS * N_HOSTS * (len(AGES) + 1), 2 * N_HOSTS * len(COUNTS)
    ages, counts, rest = np.split(bits, [n_ages, n_ages + n_counts])
    return {
        "ages": ages.reshape(N_EVENTS, N_HOSTS, -1),
        "counts": counts.reshape(2, N_HOSTS, -1),
        "quiet": rest[: N_HOSTS * len(COUNTS)].reshape(N_HOSTS, -1),
        "decoys": rest[N_HOSTS * len(COUNTS) : -len(COUNTS)].reshape(2, -1),
    }


def test_the_age_of_an_exploit_grows_until_the_host_is_restored() -> None:
    history = HistoryCounts()
    assert not history.begin([0])[0, : N_EVENTS * N_HOSTS * 5].any()
    shown = step(history, "Sleep", "exploit")
    assert shown["ages"][EXPLOITED, HOST].tolist() == [1, 1, 1, 1, 1]
    assert shown["ages"].sum() == 5
    assert shown["counts"][0, HOST].tolist() == [1, 0, 0]
    shown = step(history, "Sleep")
    assert shown["ages"][EXPLOITED, HOST].tolist() == [0, 1, 1, 1, 1]
    # Red has had one step in which it may have become root.
    assert shown["quiet"][HOST].tolist() == [1, 0, 0]
    for _ in range(2):
        shown = step(history, "Remove User1")
    assert shown["ages"][EXPLOITED, HOST].tolist() == [0, 0, 1, 1, 1]
    assert shown["quiet"][HOST].tolist() == [1, 1, 0]
    shown = step(history, "Restore User1")
    assert not shown["ages"][EXPLOITED, HOST].any()
    assert shown["ages"][RESTORED, HOST].all()
    assert not shown["quiet"][HOST].any()
    assert shown["counts"][:, HOST].tolist() == [[1, 0, 0], [1, 0, 0]]


def test_decoys_are_noted_when_red_looks() -> None:
    history = HistoryCounts()
    history.begin([0])
    step(history, "DecoyApache User1")
    shown = step(history, "DecoyTomcat User1", "scan")
    last, always = shown["decoys"]
    assert (last.sum(), always[last == 1].sum()) == (2, 2)
    # The decoys are gone when Red scans next.
    last, always = step(history, "Restore User1", "scan")["decoys"]
    assert not last.any()
    assert always.sum() < shown["decoys"][1].sum()


def test_envs_begin_anew() -> None:
    history = HistoryCounts()
    fresh = history.begin([0, 1])[1]
    obs = np.ones((2, 4 * len(HOSTS)), np.uint8)
    assert (history.after([0, 1], np.array([SLEEP, SLEEP]), obs)[1] != fresh).any()
    assert (history.begin([1])[0] == fresh).all()
