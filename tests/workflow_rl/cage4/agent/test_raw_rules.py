from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from workflow_rl.cage4.agent.raw_rules import NUMBERS, BatchedRawRuleTeam
from workflow_rl.cage4.compiled.actions import IN_PROGRESS, TRUE
from workflow_rl.cage4.compiled.raw_arrays import ANALYSED, CMD, ESCALATE, RAW, STRANGER, TAKEN
from workflow_rl.cage4.compiled.simulator import BatchedSimulator
from workflow_rl.cage4.scenario4 import ACTIONS, COUNTED_STEPS, N_MASKS, SLEEP_ACTIONS

ZONE, SERVER, USER = 1, 0, 9  # Operational A, its first server, and a user's host there.
NAMES = [action.host for action in ACTIONS[ZONE][:16]]


@pytest.fixture
def team() -> BatchedRawRuleTeam:
    team = BatchedRawRuleTeam()
    team.reset(np.ones((1, N_MASKS), np.bool_))
    return team


def shown() -> Any:
    raw = np.zeros(1, RAW)
    raw["success"] = TRUE
    return raw


def act(team: BatchedRawRuleTeam, raw: Any) -> str:
    return str(ACTIONS[ZONE][team.act(raw)[0, ZONE]])


def add_source(raw: Any, source: int, how: int) -> None:
    raw["n_sources"][0, NUMBERS[ZONE, SERVER]] = 1
    raw["source"][0, NUMBERS[ZONE, SERVER], 0] = source
    raw["seen"][0, NUMBERS[ZONE, SERVER], 0] = how


def test_hosts_are_analysed_in_turn_and_those_of_users_more_often(team: BatchedRawRuleTeam) -> None:
    hosts = []
    for _ in range(80):
        kind, host = act(team, shown()).split()
        assert kind == "Analyse"
        hosts.append(NAMES.index(host))
        raw = shown()
        raw["success"] = IN_PROGRESS
        assert team.act(raw)[0].tolist() == list(SLEEP_ACTIONS)
        raw = shown()
        raw["files"][0, NUMBERS[ZONE, hosts[-1]]] = ANALYSED
        team.act(raw)
    assert set(hosts) == set(range(16))
    assert hosts.count(USER) > 2 * hosts.count(SERVER)


def test_a_host_with_root_is_restored_before_all_else(team: BatchedRawRuleTeam) -> None:
    raw = shown()
    raw["files"][0, NUMBERS[ZONE, USER]] = ANALYSED | CMD | ESCALATE
    raw["n_shells"][0, NUMBERS[ZONE, SERVER]] = 1
    assert act(team, raw) == f"Restore {NAMES[USER]}"
    # The Restore has taken effect now, and the shell is next.
    assert act(team, shown()) == f"Remove {NAMES[SERVER]}"


def test_an_old_shells_file_means_nothing(team: BatchedRawRuleTeam) -> None:
    raw = shown()
    raw["files"][0, NUMBERS[ZONE, USER]] = ANALYSED | CMD
    assert act(team, raw).startswith("Analyse ")


def test_a_shell_is_removed_and_its_host_analysed(team: BatchedRawRuleTeam) -> None:
    raw = shown()
    raw["n_shells"][0, NUMBERS[ZONE, USER]] = 1
    assert act(team, raw) == f"Remove {NAMES[USER]}"
    assert act(team, shown()) == f"Analyse {NAMES[USER]}"


def test_the_first_source_of_a_zone_is_restored_and_later_ones_after_two_attacks(
    team: BatchedRawRuleTeam,
) -> None:
    raw = shown()
    add_source(raw, NUMBERS[ZONE, USER], TAKEN)
    assert act(team, raw) == f"Restore {NAMES[USER]}"
    raw = shown()
    add_source(raw, NUMBERS[ZONE, USER + 1], TAKEN)
    assert act(team, raw) == f"Analyse {NAMES[USER + 1]}"
    assert act(team, raw) == f"Restore {NAMES[USER + 1]}"


def test_a_stranger_is_no_host_of_ours(team: BatchedRawRuleTeam) -> None:
    raw = shown()
    add_source(raw, STRANGER, TAKEN)
    assert act(team, raw).startswith("Analyse ")


def test_the_team_plays_better_than_bits_allow() -> None:
    n = 60
    simulator, team = BatchedSimulator(n, shows_raw=True), BatchedRawRuleTeam()
    simulator.reset(list(range(7_000_000, 7_000_000 + n)))
    team.reset(simulator.masks)
    totals = np.zeros(n)
    for _ in range(COUNTED_STEPS):
        _, rewards, _ = simulator.step(team.act(simulator.raw))
        totals += rewards.sum(axis=1)
    # The champion, which sees event bits alone, scores -158.6.
    assert totals.mean() > -115
