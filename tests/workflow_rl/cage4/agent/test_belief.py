from typing import Any

import numpy as np
import pytest

from tests.workflow_rl.cage4.agent.raw_records import (
    ALL_HOSTS,
    OTHER_USER,
    SERVER,
    USER,
    raw_record,
)
from workflow_rl.cage4.agent.belief import FIRST, NEVER, OWNERS, REMOVE, RESTORE, Belief
from workflow_rl.cage4.agent.raw_record import CMD, ESCALATE, NUMBERS, SCANNED, STRANGER, TAKEN
from workflow_rl.cage4.agent.views import SLEEP
from workflow_rl.cage4.scenario.scenario4 import ACTIONS, FIRST_ZONE_OF_AGENT

ENV = [0]
ZONES = pytest.mark.parametrize("zone", [1, 3, 6])


def begun(record: Any = None) -> Belief:
    belief = Belief(1)
    belief.begin(ENV, ALL_HOSTS, raw_record() if record is None else record)
    return belief


def act(belief: Belief, kind: int, zone: int, host: int, steps: int) -> None:
    """The zone's agent acts on a host: `steps` steps pass, and show nothing."""
    agent = OWNERS[zone]
    taken = SLEEP[None].copy()
    taken[0, agent] = FIRST[kind, agent] + 16 * (zone - FIRST_ZONE_OF_AGENT[agent]) + host
    assert ACTIONS[agent][taken[0, agent]].kind in ("Analyse", "Remove", "Restore")
    belief.begin_actions(ENV, taken)
    for step in range(steps):
        belief.update(ENV, raw_record(busy=step < steps - 1))


def where(flags: Any) -> list[tuple[int, ...]]:
    return [tuple(map(int, at[1:])) for at in np.argwhere(flags)]


@ZONES
def test_files_of_root_are_news_and_an_old_shells_file_is_none(zone: int) -> None:
    belief = begun()
    belief.update(ENV, raw_record(files=(zone, USER, CMD)))
    assert where(belief.had_shell) == [(zone, USER)]
    assert not belief.root.any()
    assert (belief.news == NEVER).all()
    assert not belief.suspects(ENV).any()
    belief.update(ENV, raw_record(files=(zone, OTHER_USER, CMD | ESCALATE)))
    assert where(belief.root) == where(belief.suspects(ENV)) == [(zone, OTHER_USER)]
    assert belief.analysed[0, zone, [SERVER, USER, OTHER_USER]].tolist() == [0, 1, 2]
    assert np.flatnonzero(belief.news[0] == 2).tolist() == [OWNERS[zone]]
    assert np.flatnonzero(belief.is_pressing(ENV)[0]).tolist() == [OWNERS[zone]]
    belief.update(ENV, raw_record(files=(zone, OTHER_USER, 0)))
    assert not belief.root.any()


@ZONES
def test_a_remove_ends_shells_and_is_remembered_until_the_next_analyse(zone: int) -> None:
    belief = begun()
    belief.update(ENV, raw_record(shells=((zone, USER), (zone, SERVER))))
    assert where(belief.shell) == where(belief.had_shell) == [(zone, SERVER), (zone, USER)]
    assert where(belief.attacked == 1) == where(belief.shell)
    act(belief, REMOVE, zone, USER, 3)
    assert where(belief.shell) == [(zone, SERVER)]
    assert where(belief.removed) == [(zone, USER)]
    assert belief.had_shell[0, zone, USER]
    belief.update(ENV, raw_record(files=(zone, USER, CMD)))
    assert not belief.removed.any()


def test_an_action_ends_nothing_before_its_last_step() -> None:
    belief = begun()
    belief.update(ENV, raw_record(shells=((2, USER),)))
    taken = SLEEP[None].copy()
    taken[0, 2] = FIRST[REMOVE, 2] + USER
    belief.begin_actions(ENV, taken)
    for _ in range(2):
        belief.update(ENV, raw_record(busy=True))
        belief.begin_actions(ENV, SLEEP[None])
        assert belief.shell.any()
    # What red takes in the last step is taken after the Remove.
    belief.update(ENV, raw_record(shells=((2, USER),)))
    assert belief.shell.any()
    assert belief.removed.any()


@ZONES
def test_a_restored_host_is_as_at_the_beginning(zone: int) -> None:
    belief = begun()
    belief.update(ENV, raw_record(source=(zone, SERVER, NUMBERS[zone, USER], TAKEN)))
    shown = raw_record(files=(zone, USER, CMD | ESCALATE), shells=((zone, USER),))
    belief.update(ENV, shown)
    act(belief, REMOVE, zone, USER, 3)
    act(belief, RESTORE, zone, USER, 5)
    for flags in (belief.shell, belief.had_shell, belief.root, belief.source, belief.removed):
        assert not flags.any()
    assert not belief.n_taken.any()
    at = 0, zone, USER
    assert belief.attacked[at] == belief.suspected[at] == belief.scanned[at] == NEVER
    assert belief.restored[at] == belief.analysed[at] == belief.step[0] == 10
    assert belief.n_restores[0].tolist() == [int(agent == OWNERS[zone]) for agent in range(5)]


@ZONES
def test_a_source_and_what_it_took_are_counted(zone: int) -> None:
    belief = begun()
    number = NUMBERS[zone, USER]
    belief.update(ENV, raw_record(source=(zone, SERVER, number, SCANNED)))
    assert where(belief.source) == where(belief.suspects(ENV)) == [(zone, USER)]
    assert where(belief.scanned == 1) == [(zone, SERVER)]
    assert belief.last_seen[0, OWNERS[zone]] == belief.news[0, OWNERS[zone]] == 1
    # A second scan from there is no news, and what is taken from there is.
    belief.update(ENV, raw_record(source=(zone, SERVER, number, SCANNED)))
    assert belief.last_seen[0, OWNERS[zone]] == 2
    assert belief.news[0, OWNERS[zone]] == 1
    belief.update(ENV, raw_record(source=(zone, SERVER, number, SCANNED | TAKEN)))
    assert belief.n_taken[0, zone, USER] == 1
    assert belief.news[0, OWNERS[zone]] == 3
    assert belief.suspected[0, zone, USER] == 1
    assert not belief.is_pressing(ENV).any()


def test_a_stranger_is_no_host_of_ours() -> None:
    belief = begun()
    belief.update(ENV, raw_record(source=(1, SERVER, STRANGER, TAKEN)))
    assert not belief.source.any()
    assert not belief.n_taken.any()
    assert (belief.news == NEVER).all()
    assert belief.last_seen[0].tolist() == [NEVER, 1, NEVER, NEVER, NEVER]
