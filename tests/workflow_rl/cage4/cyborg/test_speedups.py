"""CybORG sped up: streams of episodes, and errors. `compiled.test_parity` compares its steps."""

import numpy as np
import pytest

from workflow_rl.cage.network_batch import SimulationError
from workflow_rl.cage4.compiled.simulator import CompiledSimulator
from workflow_rl.cage4.cyborg.sped_up import SpedUpNetwork
from workflow_rl.cage4.cyborg.stock import StockSimulator
from workflow_rl.cage4.scenario.scenario4 import RED_AGENTS

pytestmark = pytest.mark.system


def test_a_stream_goes_on_as_in_cyborg(checkout):
    kinds = (StockSimulator, SpedUpNetwork, CompiledSimulator)
    stock, *others = simulators = [kind(RED_AGENTS[0], 500) for kind in kinds]
    for simulator in simulators:
        simulator.start_stream(11)
        simulator.reset()
        simulator.step([49, 49, 49, 49, 145])
    first = np.concatenate(stock.reset())
    for other in others:
        assert np.array_equal(np.concatenate(other.reset()), first)
        assert other.generator_state() == stock.generator_state()
        assert other.true_state() == stock.true_state()


def test_what_cyborg_raises_is_told_with_its_step(checkout, monkeypatch):
    simulator = SpedUpNetwork("SleepAgent", 500)
    simulator.reset(1)

    def no_route() -> None:
        raise KeyError("nowhere")

    monkeypatch.setattr(simulator._controller, "_move_sessions", no_route)
    with pytest.raises(SimulationError, match="CybORG fails in step 1: KeyError: 'nowhere'"):
        simulator.step([49, 49, 49, 49, 145])
