"""The compiled simulator in other scenarios than the challenge's."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

from workflow_rl.cage4.compiled.batched_simulator import BatchedSimulator
from workflow_rl.cage4.compiled.constants import N_LAN
from workflow_rl.cage4.compiled.hosts import CONNECTIONS
from workflow_rl.cage4.compiled.state import RARE
from workflow_rl.cage4.scenario.scenario4 import SLEEP_ACTIONS, VARIANTS, Scenario

N_ENVS = 4
STEPS = 200


def played(scenario: Scenario) -> BatchedSimulator:
    simulator = BatchedSimulator(N_ENVS, scenario=scenario)
    simulator.reset(range(N_ENVS))
    for _ in range(STEPS):
        simulator.step(SLEEP_ACTIONS)
    return simulator


def count(scenario: Scenario, name: str) -> int:
    return int(played(scenario).states["rare"][:, RARE.index(name)].sum())


def test_every_zone_has_the_asked_number_of_hosts() -> None:
    simulator = BatchedSimulator(N_ENVS, scenario=Scenario(users=6, servers=3))
    simulator.reset(range(N_ENVS))
    assert (simulator.states["n_users"][:, :N_LAN] == 6).all()
    assert (simulator.states["n_servers"][:, :N_LAN] == 3).all()
    assert (simulator.states["n_greens"] == 6 * N_LAN).all()
    assert simulator.masks[:, :16].sum() == 9 * N_ENVS
    drawn = BatchedSimulator(N_ENVS, scenario=Scenario(servers=3))
    drawn.reset(range(N_ENVS))
    assert len(np.unique(drawn.states["n_users"][:, :N_LAN])) > 2


def test_rates_are_what_happens() -> None:
    """Of greens in 200 steps, a third work and a third access a server."""
    assert count(Scenario(false_alert_rate=0), "false alert") == 0
    always = played(Scenario(false_alert_rate=1, phishing_rate=0, users=6))
    alerts = always.states["rare"][:, RARE.index("false alert")].sum()
    assert alerts == pytest.approx(N_ENVS * STEPS * 6 * N_LAN * 2 / 3, rel=0.05)
    phished = "phishing by a red agent of another zone"
    assert count(Scenario(phishing_rate=0), phished) == 0
    assert count(Scenario(phishing_rate=0.75), phished) > count(Scenario(), phished) > 0


@pytest.mark.parametrize(
    ("aggressive", "stealth", "seen"), [(0, 0, False), (1, 0, True), (0, 1, True)]
)
def test_a_scan_is_seen_as_often_as_asked(aggressive: float, stealth: float, seen: bool) -> None:
    rates = {"aggressive_scan_detection": aggressive, "stealth_scan_detection": stealth}
    scenario = Scenario(phishing_rate=0, false_alert_rate=0, **rates)
    simulator = BatchedSimulator(N_ENVS, scenario=scenario)
    simulator.reset(range(N_ENVS))
    scans = 0
    # Before the first exploit, only scans make events. Nobody clears those of contractors.
    while (is_before := simulator.states["n_sessions"].sum(axis=1) == 1).any():
        scans += np.count_nonzero(simulator.states["events"][is_before][..., CONNECTIONS])
        simulator.step(SLEEP_ACTIONS)
    assert bool(scans) == seen


@pytest.mark.parametrize("longest", [1, 3])
def test_red_actions_take_no_more_steps_than_asked(longest: int) -> None:
    simulator = BatchedSimulator(N_ENVS, scenario=Scenario(longest_red_action=longest))
    simulator.reset(range(N_ENVS))
    left = []
    for _ in range(STEPS):
        simulator.step(SLEEP_ACTIONS)
        left.append(simulator.states["red_ticks"].max())
    assert max(left) == longest - 1


def test_a_copy_goes_on_in_its_scenario() -> None:
    simulator = played(VARIANTS["more-phishing"])
    copy = pickle.loads(pickle.dumps(simulator))
    for network in (simulator, copy):
        network.reset()
        for _ in range(60):
            network.step(SLEEP_ACTIONS)
    assert np.array_equal(simulator.states.view(np.uint8), copy.states.view(np.uint8))
    assert (simulator.states["scenario"]["phishing_rate"] == 0.75).all()
