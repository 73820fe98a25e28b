"""Other scenarios than the challenge's: what CybORG plays, and all simulators in lock-step."""

import itertools

import pytest

from tests.workflow_rl.cage4.lock_step import compare, episode_of
from workflow_rl.cage4.agent.scripted import TEAMS
from workflow_rl.cage4.cyborg.simulators import make_simulator
from workflow_rl.cage4.cyborg.stock import StockSimulator
from workflow_rl.cage4.scenario.scenario4 import CHALLENGE, RED_AGENTS, VARIANTS, Scenario

pytestmark = pytest.mark.system

ALL_CHANGED = Scenario(0.5, 0.25, 0.375, 0.125, 2, 4, 5)
SMALLEST = Scenario(users=1, servers=1)
SCENARIOS = {**VARIANTS, "all-changed": ALL_CHANGED, "smallest": SMALLEST}
PUBLISHED, SPED_UP = ("published", "compiled"), ("cyborg", "compiled")


@pytest.mark.parametrize("name", list(SCENARIOS))
def test_the_compiled_simulator_plays_as_cyborg_as_published(checkout, name):
    made = (make_simulator(kind, max_steps=24, scenario=SCENARIOS[name]) for kind in PUBLISHED)
    steps, difference, error = compare(*made, episode_of("random", RED_AGENTS[0], 5, 8), 1)
    assert (steps, difference, error) == (8, None, "")


@pytest.mark.parametrize("red_agent", [RED_AGENTS[0], RED_AGENTS[2]])
@pytest.mark.parametrize("name", list(SCENARIOS))
def test_the_compiled_simulator_plays_as_cyborg_sped_up(checkout, name, red_agent):
    made = (make_simulator(kind, red_agent, scenario=SCENARIOS[name]) for kind in SPED_UP)
    steps, difference, error = compare(*made, episode_of("decoys", red_agent, 6, 80))
    assert (steps, difference, error) == (80, None, "")


@pytest.mark.slow
@pytest.mark.timeout(4 * 3600)
@pytest.mark.parametrize("name", list(SCENARIOS))
def test_whole_episodes_are_cyborgs(checkout, name):
    pairs = itertools.islice(itertools.cycle(itertools.product(TEAMS, RED_AGENTS)), 60)
    for seed, (blue, red_agent) in enumerate(pairs, start=9_100_000):
        made = (make_simulator(kind, red_agent, scenario=SCENARIOS[name]) for kind in SPED_UP)
        _, difference, _ = compare(*made, episode_of(blue, red_agent, seed))
        assert difference is None, str(difference)


@pytest.mark.slow
@pytest.mark.timeout(4 * 3600)
@pytest.mark.parametrize("name", list(VARIANTS))
def test_whole_episodes_are_cyborgs_as_published(checkout, name):
    for seed, (blue, red_agent) in enumerate(
        [
            *itertools.product(("random", "sleep", "rules"), RED_AGENTS[:1]),
            ("decoys", RED_AGENTS[2]),
        ]
    ):
        made = (make_simulator(kind, red_agent, scenario=SCENARIOS[name]) for kind in PUBLISHED)
        _, difference, _ = compare(*made, episode_of(blue, red_agent, seed), 1)
        assert difference is None, str(difference)


def test_the_challenge_is_played_by_cyborgs_own_classes(checkout):
    """Also after a second reset, when agents are made anew."""
    simulator = StockSimulator(RED_AGENTS[0], 500, CHALLENGE)
    simulator.reset(1)
    simulator.reset(2)
    controller = simulator._controller
    parts = [controller.scenario_generator]
    parts += [interface.agent for interface in controller.agent_interfaces.values()]
    assert all(type(part).__module__.startswith("CybORG.") for part in parts)
