"""The compiled simulator against CybORG: stored digests, and in lock-step with a checkout."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.workflow_rl.cage4.conftest import BESIDE_THE_REPOSITORY
from tests.workflow_rl.cage4.digests import episode_digests, state_digest
from tests.workflow_rl.cage4.lock_step import compare, episode_of
from tests.workflow_rl.cage4.test_digests import stored_digests
from workflow_rl.cage.comparison import ComparedEpisode
from workflow_rl.cage4.compiled.simulator import CompiledSimulator
from workflow_rl.cage4.cyborg.stock import StockSimulator
from workflow_rl.cage4.interface import SimulationError
from workflow_rl.cage4.scenario4 import RED_AGENTS, SLEEP_ACTIONS

pytestmark = pytest.mark.system

TRACES = BESIDE_THE_REPOSITORY / "traces.npz"


STORED = stored_digests()


@pytest.mark.parametrize("pair", list(STORED), ids=str)
def test_episodes_are_those_of_cyborg(pair: ComparedEpisode) -> None:
    digests = episode_digests(CompiledSimulator(pair.red_agent, 500), pair)
    assert STORED[pair].first_difference(digests) is None


@pytest.mark.parametrize(
    ("blue", "red_agent"),
    list(zip(("restores", "bursts", "decoys", "random"), RED_AGENTS, strict=True)),
)
def test_networks_are_those_of_cyborg_as_published(
    checkout: Path, blue: str, red_agent: str
) -> None:
    stock, own = StockSimulator(red_agent, 24), CompiledSimulator(red_agent, 24)
    pair = episode_of(blue, red_agent, 5, 14)
    steps, difference, error = compare(stock, own, pair, state_every=1)
    assert (steps, difference, error) == (14, None, "")


def test_a_step_past_the_end_fails_in_both(checkout: Path) -> None:
    stock, own = StockSimulator("SleepAgent", 4), CompiledSimulator("SleepAgent", 4)
    steps, difference, error = compare(stock, own, episode_of("sleep", "SleepAgent", 1, 9))
    assert (steps, difference) == (5, None)
    assert error
    with pytest.raises(SimulationError, match="step 4 exceeds the last phase"):
        own.step(SLEEP_ACTIONS)


def test_a_stream_goes_on_as_in_cyborg(checkout: Path) -> None:
    simulators = [StockSimulator(RED_AGENTS[0], 500), CompiledSimulator(RED_AGENTS[0], 500)]
    for simulator in simulators:
        simulator.start_stream(11)
        simulator.reset()
        simulator.step(SLEEP_ACTIONS)
    first, second = (simulator.reset() for simulator in simulators)
    assert all(np.array_equal(a, b) for a, b in zip(first, second, strict=True))
    assert simulators[0].generator_state() == simulators[1].generator_state()
    assert simulators[0].true_state() == simulators[1].true_state()


@pytest.mark.skipif(not TRACES.is_file(), reason="stored episodes are not beside the repository")
@pytest.mark.parametrize(
    "name",
    [
        "random_2_120",
        *(pytest.param(name, marks=pytest.mark.slow) for name in ("random_10_499", "sleep_11_499")),
    ],
)
def test_stored_episodes_are_repeated(name: str) -> None:
    keys = ("obs", "mask", "actions", "messages", "rewards", "done", "state", "rng")
    with np.load(TRACES) as traces:
        stored = {key: traces[f"{name}/{key}"] for key in keys}
    own = CompiledSimulator(RED_AGENTS[0], 500)
    observations = own.reset(int(name.split("_")[1]))
    assert np.array_equal(np.concatenate(own.masks), stored["mask"])
    for step in range(len(stored["actions"])):
        assert np.array_equal(np.concatenate(observations), stored["obs"][step])
        assert own.generator_state() == tuple(map(int, stored["rng"][step]))
        assert state_digest(own.true_state()) == stored["state"][step].tobytes()
        result = own.step(stored["actions"][step].tolist(), stored["messages"][step])
        assert [result.machine_reward, result.action_cost] == stored["rewards"][step].tolist()
        assert result.done == stored["done"][step]
        observations = result.observations
