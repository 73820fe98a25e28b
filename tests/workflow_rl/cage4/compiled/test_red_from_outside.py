"""Red agents whose choices come from outside: against CybORG, and by their rules."""

import copy

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.workflow_rl.cage4.lock_step import compare, episode_of
from workflow_rl.cage4.compiled import actions
from workflow_rl.cage4.compiled.red_simulator import RedSimulator
from workflow_rl.cage4.cyborg.simulators import make_simulator
from workflow_rl.cage4.red import red_api
from workflow_rl.cage4.red.red_api import FIRST_KNOWN, FIRST_RED_CHOICE, RED_CHOICES, RedAction
from workflow_rl.cage4.red.scripted import RED_TEAMS, ProgramReds
from workflow_rl.cage4.scenario.scenario4 import (
    FALSE,
    FROM_OUTSIDE,
    SLEEP_ACTIONS,
    TRUE,
)

CONTRACTOR = "contractor_network_subnet"


@pytest.mark.parametrize(("red", "seed"), zip(RED_TEAMS, (3, 4, 5), strict=True))
@pytest.mark.parametrize("simulator", ["cyborg", "published"])
def test_red_agents_see_and_do_what_they_do_in_cyborg(checkout, simulator, red, seed):
    n_steps = 60 if simulator == "cyborg" else 12
    pair = episode_of("restores", red, seed, n_steps)
    official, own = (
        make_simulator(name, FROM_OUTSIDE, n_steps + 1) for name in (simulator, "compiled")
    )
    assert compare(official, own, pair) == (n_steps, None, "")


def facts(simulator: RedSimulator, agent: int) -> tuple[list[int], list[int]]:
    """The success and the kind in an agent's observation, as numbers."""
    obs = simulator.rows[0, red_api.FIRST_RED_OBS[agent] :]
    success = obs[red_api.SUCCESS : red_api.KIND]
    return (
        (np.flatnonzero(success) + 1).tolist(),
        np.flatnonzero(obs[red_api.KIND : red_api.ACTIVE]).tolist(),
    )


def masks(simulator: RedSimulator) -> NDArray[np.uint8]:
    return simulator.rows[0, FIRST_RED_CHOICE[0] :]


def play(simulator: RedSimulator, choices: dict[int, int], sessions: int = FIRST_KNOWN) -> None:
    of_agents = [choices.get(agent, 0) for agent in range(len(RED_CHOICES))]
    simulator.choose([of_agents], sessions)
    simulator.step([SLEEP_ACTIONS])


def begun() -> RedSimulator:
    simulator = RedSimulator(1, 60)
    simulator.reset([7])
    return simulator


def discovery() -> int:
    return RED_CHOICES[0].index(RedAction("DiscoverRemoteSystems", CONTRACTOR))


def test_what_an_agent_discovers_it_may_scan_next():
    simulator = begun()
    before = masks(simulator).sum()
    play(simulator, {0: discovery()})
    assert facts(simulator, 0) == ([TRUE], [actions.DISCOVER])
    n_hosts = simulator.states["exists"][0, 4 * 17 + 1 : 5 * 17].sum()
    # Four kinds of actions need an address, and the start host was known before.
    assert masks(simulator).sum() - before == 4 * (n_hosts - 1)


def test_what_an_agent_does_not_know_is_an_invalid_action():
    simulator = begun()
    unknown = RED_CHOICES[0].index(RedAction("Impact", "restricted_zone_a_subnet_server_host_0"))
    assert not simulator.rows[0, FIRST_RED_CHOICE[0] + unknown]
    play(simulator, {0: unknown})
    assert facts(simulator, 0) == ([FALSE], [actions.WITHDRAW + 1])
    play(simulator, {0: discovery()}, sessions=3)
    assert facts(simulator, 0) == ([FALSE], [actions.WITHDRAW + 1])


def test_a_copy_goes_on_as_the_original():
    simulator, reds = begun(), ProgramReds()
    reds.reset(1)

    def choose() -> list[list[int]]:
        return [reds.act(simulator.rows[0], [[]] * 6)[0]]

    for _ in range(20):
        simulator.choose(choose())
        simulator.step([SLEEP_ACTIONS])
    other, saved = copy.copy(simulator), simulator.save()
    play(simulator, {0: 1})
    play(other, {0: 1})
    assert np.array_equal(simulator.rows, other.rows)
    assert np.array_equal(simulator.states, other.states)
    play(other, {})
    other.load(saved)
    play(other, {0: 1})
    assert np.array_equal(simulator.rows, other.rows)


@pytest.mark.parametrize("wrong", [[0, 0, 0, 0, 0, 396], [-1, 0, 0, 0, 0, 0], [0.5] * 6, [0] * 5])
def test_a_choice_that_is_none_is_refused(wrong):
    with pytest.raises(ValueError, match="choices"):
        begun().choose([wrong])
