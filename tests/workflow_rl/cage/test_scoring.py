from __future__ import annotations

import pytest

from workflow_rl.cage.scoring import PlayedTwice, SimulatorsDifferError, checked


def test_equal_totals_are_counted() -> None:
    episodes = [PlayedTwice("0", -1.5, -1.5), PlayedTwice("7", -2.0, -2.0)]
    assert checked(episodes, "CybORG 4") == "2 of 2 episodes have the same total on CybORG 4."


def test_another_total_is_an_error_that_names_the_episode() -> None:
    episodes = [PlayedTwice("0", -1.5, -1.5), PlayedTwice("7 (B_lineAgent, 30 steps)", -2.0, -2.1)]
    with pytest.raises(SimulatorsDifferError) as raised:
        checked(episodes, "csle-cyborg 0.0.3")
    assert "7 (B_lineAgent, 30 steps)" in str(raised.value)
    assert "-2.0 in compiled code" in str(raised.value)
    assert "-2.1 on csle-cyborg 0.0.3" in str(raised.value)
