"""CybORG sped up against CybORG as published, and against stored episodes of the latter."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.workflow_rl.cage4.conftest import BESIDE_THE_REPOSITORY
from tests.workflow_rl.cage4.digests import state_digest
from tests.workflow_rl.cage4.lock_step import compare, episode_of
from workflow_rl.cage4.cyborg.sped_up import SpedUpNetwork
from workflow_rl.cage4.cyborg.stock import StockSimulator
from workflow_rl.cage4.interface import SimulationError
from workflow_rl.cage4.scenario4 import RED_AGENTS

pytestmark = pytest.mark.system

TRACES = BESIDE_THE_REPOSITORY / "traces.npz"


@pytest.mark.parametrize(
    ("blue", "red_agent"),
    list(zip(("random", "restores", "blocks", "decoys"), RED_AGENTS, strict=True)),
)
def test_short_episodes_are_those_of_cyborg_as_published(
    checkout: Path, blue: str, red_agent: str
) -> None:
    stock, sped_up = StockSimulator(red_agent, 24), SpedUpNetwork(red_agent, 24)
    steps, difference, error = compare(
        stock, sped_up, episode_of(blue, red_agent, 7, 13), state_every=4
    )
    assert (steps, difference, error) == (13, None, "")


def test_a_step_past_the_end_fails_in_both(checkout: Path) -> None:
    stock, sped_up = StockSimulator("SleepAgent", 3), SpedUpNetwork("SleepAgent", 3)
    steps, difference, error = compare(stock, sped_up, episode_of("sleep", "SleepAgent", 1, 9))
    assert (steps, difference) == (4, None)
    assert error.startswith("CybORG fails in step 4: ValueError: Step number (3) exceeds")


def test_a_stream_goes_on_as_in_cyborg(checkout: Path) -> None:
    simulators = [StockSimulator(RED_AGENTS[0], 500), SpedUpNetwork(RED_AGENTS[0], 500)]
    for simulator in simulators:
        simulator.start_stream(11)
        simulator.reset()
        simulator.step([49, 49, 49, 49, 145])
    first, second = (simulator.reset() for simulator in simulators)
    assert all(np.array_equal(a, b) for a, b in zip(first, second, strict=True))
    assert simulators[0].generator_state() == simulators[1].generator_state()
    assert simulators[0].true_state() == simulators[1].true_state()


@pytest.mark.skipif(not TRACES.is_file(), reason="stored episodes are not beside the repository")
@pytest.mark.parametrize("name", ["random_2_120", "sleep_11_499"])
def test_stored_episodes_are_repeated(checkout: Path, name: str) -> None:
    with np.load(TRACES) as traces:
        stored = {key: traces[f"{name}/{key}"] for key in ("obs", "mask", "actions", "messages")}
        stored |= {key: traces[f"{name}/{key}"] for key in ("rewards", "done", "state", "rng")}
    simulator = SpedUpNetwork(RED_AGENTS[0], 500)
    observations = simulator.reset(int(name.split("_")[1]))
    assert np.array_equal(np.concatenate(simulator.masks), stored["mask"])
    for t, actions in enumerate(stored["actions"]):
        assert np.array_equal(np.concatenate(observations), stored["obs"][t]), t
        assert simulator.generator_state() == tuple(map(int, stored["rng"][t])), t
        if t % 60 == 0:
            assert state_digest(simulator.true_state()) == bytes(stored["state"][t]), t
        result = simulator.step(actions.tolist(), stored["messages"][t])
        observations = result.observations
        assert [result.machine_reward, result.action_cost] == stored["rewards"][t].tolist(), t
        assert result.done == stored["done"][t]
    assert state_digest(simulator.true_state()) == bytes(stored["state"][-1])


def test_busy_agents_are_told(checkout: Path) -> None:
    simulator = SpedUpNetwork("SleepAgent", 500)
    simulator.reset(1)
    restore = int(np.flatnonzero(simulator.masks[0][33:49])[0]) + 33
    steps = []
    for action in (restore, 49, restore, 49, 49, 49):
        result = simulator.step([action, 49, 49, 49, 145])
        steps.append((int(simulator.busy_steps[0]), result.action_cost))
    # A Restore takes five steps, and the one handed in meanwhile costs without being played.
    assert steps == [(4, -1), (3, 0), (2, -1), (1, 0), (0, 0), (0, 0)]


def test_what_cyborg_raises_is_told_with_its_step(
    checkout: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    simulator = SpedUpNetwork("SleepAgent", 500)
    simulator.reset(1)

    def no_route() -> None:
        raise KeyError("nowhere")

    monkeypatch.setattr(simulator._controller, "_move_sessions", no_route)
    with pytest.raises(SimulationError, match="CybORG fails in step 1: KeyError: 'nowhere'"):
        simulator.step([49, 49, 49, 49, 145])
