from typing import Any

import numpy as np
import pytest

from tests.workflow_rl.cage2.lock_step import LockStep
from workflow_rl.cage2.agent.red_scripted import DRAWN_REDS, DrawnRed, possible_action
from workflow_rl.cage2.agent.scripted import MixedAgent, make_blue_agent
from workflow_rl.cage2.compiled import red_simulator
from workflow_rl.cage2.compiled.red_simulator import RedSimulator
from workflow_rl.cage2.compiled.red_steps import OUTSIDE
from workflow_rl.cage2.compiled.state import MAX_PORTS
from workflow_rl.cage2.scenario.scenario import Scenario
from workflow_rl.cage2.scenario2 import ACTION_NAMES, RED_ACTION_NAMES, RED_OBS_SIZE

BLUES = ("sleep", "mixed-decoys", "all-kinds")


@pytest.mark.parametrize(
    ("what", "fault"),
    [
        ("red_observation", ("observation_of", lambda *_: {"success": None})),
        ("red_row", ("step_reds", None)),
    ],
)
def test_a_difference_in_what_red_sees_is_found(monkeypatch, what, fault):
    name, stand_in = fault
    step = red_simulator.step_reds

    def step_with_fault(*arguments: Any) -> int:
        failed = step(*arguments)
        arguments[-1][:, 4] ^= 1
        return failed

    monkeypatch.setattr(red_simulator, name, stand_in or step_with_fault)
    red = DRAWN_REDS["possible-action"]
    difference = LockStep().play(make_blue_agent("sleep"), red, 0)
    assert set(difference.what) == {what}


def test_both_actions_at_once_play_as_one_after_the_other():
    """`play_both`, which red envs use, beside the attackers that lock-steps ask."""
    n, steps = 30, 100
    draws = np.random.default_rng(0)
    simulator, at = RedSimulator(n, steps), np.ones(n, np.bool_)
    simulator.reset(np.arange(n), OUTSIDE)
    told = np.zeros(n, np.int64)

    class Told:
        def begin(self, *_: Any) -> None:
            pass

        def act(self, envs: Any, seen: Any) -> Any:
            assert np.array_equal(seen.rows, simulator.rows)
            return told

    asking = RedSimulator(n, steps, {"told": Told()})
    asking.reset(np.arange(n), OUTSIDE)
    for step in range(steps):
        blues = draws.integers(len(ACTION_NAMES), size=n) * (step % 3 == 0)
        told = np.array([possible_action(row[RED_OBS_SIZE:], draws) for row in simulator.rows])
        asking.play(blues, at)
        simulator.play_both(blues, told, at)
        assert simulator.states.tobytes() == asking.states.tobytes()
        assert np.array_equal(simulator.obs, asking.obs)
        assert np.array_equal(simulator.rewards, asking.rewards)
    assert simulator.rewards.min() < -2


def test_a_refused_action_is_told_as_cyborg_tells_it():
    simulator = RedSimulator(1)
    simulator.reset(0, OUTSIDE)
    simulator.play_both(np.array([0]), np.array([43]), np.ones(1, np.bool_))
    assert simulator.facts[0, 1:4].tolist() == [-1, -1, 0]


def test_a_red_that_scans_many_decoys_again_and_again():
    """More ports are in use than the record of the simulator's own red agents has room for."""

    targets = ("User3", "User4", "Enterprise0")
    scans = [RED_ACTION_NAMES.index(f"DiscoverNetworkServices {host}") for host in targets]
    sweep = RED_ACTION_NAMES.index("DiscoverRemoteSystems User")

    def scan(mask: Any, random: np.random.Generator) -> int:
        possible = [action for action in scans if mask[action]]
        return int(random.choice(possible)) if possible else sweep

    lock_step = LockStep(networks=True)
    blue = MixedAgent({"DecoyVsftpd User3": 0.5, "DecoyVsftpd User4": 0.5}, Scenario.scenario2())
    difference = lock_step.play(blue, DrawnRed(scan), 5)
    assert difference is None, str(difference)
    _, compiled = lock_step.sides(from_outside=True)
    n_used = np.unpackbits(compiled.simulator.state["port_bits"].view(np.uint8)).sum()
    assert n_used > 2 * MAX_PORTS
