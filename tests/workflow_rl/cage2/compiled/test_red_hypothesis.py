"""One account of the other side: what each action makes of it."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.workflow_rl.cage2.compiled.doors import door
from workflow_rl.cage2.compiled import red_hypothesis
from workflow_rl.cage2.compiled.description import SCENARIO2
from workflow_rl.cage2.compiled.observe import EXPLOITED, NO_ACTIVITY, SCAN
from workflow_rl.cage2.compiled.red_agents import MEANDER
from workflow_rl.cage2.compiled.red_hypothesis import (
    DONE,
    HYPOTHESIS,
    N_OUTCOMES,
    ROOT_SHELL,
    SHELL,
    SSH_SESSION,
    UNSEEN_SHELL,
)
from workflow_rl.cage2.compiled.tables import (
    DISCOVER_SERVICES,
    ESCALATE,
    EXPLOIT,
    N_DECOYS,
    REMOVE,
    RESTORE,
)
from workflow_rl.cage2.scenario2 import HOSTS

after_blue, after_red = door(red_hypothesis.after_blue), door(red_hypothesis.after_red)
begin_hypothesis, is_same = door(red_hypothesis.begin_hypothesis), door(red_hypothesis.is_same)
odds_of, reds_options = door(red_hypothesis.odds_of), door(red_hypothesis.reds_options)

TABLES, N_HOSTS = SCENARIO2.record[0], len(HOSTS)
USER2, ENTERPRISE1 = HOSTS.index("User2"), HOSTS.index("Enterprise1")


def new(red_agent: int = MEANDER) -> Any:
    h = np.zeros(1, HYPOTHESIS)[0]
    begin_hypothesis(h, TABLES, red_agent)
    return h


@given(
    host=st.integers(0, N_HOSTS - 1),
    kind=st.sampled_from([DISCOVER_SERVICES, EXPLOIT, ESCALATE]),
    when_scanned=st.integers(0, 2**N_DECOYS - 1),
    decoys=st.integers(0, 2**N_DECOYS - 1),
    is_new_decoy=st.booleans(),
    is_scanned=st.booleans(),
    sessions=st.integers(0, 2**N_HOSTS - 1),
)
def test_something_is_seen_or_nothing_is(
    host, kind, when_scanned, decoys, is_new_decoy, is_scanned, sessions
):
    """All that an action can come to, and look like, has probability 1."""
    h = new()
    h["sessions"] = sessions
    h["scanned_by_session"] = is_scanned << host
    h["decoys_when_scanned"][host] = when_scanned
    odds = np.zeros(N_OUTCOMES)
    for activity in (NO_ACTIVITY, SCAN, EXPLOITED):
        odds_of(h, TABLES, kind, host, activity, decoys, is_new_decoy, odds)
        assert (odds >= 0).all()
    assert odds.sum() == pytest.approx(1)


def test_remove_ends_what_monitoring_caught_of_a_user():
    for outcome, remains in ((SHELL, False), (UNSEEN_SHELL, True), (SSH_SESSION, True)):
        h = new()
        after_red(h, TABLES, DISCOVER_SERVICES, USER2, DONE, 0)
        after_red(h, TABLES, EXPLOIT, USER2, outcome, 0)
        after_blue(h, REMOVE, USER2)
        assert bool(h["sessions"] >> USER2 & 1) == remains
        assert h["has_malware"] >> USER2 & 1 == (outcome != SSH_SESSION)
    h = new()
    after_red(h, TABLES, EXPLOIT, USER2, ROOT_SHELL, 0)
    after_blue(h, REMOVE, USER2)
    assert h["is_owned"] >> USER2 & 1
    after_blue(h, RESTORE, USER2)
    assert not (h["is_owned"] | h["sessions"] | h["has_malware"]) >> USER2 & 1
