"""What every simulator takes and refuses."""

import copy
import pickle
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from workflow_rl.cage4.cyborg.simulators import make_simulator
from workflow_rl.cage4.scenario.scenario4 import SLEEP_ACTIONS
from workflow_rl.cage4.scenario.simulator_protocol import SIMULATORS, Simulator


@pytest.fixture(scope="module", params=SIMULATORS)
def simulator(request: pytest.FixtureRequest, checkout: Path) -> Simulator:
    made = make_simulator(request.param, max_steps=20)
    made.reset(1)
    return made


@pytest.mark.parametrize("seed", [1.5, True, -1, "1", np.float64(2.0)])
def test_wrong_seeds_are_refused(simulator, seed):
    before = simulator.generator_state()
    for begin in (simulator.reset, simulator.start_stream):
        with pytest.raises(ValueError, match=re.escape(f"seed={seed!r}: ")):
            begin(seed)
    assert simulator.generator_state() == before


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ([[1.7, *SLEEP_ACTIONS[1:]]], r"actions\[0\]=1\.7: a whole number is needed"),
        ([np.array([3.0] * 5)], r"actions\[0\]=.*3\.0.*: a whole number is needed"),
        ([[True] * 5], r"actions\[0\]=True: a whole number is needed"),
        ([[0, 0, -1, 0, 0]], r"actions\[2\]=-1: choose 0 to 81"),
        ([[0, 0, 0, 0, 242]], r"actions\[4\]=242: choose 0 to 241"),
        ([[3]], "actions: 5 are needed, not 1"),
        ([SLEEP_ACTIONS, np.zeros(8)], r"messages: an array of \(5, 8\) is .*, not of \(8,\)"),
        ([SLEEP_ACTIONS, np.zeros((4, 8))], r"messages: an array of \(5, 8\) .*, not of \(4, 8\)"),
        ([SLEEP_ACTIONS, np.full((5, 8), 2)], "messages: zeros and ones are needed, not 2"),
        ([SLEEP_ACTIONS, np.full((5, 8), 0.5)], r"messages: zeros and ones .*, not 0\.5"),
    ],
)
def test_wrong_actions_and_messages_are_refused(simulator, given, words):
    before = simulator.true_state()
    with pytest.raises(ValueError, match=words):
        simulator.step(*given)
    assert simulator.true_state() == before


def test_numpys_numbers_and_plain_lists_are_taken(simulator):
    simulator.reset(np.int64(3))  # type: ignore[arg-type]
    sent: Any = [[1, 0, 0, 0, 0, 0, 0, 1]] * 5
    first = simulator.step(np.array(SLEEP_ACTIONS, np.uint8), sent)  # type: ignore[arg-type]
    simulator.reset(3)
    second = simulator.step(list(SLEEP_ACTIONS), np.array(sent, np.bool_))
    assert first.reward == second.reward
    for shown, other in zip(first.observations, second.observations, strict=True):
        assert np.array_equal(shown, other)
    assert first.observations[0][-32:].sum() == 8


@pytest.mark.parametrize("name", SIMULATORS[1:])
@pytest.mark.parametrize("way", [copy.copy, copy.deepcopy, pickle.dumps])
def test_networks_of_cyborg_are_not_copied(checkout, name, way):
    with pytest.raises(TypeError, match="cannot be copied: choose simulator='compiled'"):
        way(make_simulator(name, max_steps=20))
