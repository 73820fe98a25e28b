"""Stored digests of CybORG's episodes, and simulators of a checkout in lock-step."""

import itertools

import pytest

from tests.kept.cage4_digests import episode_digests
from tests.kept.test_cage4_digests import stored_digests
from tests.workflow_rl.cage4.lock_step import compare, episode_of
from workflow_rl.cage4.agent.scripted import TEAMS
from workflow_rl.cage4.compiled.simulator import CompiledSimulator
from workflow_rl.cage4.cyborg.simulators import make_simulator
from workflow_rl.cage4.scenario.scenario4 import RED_AGENTS

pytestmark = pytest.mark.system


STORED = stored_digests()


@pytest.mark.parametrize("pair", list(STORED), ids=str)
def test_episodes_are_those_of_cyborg(pair):
    digests = episode_digests(CompiledSimulator(pair.red_agent, 500), pair)
    assert STORED[pair].first_difference(digests) is None


@pytest.mark.parametrize("names", [("compiled", "cyborg"), ("cyborg", "published")], ids="-".join)
@pytest.mark.parametrize(
    ("blue", "red_agent"),
    list(zip(("random", "restores", "blocks", "decoys"), RED_AGENTS, strict=True)),
)
def test_simulators_show_the_same(checkout, names, blue, red_agent):
    """Raw observations included."""
    n_steps = 14 if "published" in names else 32
    sides = (make_simulator(name, red_agent, 60) for name in names)
    compared = compare(*sides, episode_of(blue, red_agent, 3, n_steps), state_every=4)
    assert compared == (n_steps, None, "")


@pytest.mark.slow
@pytest.mark.timeout(8 * 3600)
def test_simulators_show_the_same_in_whole_episodes(checkout):
    pairs = itertools.islice(itertools.cycle(itertools.product(TEAMS, RED_AGENTS)), 200)
    for seed, (blue, red_agent) in enumerate(pairs, start=5_700_000):
        first, second = (make_simulator(name, red_agent) for name in ("cyborg", "compiled"))
        _, difference, _ = compare(first, second, episode_of(blue, red_agent, seed))
        assert difference is None, str(difference)


@pytest.mark.parametrize("name", ["cyborg", "compiled"])
def test_a_step_past_the_end_fails_as_in_cyborg(checkout, name):
    stock, own = (make_simulator(one, "SleepAgent", 4) for one in ("published", name))
    steps, difference, error = compare(stock, own, episode_of("sleep", "SleepAgent", 1, 9))
    assert (steps, difference) == (5, None)
    assert error.startswith("CybORG fails in step 5: ValueError: Step number (4) exceeds")
