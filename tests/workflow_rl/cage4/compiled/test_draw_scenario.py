import numpy as np
import pytest

from workflow_rl.cage4.compiled.batched_simulator import BatchedSimulator
from workflow_rl.cage4.compiled.constants import N_LAN
from workflow_rl.cage4.compiled.hosts import CONNECTIONS
from workflow_rl.cage4.scenario.scenario4 import SLEEP_ACTIONS, Scenario

N_ENVS = 4
STEPS = 200


def alerts_and_mails(scenario: Scenario) -> tuple[int, int]:
    """Return the processes that blue sees falsely, and the sessions that red gets by mail."""
    simulator = BatchedSimulator(N_ENVS, 500, "SleepAgent", shows_raw=True, scenario=scenario)
    simulator.reset(range(N_ENVS))
    n_alerts, n_before = 0, int(simulator.states["n_sessions"].sum())
    for _ in range(STEPS):
        simulator.step(SLEEP_ACTIONS)
        n_alerts += int(simulator.raw["false_alerts"].sum())
    return n_alerts, int(simulator.states["n_sessions"].sum()) - n_before


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
    """Of greens in 200 steps, a third work. Blue sees all zones but one."""
    assert alerts_and_mails(Scenario(phishing_rate=0, false_alert_rate=0)) == (0, 0)
    always, _ = alerts_and_mails(Scenario(phishing_rate=0, false_alert_rate=1, users=6))
    assert always == pytest.approx(N_ENVS * STEPS * 6 * (N_LAN - 1) / 3, rel=0.05)
    (_, more), (_, some) = map(alerts_and_mails, (Scenario(phishing_rate=0.75), Scenario()))
    assert more > some > 0


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
