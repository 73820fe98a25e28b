from __future__ import annotations

from pathlib import Path

import numpy as np

from workflow_rl.cage4.cyborg.stock import StockSimulator
from workflow_rl.cage4.scenario4 import ACTIONS, AGENT_HOSTS, AGENTS, N_ACTIONS, SLEEP_ACTIONS


def test_counts_and_sleeps() -> None:
    assert tuple(map(len, ACTIONS)) == N_ACTIONS
    assert [len(hosts) for hosts in AGENT_HOSTS] == [16, 16, 16, 16, 48]
    sleeps = [actions[i].kind for actions, i in zip(ACTIONS, SLEEP_ACTIONS, strict=True)]
    assert sleeps == ["Sleep"] * 5


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
