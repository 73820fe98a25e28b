"""The compiled simulator against CybORG: stored digests, and in lock-step with a checkout."""

import pytest

from tests.kept.cage4_digests import episode_digests
from tests.kept.test_cage4_digests import stored_digests
from tests.workflow_rl.cage4.lock_step import compare, episode_of
from workflow_rl.cage.network_batch import SimulationError
from workflow_rl.cage4.compiled.simulator import CompiledSimulator
from workflow_rl.cage4.cyborg.stock import StockSimulator
from workflow_rl.cage4.scenario.scenario4 import RED_AGENTS, SLEEP_ACTIONS

pytestmark = pytest.mark.system


STORED = stored_digests()


@pytest.mark.parametrize("pair", list(STORED), ids=str)
def test_episodes_are_those_of_cyborg(pair):
    digests = episode_digests(CompiledSimulator(pair.red_agent, 500), pair)
    assert STORED[pair].first_difference(digests) is None


@pytest.mark.parametrize(
    ("blue", "red_agent"),
    list(zip(("restores", "bursts", "decoys", "random"), RED_AGENTS, strict=True)),
)
def test_networks_are_those_of_cyborg_as_published(checkout, blue, red_agent):
    stock, own = StockSimulator(red_agent, 24), CompiledSimulator(red_agent, 24)
    pair = episode_of(blue, red_agent, 5, 14)
    steps, difference, error = compare(stock, own, pair, state_every=1)
    assert (steps, difference, error) == (14, None, "")


def test_a_step_past_the_end_fails_in_both(checkout):
    stock, own = StockSimulator("SleepAgent", 4), CompiledSimulator("SleepAgent", 4)
    steps, difference, error = compare(stock, own, episode_of("sleep", "SleepAgent", 1, 9))
    assert (steps, difference) == (5, None)
    assert error
    with pytest.raises(SimulationError, match="step 4 exceeds the last phase"):
        own.step(SLEEP_ACTIONS)
