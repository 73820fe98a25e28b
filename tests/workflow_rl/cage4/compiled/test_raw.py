"""Raw observations of the compiled simulator: dictionaries, and the arrays beside them."""

from typing import Any

import numpy as np
import pytest

from workflow_rl.cage.network_batch import SimulationError
from workflow_rl.cage4.agent.raw_record import MAX_SOURCES, RAW
from workflow_rl.cage4.compiled.batched_simulator import BatchedSimulator
from workflow_rl.cage4.compiled.hosts import OLD_PROCESSES
from workflow_rl.cage4.scenario.scenario4 import SLEEP_ACTIONS


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
