"""Raw observations: of all simulators in lock-step, and the arrays beside the dictionaries."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.workflow_rl.cage4.lock_step import compare, episode_of
from workflow_rl.cage.network_batch import SimulationError
from workflow_rl.cage4.agent.raw_record import MAX_SOURCES, RAW
from workflow_rl.cage4.agent.scripted import TEAMS, make_scripted_team
from workflow_rl.cage4.compiled.batched_simulator import BatchedSimulator
from workflow_rl.cage4.compiled.hosts import OLD_PROCESSES
from workflow_rl.cage4.cyborg.simulators import make_simulator
from workflow_rl.cage4.scenario.scenario4 import RED_AGENTS, SLEEP_ACTIONS
from workflow_rl.cage4.scenario.simulator_protocol import SIMULATORS


@pytest.mark.parametrize("names", list(itertools.pairwise(SIMULATORS)), ids="-".join)
@pytest.mark.parametrize("red_agent", RED_AGENTS)
def test_simulators_show_the_same(checkout: Path, red_agent: str, names: tuple[str, ...]) -> None:
    first, second = (make_simulator(name, red_agent, 60) for name in names)
    steps, difference, error = compare(first, second, episode_of("random", red_agent, 3, 32))
    assert (steps, difference, error) == (32, None, "")


@pytest.mark.slow
@pytest.mark.timeout(8 * 3600)
def test_simulators_show_the_same_in_whole_episodes(checkout: Path) -> None:
    pairs = itertools.islice(itertools.cycle(itertools.product(TEAMS, RED_AGENTS)), 200)
    for seed, (blue, red_agent) in enumerate(pairs, start=5_700_000):
        first, second = (make_simulator(name, red_agent) for name in ("cyborg", "compiled"))
        _, difference, _ = compare(first, second, episode_of(blue, red_agent, seed))
        assert difference is None, str(difference)


def test_a_network_that_was_asked_goes_on_alike() -> None:
    asked, other = (make_simulator("compiled") for _ in range(2))
    team = make_scripted_team("random")
    observations, _ = asked.reset(8), other.reset(8)
    team.reset(asked.masks, 8)
    for _ in range(40):
        actions, messages = team.act_in(asked, observations)
        assert asked.raw_observations() == asked.raw_observations()
        observations = asked.step(actions, messages).observations
        other.step(actions, messages)
    assert asked.true_state() == other.true_state()
    assert asked.raw_observations() == other.raw_observations()


def test_without_arrays_there_is_none() -> None:
    simulator = BatchedSimulator(2)
    simulator.reset([1, 2])
    assert len(simulator.raw) == 0


def test_arrays_belong_to_a_snapshot_and_begin_empty() -> None:
    simulator = BatchedSimulator(2, shows_raw=True)
    simulator.reset([1, 2])
    empty = simulator.save()
    for _ in range(60):
        simulator.step(SLEEP_ACTIONS)
    later = simulator.save()
    assert fields_of(later[-1]) != fields_of(empty[-1])
    simulator.reset([1, 2])
    assert fields_of(simulator.raw) == fields_of(empty[-1])
    simulator.load(later)
    assert fields_of(simulator.raw) == fields_of(later[-1])


def fields_of(raw: Any) -> list[Any]:
    return [raw[name].tolist() for name in RAW.names]


def test_more_shells_than_fit_are_told() -> None:
    simulator = BatchedSimulator(2, shows_raw=True)
    simulator.reset([1, 2])
    first = int(simulator.states["n_cells"][1])
    cells = simulator.states["cells"][1]
    for cell in range(first, first + MAX_SOURCES + 1):
        cells[cell]["pid"] = cell
        cells[cell]["next"] = cell + 1 if cell < first + MAX_SOURCES else 0
    simulator.states["events"][1, 3, OLD_PROCESSES] = first
    with pytest.raises(SimulationError, match="env 1: a host shows more than 6 sources or shells"):
        simulator._write_raw(np.ones(2, np.bool_))
