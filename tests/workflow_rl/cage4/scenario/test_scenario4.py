import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from workflow_rl.cage4.cyborg.stock import StockSimulator
from workflow_rl.cage4.scenario.scenario4 import (
    ACTIONS,
    AGENT_HOSTS,
    AGENTS,
    CHALLENGE,
    N_ACTIONS,
    SLEEP_ACTIONS,
    Scenario,
)


def test_counts_and_sleeps() -> None:
    assert tuple(map(len, ACTIONS)) == N_ACTIONS
    assert [len(hosts) for hosts in AGENT_HOSTS] == [16, 16, 16, 16, 48]
    sleeps = [actions[i].kind for actions, i in zip(ACTIONS, SLEEP_ACTIONS, strict=True)]
    assert sleeps == ["Sleep"] * 5


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"phishing_rate": 1.01}, "phishing_rate=1.01: choose 0 to 1"),
        ({"false_alert_rate": float("nan")}, "false_alert_rate=nan: choose 0 to 1"),
        ({"stealth_scan_detection": "0.5"}, "stealth_scan_detection='0.5': choose 0 to 1"),
        ({"longest_red_action": 5}, "longest_red_action=5: choose 1 to 4"),
        ({"users": 0}, "users=0: choose 1 to 10"),
        ({"servers": 2.5}, "servers=2.5: choose 1 to 6"),
        ({"users": True}, "users=True: choose 1 to 10"),
        ({"phishing_rate": True}, "phishing_rate=True: choose 0 to 1"),
        ({"longest_red_action": 4.0}, "longest_red_action=4.0: choose 1 to 4"),
    ],
)
def test_a_scenario_out_of_range_is_refused(values: Any, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        Scenario(**values)


def test_numpys_numbers_become_pythons() -> None:
    scenario = Scenario(users=np.int64(3), phishing_rate=np.float32(0.5))  # type: ignore[arg-type]
    assert scenario == Scenario(users=3, phishing_rate=0.5)
    assert json.dumps(asdict(scenario))


def test_a_scenario_tells_what_it_changes() -> None:
    assert CHALLENGE.changes == ""
    assert Scenario(phishing_rate=0.75, users=6).changes == "phishing rate 0.75, users 6"


def test_a_scenario_is_found_among_other_values() -> None:
    found = Scenario.among({"red_agent": "SleepAgent", "phishing_rate": 0.5, "servers": None})
    assert found == Scenario(phishing_rate=0.5)


def test_names_are_those_of_cyborgs_wrapper(checkout: Path) -> None:
    simulator = StockSimulator("SleepAgent", 500)
    simulator.reset(1)
    for agent, actions, mask in zip(AGENTS, ACTIONS, simulator.masks, strict=True):
        labels = simulator._env.action_labels(agent)
        assert len(labels) == len(actions)
        for label, action, possible in zip(labels, actions, mask, strict=True):
            words = label.removeprefix("[Invalid] ").split()
            assert label.startswith("[Invalid]") != possible
            assert words[0] == action.kind
            # Traffic: "Kind to (cidr) <- from (cidr)".
            names = words[1:2] if len(words) < 3 else [words[1], words[4]]
            expected = [name for name in (action.host, action.to_zone, action.from_zone) if name]
            assert names == expected
        assert np.array_equal(mask, simulator._env.action_mask(agent))
